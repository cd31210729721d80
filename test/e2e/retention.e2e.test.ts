// Catches: ended runs that fill Redis for good, and a Redis that is filled until the runs in it cannot end.
import { Queue } from "bullmq";
import { expect, test, vi } from "vitest";
import { createDrover, type Drover, type DroverOptions } from "../../src/drover.ts";
import { defineAgent, defineTool } from "../../src/index.ts";
import type { ModelClient, ModelSpec } from "../../src/ports.ts";
import { createSilentLogger } from "../../src/telemetry/logger.ts";
import { createNoTelemetry } from "../../src/telemetry/no-telemetry.ts";
import { startTestRedis, type TestRedis } from "../support/redis.ts";

const patience = { timeout: 60_000, interval: 100 };

const ask = defineTool({
  name: "ask",
  description: "Asks first.",
  parameters: { type: "object", properties: {} },
  effect: "irreversible",
  execute: () => "done",
});

/** Wants its tool in the first turn of a run that is told so. */
const client: ModelClient = {
  async call({ turn, messages }) {
    const wants = turn === 1 && JSON.stringify(messages).includes("with approval");
    const toolCalls = wants ? [{ id: "c1", name: "ask", arguments: "{}" }] : [];
    const usage = { inputTokens: 1, outputTokens: 1, cachedTokens: 0 };
    return {
      type: "reply",
      reply: { content: wants ? null : "answered", toolCalls },
      finishReason: "stop",
      usage,
      dropped: [],
    };
  },
};
const model: ModelSpec = { model: "m", provider: "p", retry: { attempts: 1, delayMs: 1 }, client };

function open({ url, prefix }: TestRedis, options: Partial<DroverOptions> = {}): Drover {
  const agents = [defineAgent({ name: "a", instructions: "", model, tools: [ask] })];
  const quiet = { logger: createSilentLogger(), telemetry: createNoTelemetry() };
  return createDrover({ redis: url, prefix, agents, ...quiet, ...options });
}

async function keysOf({ cli, prefix }: TestRedis): Promise<string[]> {
  return ((await cli("KEYS", `${prefix}:r:*`)) as string[]).map((key) => key.slice(prefix.length + 3));
}

test("workers remove runs whose retention is over, with all that is theirs, and leave those that wait", async () => {
  const redis = await startTestRedis({ own: true });
  const drover = open(redis, { retention: { completed: 2_000, cancelled: 2_000 } });
  await drover.work();
  const waits = await drover.start("a", "go with approval", { runId: "waits" });
  for (const runId of ["one", "two"]) {
    await (await drover.start("a", "go", { runId, session: "s", tenant: "t" })).result({ timeoutMs: 60_000 });
  }
  const plain = await drover.start("a", "go", { runId: "three", metadata: { secret: "canary" } });
  await plain.result({ timeoutMs: 60_000 });
  await vi.waitFor(async () => expect(await drover.count()).toMatchObject({ completed: 0 }), patience);
  await vi.waitFor(async () => {
    const left = (await keysOf(redis)).filter((key) => /one|two|three|session:s|tenant|ended|idle/.test(key));
    expect(left.filter((key) => !key.startsWith("list:status"))).toEqual([]);
  }, patience);
  await expect(plain.status()).rejects.toMatchObject({ code: "not_found" });
  expect((await waits.status()).status).toBe("waiting");
  await waits.approve("call-1-1", { by: "ann" });
  expect(await waits.result({ timeoutMs: 60_000 })).toMatchObject({ status: "completed" });
  await drover.close();
  await redis.stop();
});

test("a Redis that is nearly full takes no new runs, lets those in it end, and loses none that was queued", async () => {
  const redis = await startTestRedis({ own: true });
  const drover = open(redis);
  await drover.work();
  const waits = await drover.start("a", "go with approval", { runId: "waits" });
  await vi.waitFor(async () => expect((await waits.status()).status).toBe("waiting"), patience);
  // So that what connections take does not count.
  await redis.cli("SETRANGE", "ballast", String(100 * 1_048_576), "x");
  const used = Number(/used_memory:(\d+)/.exec(String(await redis.cli("INFO", "memory")))?.[1]);
  await redis.cli("CONFIG", "SET", "maxmemory", String(Math.floor(used / 0.95)));
  const producer = open(redis, { agents: [] });
  await expect(producer.start("a", "go", { runId: "new" })).rejects.toMatchObject({
    code: "queue_unavailable",
    message: expect.stringMatching(/nearly full: [\d.]+ MiB of its [\d.]+ MiB \(maxmemory\) are used.*Raise maxmemory/),
  });
  // The worker had seen no limit: it looks again within some seconds.
  let probes = 0;
  await vi.waitFor(
    () =>
      expect(drover.start("a", "go", { runId: `probe-${++probes}` })).rejects.toMatchObject({
        code: "queue_unavailable",
      }),
    patience,
  );
  const foreign = new Queue("runs", { connection: { url: redis.url }, prefix: `${redis.prefix}:q` });
  await foreign.add("start", { agent: "a", input: "go" }, { jobId: "queued" });
  await vi.waitFor(async () => expect(await foreign.getJobState("queued")).toBe("delayed"), patience);
  await waits.approve("call-1-1", { by: "ann" });
  expect(await waits.result({ timeoutMs: 60_000 })).toMatchObject({ status: "completed" });
  await redis.cli("CONFIG", "SET", "maxmemory", "0");
  await vi.waitFor(
    async () => expect(await drover.get("queued").status()).toMatchObject({ status: "completed" }),
    patience,
  );
  await foreign.close();
  await producer.close();
  await drover.close();
  await redis.stop();
});
