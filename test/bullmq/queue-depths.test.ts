import { Queue, Worker } from "bullmq";
import { Redis } from "ioredis";
import { afterEach, beforeEach, describe, expect, inject, test, vi } from "vitest";
import { readQueueDepths, sumDepths } from "../../src/bullmq/queue-depths.ts";
import { toJob } from "../../src/bullmq/step-job.ts";
import { connect, type RedisConnection } from "../../src/redis/connection.ts";
import { commandsDuring } from "../support/monitor.ts";
import { deletePrefix, testPrefix } from "../support/redis.ts";

const none = { waiting: 0, active: 0, delayed: 0 };
const minute = 60_000;

let prefix: string;
let client: Redis;
let connection: RedisConnection;
beforeEach(() => {
  prefix = testPrefix();
  client = new Redis(inject("redisUrl"), { maxRetriesPerRequest: null });
  connection = connect(inject("redisUrl"), { role: "producer" });
});
afterEach(async () => {
  await connection.close();
  client.disconnect();
  await deletePrefix(inject("redisUrl"), prefix);
});

const open = (name: string): Queue => new Queue(name, { connection: client, prefix: `${prefix}:q` });
const depthOf = async (name: string) => (await readQueueDepths(connection, prefix, [name]))[0];

test("counts what waits, with and without priority, and what is delayed, in queues named by tools too", async () => {
  expect(await readQueueDepths(connection, prefix)).toEqual(
    ["runs", "model", "tools"].map((name) => ({ name, ...none })),
  );
  const queue = open("tools-browser");
  await queue.add("step", {});
  await queue.add("step", {}, { priority: 5 });
  await queue.add("step", {}, { delay: 60_000 });
  const depths = await readQueueDepths(connection, prefix);
  const oldestAgeMs = expect.any(Number);
  expect(depths.at(-1)).toEqual({ name: "tools-browser", waiting: 2, active: 0, delayed: 1, oldestAgeMs });
  const named = await readQueueDepths(connection, prefix, ["model", "tools-browser"]);
  expect(named).toEqual([
    { name: "model", ...none },
    { ...depths.at(-1), oldestAgeMs },
  ]);
  expect(await readQueueDepths(connection, prefix, [])).toEqual([]);
  await queue.close();
});

test("says which queue somebody paused by BullMQ's own pause, in one shard or another", async () => {
  const queue = open("model");
  await queue.add("step", {});
  await queue.pause();
  expect(await depthOf("model")).toMatchObject({ waiting: 1, paused: true });
  const going = { name: "model", ...none };
  expect(sumDepths([going, { ...going, waiting: 1, paused: true }], ["model"])).toEqual([
    { ...going, waiting: 1, paused: true },
  ]);
  await queue.resume();
  expect(await depthOf("model")).not.toHaveProperty("paused");
  await queue.close();
});

