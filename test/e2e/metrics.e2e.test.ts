// Catches: a run that several processes had in hand and that is counted twice, or not at all, by what they export.
import { expect, inject, onTestFinished, test, vi } from "vitest";
import { createDrover } from "../../src/drover.ts";
import { createSilentLogger } from "../../src/telemetry/logger.ts";
import { createNoTelemetry } from "../../src/telemetry/no-telemetry.ts";
import { startFakeOpenai, turnOf } from "../support/fake-openai.ts";
import { startGate } from "../support/gate.ts";
import { type OtlpReceiver, startOtlpReceiver } from "../support/otlp-receiver.ts";
import { deletePrefix, testPrefix } from "../support/redis.ts";
import { startTraceProcess } from "../support/trace-process.ts";

/** Over all processes: the sum of a counter, or of a histogram's counts. */
function total(receiver: OtlpReceiver, name: string): number {
  const points = receiver.points().filter((point) => point.name === name);
  return points.reduce((sum, { count, value }) => sum + (count ?? value), 0);
}

test("a run whose worker is killed and that another goes on with is counted once by what each of them committed", async () => {
  const redisUrl = inject("redisUrl");
  const prefix = testPrefix();
  onTestFinished(() => deletePrefix(redisUrl, prefix));
  const receiver = await startOtlpReceiver();
  onTestFinished(() => receiver.close());
  const server = await startFakeOpenai({
    respond: ({ body }) => (turnOf(body) === 1 ? { toolCalls: [{ name: "look", arguments: { note: "a" } }] } : "done"),
  });
  onTestFinished(() => server.stop());
  const gate = await startGate();
  onTestFinished(() => gate.stop());
  const drover = createDrover({
    ...{ redis: redisUrl, prefix, logger: createSilentLogger(), telemetry: createNoTelemetry() },
  });
  onTestFinished(() => drover.close());
  const options = { redisUrl, prefix, baseURL: server.url, gateUrl: gate.url, lockMs: 3_000 };
  const env = {
    OTEL_EXPORTER_OTLP_ENDPOINT: receiver.url,
    OTEL_EXPORTER_OTLP_PROTOCOL: "http/json",
    OTEL_TRACES_EXPORTER: "none",
    OTEL_METRIC_EXPORT_INTERVAL: "100",
    OTEL_METRIC_EXPORT_TIMEOUT: "100",
  };

  const producer = await startTraceProcess({ ...options, concurrency: 0 }, env);
  const victim = await startTraceProcess({ ...options, concurrency: 10 }, env);
  await producer.ask({ type: "start", runId: "trip-1", input: "go" });
  await gate.next({ what: "look", pid: victim.pid });
  // Of one step, an export may have the histograms and the next one the sums: what is not exported dies with the victim.
  const exported = ["gen_ai.client.inference.duration", "gen_ai.client.inference.usage.output_tokens"];
  await vi.waitUntil(() => exported.every((name) => total(receiver, name) > 0), { timeout: 20_000 });
  await victim.kill9();
  const heir = await startTraceProcess({ ...options, concurrency: 10 }, env);
  (await gate.next({ what: "look", pid: heir.pid })).release("sunny");
  const { usage } = await drover.get("trip-1").result({ timeoutMs: 30_000 });
  await Promise.all([heir.stop(), producer.stop()]);

  expect(total(receiver, "drover.run.started")).toBe(1);
  expect(total(receiver, "drover.run.ended")).toBe(1);
  expect(total(receiver, "gen_ai.invoke_agent.inference_calls")).toBe(1);
  expect(total(receiver, "gen_ai.client.inference.duration")).toBe(2);
  expect(total(receiver, "gen_ai.execute_tool.duration")).toBe(1);
  expect(total(receiver, "gen_ai.client.inference.usage.input_tokens")).toBe(usage.inputTokens);
  expect(total(receiver, "gen_ai.client.inference.usage.output_tokens")).toBe(usage.outputTokens);
  expect(total(receiver, "drover.step.redeliveries")).toBe(1);
  expect(total(receiver, "drover.step.locks_lost")).toBe(0);
  expect(heir.output()).not.toContain("cannot be delivered");
});
