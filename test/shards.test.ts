import { Redis } from "ioredis";
import { beforeEach, describe, expect, inject, onTestFinished, test } from "vitest";
import { z } from "zod";
import { defineAgent } from "../src/define-agent.ts";
import { createDrover, type Drover, type DroverOptions } from "../src/drover.ts";
import { createDroverServer } from "../src/server.ts";
import { shardPrefixes } from "../src/sharding/slots.ts";
import { createSilentLogger } from "../src/telemetry/logger.ts";
import { scriptedModel } from "../src/testing/scripted-model.ts";
import { defineTool } from "../src/tools/define-tool.ts";
import { eventually } from "./support/eventually.ts";
import { deletePrefix, testPrefix } from "./support/redis.ts";
import { startPrivateRedis } from "./support/redis-server.ts";

const url = inject("redisUrl");
const shards = 3;
const look = defineTool({
  name: "look",
  description: "Looks.",
  parameters: z.object({ n: z.number().describe("which") }),
  effect: "read",
  queue: "browser",
  execute: ({ n }) => `saw ${n}`,
});
const agent = defineAgent({
  name: "looker",
  instructions: "Look.",
  tools: [look],
  model: scriptedModel([
    ({ messages }) => ({ toolCalls: [{ name: "look", arguments: { n: messages.length } }] }),
    "done",
  ]),
});

let prefix: string;
let redis: Redis;
beforeEach(() => {
  prefix = testPrefix();
  redis = new Redis(url);
  onTestFinished(async () => {
    redis.disconnect();
    for (const own of [prefix, ...shardPrefixes(prefix, shards)]) await deletePrefix(url, own);
  });
});

function open(more: Partial<DroverOptions> = {}): Drover {
  const drover = createDrover({ redis: url, prefix, shards, logger: createSilentLogger(), ...more });
  onTestFinished(() => drover.close());
  return drover;
}

/** What of each kind of key lies under each shard's prefix. */
const countKeys = async (pattern: string): Promise<number[]> =>
  Promise.all(shardPrefixes(prefix, shards).map(async (own) => (await redis.keys(`${own}${pattern}`)).length));

describe("an installation with shards", () => {
  test("spreads runs and their steps, and is one fleet to look at", async () => {
    const producer = open();
    const ids = Array.from({ length: 12 }, (_, index) => `run-${index}`);
    for (const id of ids) await producer.start("looker", "go", { runId: id });
    expect((await countKeys(":r:list:status:queued")).every((count) => count === 1)).toBe(true);
    expect(await redis.keys(`${prefix}:r:run:*`)).toEqual([]);
    const waiting = await producer.fleet();
    expect(waiting.queues).toMatchObject([
      { name: "runs", waiting: 0 },
      { name: "model", waiting: 12 },
      { name: "tools" },
    ]);
    expect(waiting.queues[1]?.oldestAgeMs).toBeGreaterThanOrEqual(0);
    // What a step is owed since may be a moment ahead of what the server says.
    await eventually(async () => (await producer.fleet()).owing.count === 12 || undefined, 10_000);

    const worker = await open({ agents: [agent] }).work({ concurrency: 10 });
    expect(worker.queues).toEqual(["runs", "model", "tools", "browser"]);
    for (const id of ids)
      expect(await producer.get(id).result({ timeoutMs: 20_000 })).toMatchObject({ output: "done" });
    expect(worker.stats().lastStartedAt).toBeGreaterThan(0);
    const told = await eventually(async () => {
      const [one] = (await producer.fleet()).workers;
      return one;
    }, 10_000);
    // Ten starts, and of each other queue four in each shard.
    expect(told).toMatchObject({ queues: ["runs", "model", "tools", "tools-browser"], concurrency: 10 + 3 * 3 * 4 });
    await worker.stop();
    expect(worker.stats().running).toBe(0);
  });

  test("serves the runs queue and sessions, lists and deletes them from any process", async () => {
    await open({ agents: [agent] }).work();
    const talk = open().session("chat-1");
    const runs = [
      await talk.send("looker", "one", { runId: "talk-1" }),
      await talk.send("looker", "two", { runId: "talk-2" }),
    ];
    for (const run of runs) expect(await run.result({ timeoutMs: 20_000 })).toMatchObject({ status: "completed" });
    expect((await talk.transcript()).map(({ content }) => content)).toEqual([
      "one",
      null,
      "saw 1",
      "done",
      "two",
      null,
      "saw 5",
      "done",
    ]);
    const other = open();
    expect((await other.list({ session: "chat-1" })).runs.map(({ runId }) => runId)).toEqual(["talk-2", "talk-1"]);
    expect(await other.count()).toMatchObject({ completed: 2 });
    const deleted = (id: string) =>
      eventually(() =>
        other.delete(id).then(
          () => true,
          () => undefined,
        ),
      );
    await deleted("talk-1");
    await deleted("talk-2");
    expect((await countKeys(":r:run:*:at")).every((count) => count === 0)).toBe(true);
    await expect(other.get("talk-1").status()).rejects.toMatchObject({ code: "not_found" });
  });

  test("shows the queues of every shard on the board", async () => {
    const server = createDroverServer({
      redis: url,
      prefix,
      shards,
      logger: createSilentLogger(),
      http: { keyless: true },
    });
    onTestFinished(() => server.close());
    await open().start("looker", "go");
    const response = await server.fetch(new Request("http://localhost/ui/queues/api/queues"));
    const { queues } = (await response.json()) as { queues: { name: string; counts: Record<string, number> }[] };
    expect(queues.map(({ name }) => name)).toEqual([
      "runs",
      ...[0, 1, 2].flatMap((shard) => [`shard ${shard}: model`, `shard ${shard}: tools`]),
    ]);
    expect(queues.reduce((sum, { counts }) => sum + (counts.prioritized ?? 0), 0)).toBe(1);
  });

  test("opens as many connections as docs/capacity.md says, with shards and without", async () => {
    const own = await startPrivateRedis({ own: true });
    const look = new Redis(own.url);
    try {
      for (const [count, connections] of [
        [1, 4 + 3],
        [3, 3 * 3 + 4],
      ] as const) {
        await look.flushall();
        const drover = createDrover({
          ...{ redis: own.url, prefix, agents: [agent], logger: createSilentLogger() },
          shards: count,
        });
        await drover.work();
        const open = async (): Promise<number> =>
          String(await look.client("LIST"))
            .trim()
            .split("\n").length - 1;
        await eventually(async () => (await open()) === connections || undefined, 10_000).catch(async () => {
          expect(await open()).toBe(connections);
        });
        await drover.close();
        await eventually(async () => (await open()) === 0 || undefined, 10_000);
      }
    } finally {
      look.disconnect();
      await own.stop();
    }
  });

  test("refuses numbers and prefixes that cannot be, by name", () => {
    for (const wrong of [0, 1.5, 257, "3", Number.NaN]) {
      expect(() => open({ shards: wrong as number })).toThrow(/shards: expected a whole number from 1 to 256, got/);
    }
    expect(() => open({ prefix: "plain" })).toThrow(/prefix: with shards.*\{plain\}/);
  });

  test("is refused to a process that knows of no shards, before it can write a run", async () => {
    await open().list();
    const unaware = open({ shards: undefined });
    await expect(unaware.start("looker", "go")).rejects.toThrow(/has 3 shards.*DROVER_SHARDS/);
    await expect(open({ shards: 1, agents: [agent] }).work()).rejects.toMatchObject({ code: "unsupported" });
    expect(await redis.keys(`${prefix}:r:*`)).toEqual([`${prefix}:r:shards`]);
  });
});