describe("the age of what waits longest", () => {
  let queue: Queue;
  beforeEach(() => {
    queue = open("model");
  });
  afterEach(() => queue.close());

  const step = (runId: string, priority?: number) => ({
    kind: "model" as const,
    runId,
    owedAt: 1,
    index: 0,
    ...(priority === undefined ? {} : { priority }),
  });
  /** A step as it is queued `agoMs` ago, due `inMs` after that. */
  async function add(runId: string, agoMs: number, { inMs = 0, priority }: { inMs?: number; priority?: number } = {}) {
    const at = Date.now() - agoMs;
    const notBefore = inMs > 0 ? { notBefore: at + inMs } : {};
    const { id, name, data, opts, timestamp } = toJob({ ...step(runId, priority), ...notBefore }, at);
    return queue.add(name, JSON.parse(data), { ...opts, jobId: id, timestamp });
  }
  async function expectAge(ms: number): Promise<void> {
    const age = (await depthOf("model"))?.oldestAgeMs ?? Number.NaN;
    expect(age).toBeGreaterThanOrEqual(ms);
    expect(age).toBeLessThan(ms + minute / 2);
  }

  test("is that of the first, not of the last", async () => {
    await add("a", 5 * minute);
    await add("b", minute);
    await expectAge(5 * minute);
  });

  test("is found in any class of priority, also the one that is taken last", async () => {
    await add("urgent", minute, { priority: 1 });
    await add("usual", 2 * minute);
    await expectAge(2 * minute);
    for (let priority = 2; priority < 20; priority += 1) await add(`p${priority}`, minute, { priority });
    await add("starved", 9 * minute, { priority: 2_000_000 });
    await add("starved-2", minute, { priority: 2_000_000 });
    await expectAge(9 * minute);
  });

  test("is found among those without priority, and is no more than 0 for one of another clock", async () => {
    await queue.add("start", {}, { timestamp: Date.now() + 5 * minute });
    await expectAge(0);
    await queue.add("start", {}, { timestamp: Date.now() - 3 * minute });
    await expectAge(0);
    const first = await queue.getJobs(["wait"], 0, 0, true);
    await first[0]?.remove();
    await expectAge(3 * minute);
  });

  test("begins when a delayed step is due, not when it was queued", async () => {
    await add("months", 90 * minute, { inMs: 88 * minute });
    await expectAge(2 * minute); // overdue, and nobody took it
    expect(await depthOf("model")).toMatchObject({ waiting: 0, delayed: 1 });
    const job = await queue.getJob("1-0-months");
    await job?.promote();
    expect(await depthOf("model")).toMatchObject({ waiting: 1, delayed: 0 });
    await expectAge(2 * minute);
  });

  test("is undefined while all are delayed or taken", async () => {
    await add("later", 0, { inMs: 5 * minute });
    expect(await depthOf("model")).toEqual({ name: "model", ...none, delayed: 1 });
    const { promise: hold, resolve: release } = Promise.withResolvers<void>();
    const worker = new Worker("model", () => hold, { connection: client.duplicate(), prefix: `${prefix}:q` });
    await add("taken", 5 * minute);
    await vi.waitFor(async () =>
      expect(await depthOf("model")).toEqual({ name: "model", waiting: 0, active: 1, delayed: 1 }),
    );
    release();
    await worker.close();
  });

  test("is told beside members that another program has put there without an end", async () => {
    await client.zadd(queue.toKey("delayed"), "inf", "never");
    expect(await depthOf("model")).toEqual({ name: "model", ...none, delayed: 1 });
    await add("last", minute, { priority: 3 });
    await add("usual", 5 * minute, { priority: 2 });
    await add("first", minute, { priority: 1 });
    await client.zadd(queue.toKey("prioritized"), "-inf", "before", "inf", "after");
    await expectAge(5 * minute);
    await client.del(queue.toKey("prioritized"));
    await client.zadd(queue.toKey("delayed"), "-inf", "ever");
    expect((await depthOf("model"))?.oldestAgeMs).toBeGreaterThan(Date.now() - minute);
  });

  test("of a job whose record is gone or strange is left out", async () => {
    await add("a", 5 * minute);
    await client.del(queue.toKey("1-0-a"));
    await expectAge(0);
    await add("b", minute);
    await client.hset(queue.toKey("1-0-b"), "opts", "{", "timestamp", "yesterday");
    await client.zrem(queue.toKey("prioritized"), "1-0-a");
    await expectAge(0);
  });
});

test("takes one round trip, whatever lies in the queues", async () => {
  const queue = open("tools");
  await queue.addBulk(
    Array.from({ length: 3_000 }, (_, index) => ({ name: "s", data: {}, opts: { priority: 1 + (index % 50) } })),
  );
  const commands = await commandsDuring(inject("redisUrl"), prefix, () =>
    readQueueDepths(connection, prefix, ["runs", "model", "tools"]),
  );
  expect(commands.filter(({ source }) => source !== "lua")).toEqual([expect.objectContaining({ name: "eval" })]);
  // Of each queue some ten jobs are looked at, at most.
  expect(commands.filter(({ name }) => name === "hmget").length).toBeLessThanOrEqual(10);
  await queue.close();
});
