// Catches: finished jobs and return values that pile up in Redis, and content that outlives the run that it belongs to.
import { expect, onTestFinished, test } from "vitest";
import { createDrover } from "../../src/drover.ts";
import { createSilentLogger } from "../../src/telemetry/logger.ts";
import { startTestRedis } from "../support/redis.ts";
import { makeWorld, resultsOf, type World } from "../support/world.ts";
import { most, tellFigure } from "./support/figure.ts";
import { scriptedAgent } from "./support/scripted-agent.ts";
import { isLong } from "./support/seed.ts";

const canary = "canary-23-7f0c";
const reply = `${canary} ${"0123456789".repeat(10_240)}`;

async function ownWorld(): Promise<World> {
  const server = await startTestRedis({ own: true });
  onTestFinished(() => server.stop());
  return makeWorld({ respond: () => "unused", server });
}

/** Keys that hold this text in any value, member, field or entry: as Redis itself would write them to its disk. */
async function keysHolding({ redis }: World, text: string): Promise<string[]> {
  const found: string[] = [];
  for await (const page of redis.scanStream({ count: 1_000 })) {
    for (const key of page as string[]) {
      if (key.includes(text) || JSON.stringify(await valueOf(redis, key)).includes(text)) found.push(key);
    }
  }
  return found;
}

/** A dump is compressed: each kind of value is read as it is. */
async function valueOf(redis: World["redis"], key: string): Promise<unknown> {
  const type = await redis.type(key);
  if (type === "hash") return redis.hgetall(key);
  if (type === "list") return redis.lrange(key, 0, -1);
  if (type === "set") return redis.smembers(key);
  if (type === "zset") return redis.zrange(key, "0", "-1");
  if (type === "stream") return redis.xrange(key, "-", "+");
  return redis.get(key);
}

test("[Q23] replies of 100 KB leave small event streams, and nothing of a deleted run is in any key", async () => {
  const world = await ownWorld();
  const { redis, keys, options } = world;
  const runCount = isLong ? 25 : 5;
  const turnCount = 10;
  const drover = createDrover({
    redis: options.redisUrl,
    prefix: options.prefix,
    agents: [scriptedAgent({ turnCount, text: (turn) => `${turn} ${reply}`, note: (turn) => `${turn} ${canary}` })],
    logger: createSilentLogger(),
  });
  onTestFinished(() => drover.close());
  await drover.work();
  const ids = Array.from({ length: runCount }, (_, index) => `large-${index}`);
  const runs = await Promise.all(ids.map((runId) => drover.start("scripted", `go ${canary}`, { runId })));
  const results = await resultsOf(runs, 120_000);
  expect(results.every(({ status }) => status === "completed")).toBe(true);
  const events: string[] = [];
  for await (const page of redis.scanStream({ match: `${keys.queuePrefix}:*:events` }))
    events.push(...(page as string[]));
  expect(events.length).toBeGreaterThanOrEqual(1);
  const bytes: number[] = [];
  for (const key of events) {
    bytes.push((await redis.memory("USAGE", key, "SAMPLES", 0)) ?? 0);
    expect(bytes.at(-1)).toBeLessThan(2_000_000);
    expect(JSON.stringify(await redis.xrange(key, "-", "+"))).not.toContain(canary);
    const values = (await redis.xrange(key, "-", "+")).flatMap(([, fields]) =>
      fields.filter((_field, index) => fields[index - 1] === "returnvalue"),
    );
    for (const value of values) expect(value.length).toBeLessThan(10);
  }
  expect((await keysHolding(world, canary)).length).toBeGreaterThan(0);
  for (const runId of ids) await drover.delete(runId);
  expect(await keysHolding(world, canary)).toEqual([]);
  // Of its steps, their ids alone may be named for a while.
  expect((await keysHolding(world, "large-")).filter((key) => !key.endsWith(":events"))).toEqual([]);
  const steps = runCount * (2 * turnCount - 1);
  tellFigure(
    "Q23",
    `after ${steps} steps, answers of 100 KB among them, a stream of events has at most ${most(bytes)} bytes`,
  );
});
