// The real SDK, sending to a real collector on a local port, in this process.
import { createRequire } from "node:module";
import { createNoopMeter, metrics as metricsApi } from "@opentelemetry/api";
import * as sdk from "@opentelemetry/sdk-metrics";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { createReader } from "../../src/telemetry/metrics-sdk.ts";
import { type StartedTelemetry, startTelemetry, type TelemetryStart } from "../../src/telemetry/sdk.ts";
import { type OtlpReceiver, startOtlpReceiver } from "../support/otlp-receiver.ts";
import { aRun, canary, ended, modelSpan, recordingLogger, toolSpan } from "./fixtures.ts";

const loaded = (): string[] =>
  Object.keys(createRequire(import.meta.url).cache).filter((path) => /exporter-(metrics|prometheus)/.test(path));

let receiver: OtlpReceiver;
const started: StartedTelemetry[] = [];
const logger = recordingLogger();

beforeEach(async () => {
  receiver = await startOtlpReceiver();
  logger.lines.length = 0;
});
afterEach(async () => {
  for (const one of started.splice(0)) await one.shutdown();
  await receiver.close();
  vi.unstubAllEnvs();
});

/** Starts telemetry as a process with these variables would; of traces other tests tell. */
function start(given: Record<string, string>, options: TelemetryStart = {}): StartedTelemetry {
  const env = { OTEL_TRACES_EXPORTER: "none", ...given };
  for (const [name, value] of Object.entries(env)) vi.stubEnv(name, value);
  const one = startTelemetry(process.env, logger, options);
  started.push(one);
  return one;
}
const json = (): Record<string, string> => ({
  OTEL_EXPORTER_OTLP_ENDPOINT: receiver.url,
  OTEL_EXPORTER_OTLP_PROTOCOL: "http/json",
});
const hasMeter = (): boolean => metricsApi.getMeterProvider().getMeter("x") !== createNoopMeter();

function play({ telemetry }: StartedTelemetry): void {
  const run = aRun(telemetry);
  telemetry.recordStart(run);
  telemetry.recordStep(modelSpan(run));
  telemetry.recordStep(toolSpan(run));
  telemetry.recordEnd(ended(run));
}

describe("off", () => {
  test.each<[string, Record<string, string>, TelemetryStart]>([
    ["no endpoint", {}, {}],
    [
      "OTEL_SDK_DISABLED",
      { OTEL_SDK_DISABLED: "true", OTEL_EXPORTER_OTLP_ENDPOINT: "http://127.0.0.1:1" },
      { prometheus: true },
    ],
    [
      "OTEL_METRICS_EXPORTER=none",
      { OTEL_METRICS_EXPORTER: "none", OTEL_EXPORTER_OTLP_ENDPOINT: "http://127.0.0.1:1" },
      { prometheus: true },
    ],
  ])("%s: nothing is loaded, registered or logged", async (_name, env, options) => {
    const one = start(env, options);
    play(one);
    expect(one.renderMetrics).toBeUndefined();
    await one.shutdown();
    expect(loaded()).toEqual([]);
    expect(hasMeter()).toBe(false);
    expect(logger.lines).toEqual([]);
  });

  test("an exporter that is not supported is named in one line", () => {
    const one = start({ ...json(), OTEL_METRICS_EXPORTER: "console" });
    expect(one.renderMetrics).toBeUndefined();
    expect(logger.lines.map(({ message }) => message)).toEqual([
      "OTEL_METRICS_EXPORTER=console is not supported (otlp, prometheus and none are); metrics are not sent",
    ]);
  });
});

