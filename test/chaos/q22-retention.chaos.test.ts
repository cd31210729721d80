// Catches: a Redis that fills up with what ended long ago.
import { expect, onTestFinished, test } from "vitest";
import { createDrover } from "../../src/drover.ts";
import { createSilentLogger } from "../../src/telemetry/logger.ts";
import { eventually } from "../support/eventually.ts";
import { startTestRedis } from "../support/redis.ts";
import { makeWorld, resultsOf } from "../support/world.ts";
import { tellFigure } from "./support/figure.ts";
import { scriptedAgent } from "./support/scripted-agent.ts";
import { isLong } from "./support/seed.ts";

/** A run of 40 steps, and of fewer in the short form. */
const turnCount = isLong ? 20 : 4;
const batches = isLong ? [100, 200, 200] : [20, 40];
const keptMs = 1_500;

test("[Q22] keys and memory are flat once runs are over their retention, and a removed run's step runs no more", async () => {
  const server = await startTestRedis({ own: true });
  onTestFinished(() => server.stop());
  const world = await makeWorld({ respond: () => "unused", server });
  const { redis, options, keys } = world;
  let calls = 0;
  const note = (turn: number): string => `${turn} ${"n".repeat(200)}`;
  const agent = scriptedAgent({ turnCount, note });
  const drover = createDrover({
    redis: options.redisUrl,
    prefix: options.prefix,
    agents: [agent],
    logger: createSilentLogger(),
    retention: { completed: keptMs },
  });
  onTestFinished(() => drover.close());
  await drover.work();

  const batch = async (name: string, size: number): Promise<void> => {
    const ids = Array.from({ length: size }, (_, index) => `${name}-${index}`);
    const runs = await Promise.all(ids.map((runId) => drover.start("scripted", "go", { runId })));
    const results = await resultsOf(runs, 120_000);
    expect(results.every(({ status, turns }) => status === "completed" && turns === turnCount)).toBe(true);
    calls += size;
    // One retention period later, all of it is gone.
    await eventually(async () => ((await drover.count()).completed === 0 ? true : undefined), 60_000);
  };
  const look = async (): Promise<{ keys: number; bytes: number }> => ({
    keys: await redis.dbsize(),
    bytes: Number(/used_memory:(\d+)/.exec(await redis.info("memory"))?.[1]),
  });
  const seen: { keys: number; bytes: number }[] = [];
  for (const [index, size] of batches.entries()) {
    await batch(`batch-${index}`, size);
    seen.push(await look());
  }
  await batch("last", 1);
  seen.push(await look());
  const [first = { keys: 0, bytes: 0 }] = seen;
  for (const { keys: count, bytes } of seen) {
    // Some keys of BullMQ's queues are there only while they have something to hold; a run that stays would leave several.
    expect(Math.abs(count - first.keys)).toBeLessThanOrEqual(Math.max(8, first.keys * 0.1));
    expect(bytes).toBeLessThan(first.bytes * 1.1 + 500_000);
  }
  // A late redelivery of a step of a run that is gone finds nothing to do.
  const job = { runId: "batch-0-0", owedAt: 2, index: 0 };
  await world.plainQueue("model").add("model", job, { jobId: "2-0-batch-0-0" });
  await eventually(async () =>
    (await redis.exists(`${keys.queuePrefix}:model:2-0-batch-0-0`)) === 0 ? true : undefined,
  );
  expect(await redis.exists(keys.run("batch-0-0").head)).toBe(0);
  expect(calls).toBe(batches.reduce((sum, size) => sum + size, 1));
  const told = seen.map((one) => `${one.keys} keys and ${one.bytes} bytes`).join(", ");
  tellFigure("Q22", `${calls} runs of ${2 * turnCount} steps; after each of ${seen.length} batches was over: ${told}`);
});