describe("OTLP", () => {
  test("metrics are sent at every interval, without content or ids of runs", async () => {
    const one = start({ ...json(), OTEL_METRIC_EXPORT_INTERVAL: "20" });
    play(one);
    await vi.waitUntil(() => receiver.points().some(({ name }) => name === "drover.run.ended"));
    const points = receiver.points();
    expect(points).toContainEqual({
      name: "gen_ai.client.inference.usage.input_tokens",
      unit: "{token}",
      attributes: {
        "gen_ai.agent.name": "support",
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "qwen3-32b",
        "gen_ai.token.modality": "unknown",
        "server.address": "llm.example",
        "server.port": 8_443,
      },
      value: 80,
      count: undefined,
    });
    const bodies = Buffer.concat(receiver.bodies).toString();
    expect(bodies).toContain('"service.instance.id"');
    expect(bodies).not.toContain(canary);
    expect(bodies).not.toContain("order-42");
    expect(receiver.paths).toContain("/v1/metrics");
    expect(logger.lines).toEqual([]);
  });

  test("an endpoint of their own, in protobuf, which is the default", async () => {
    const one = start({ OTEL_EXPORTER_OTLP_METRICS_ENDPOINT: `${receiver.url}/metrics-here` });
    play(one);
    await one.shutdown();
    expect(receiver.paths).toEqual(["/metrics-here"]);
    expect(receiver.headers[0]?.["content-type"]).toBe("application/x-protobuf");
    expect(receiver.bodies[0]?.toString("latin1")).toContain("drover.run.ended");
  });

  test("shutting down sends what is left; two users share one reader; it can be started again", async () => {
    const [first, second] = [start(json()), start({})];
    play(first);
    play(second);
    await first.shutdown();
    expect(receiver.bodies).toEqual([]);
    await second.shutdown();
    expect(receiver.points().find(({ name }) => name === "drover.run.ended")?.value).toBe(2);
    expect(hasMeter()).toBe(false);
    const third = start({});
    play(third);
    await third.shutdown();
    expect(
      receiver
        .points()
        .filter(({ name }) => name === "drover.run.ended")
        .map(({ value }) => value),
    ).toEqual([1]);
  });

  test.each(["hang", 503, 404] as const)(
    "a collector that answers %s costs one line and at most the bound",
    async (as) => {
      receiver.behave(as);
      const one = start({ ...json(), OTEL_METRIC_EXPORT_INTERVAL: "50", OTEL_EXPORTER_OTLP_TIMEOUT: "50" });
      play(one);
      await vi.waitUntil(() => logger.lines.length > 0);
      const before = performance.now();
      await one.shutdown();
      expect(performance.now() - before).toBeLessThan(3_000);
      expect(logger.lines).toEqual([
        {
          message:
            "metrics cannot be delivered; runs go on. A collector that takes none is spared by OTEL_METRICS_EXPORTER=none",
          fields: { collector: receiver.url, error: expect.any(String) },
        },
      ]);
    },
  );
});

describe("Prometheus", () => {
  test.each<[string, Record<string, string>, TelemetryStart]>([
    ["a server", {}, { prometheus: true }],
    ["OTEL_METRICS_EXPORTER=prometheus", { OTEL_METRICS_EXPORTER: "prometheus" }, {}],
  ])("%s: metrics are rendered, and nothing is sent", async (_name, env, options) => {
    const one = start({ ...env }, options);
    play(one);
    const text = (await one.renderMetrics?.()) ?? "";
    expect(text).toContain(
      'drover_run_ended_total{gen_ai_agent_name="support",drover_status="completed",drover_stop_reason="answered"} 1',
    );
    expect(text).toContain("# HELP drover_step_overhead A step's time");
    expect(text).toContain('target_info{service_name="drover"');
    expect(receiver.bodies).toEqual([]);
  });

  test("beside OTLP, from the same reader: what is sent is not missing here, and the other way round", async () => {
    const one = start(
      { ...json(), OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE: "delta", OTEL_METRIC_EXPORT_INTERVAL: "20" },
      { prometheus: true },
    );
    play(one);
    await vi.waitUntil(() => receiver.points().some(({ name }) => name === "drover.run.ended"));
    const ended = "drover_run_ended_total{";
    for (const _time of [1, 2]) expect(await one.renderMetrics?.()).toContain(ended);
    play(one);
    await one.shutdown();
    expect(receiver.points().find(({ name }) => name === "drover.run.ended")?.value).toBe(2);
  });
});

test("a provider that the application registered is used, and left alone at the end", async () => {
  const reader = createReader(sdk);
  const provider = new sdk.MeterProvider({ readers: [reader] });
  metricsApi.setGlobalMeterProvider(provider);
  try {
    const one = start(json(), { prometheus: true });
    play(one);
    expect(one.renderMetrics).toBeUndefined();
    await one.shutdown();
    const { resourceMetrics } = await reader.collect();
    const names = resourceMetrics.scopeMetrics.flatMap(({ metrics }) =>
      metrics.map(({ descriptor }) => descriptor.name),
    );
    expect(names).toContain("drover.run.ended");
    expect(receiver.bodies).toEqual([]);
    expect(hasMeter()).toBe(true);
  } finally {
    metricsApi.disable();
    await provider.shutdown();
  }
});

test("metrics of the application's own are sent along", async () => {
  const one = start(json());
  metricsApi.getMeter("shop").createCounter("shop.orders").add(3);
  await one.shutdown();
  expect(receiver.points()).toContainEqual(expect.objectContaining({ name: "shop.orders", value: 3 }));
});
