// Catches: what is left of steps whose lists another program deleted, which stays in Redis for ever; and a step, or another
// program's job, that is removed though it waits, is delayed or is being worked on.
import type { Worker } from "bullmq";
import { Redis } from "ioredis";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { removeOrphans } from "../../src/bullmq/orphan-jobs.ts";
import { createStrayLook } from "../../src/bullmq/stray-look.ts";
import { startPrivateRedis } from "../support/redis-server.ts";
import { type Bench, makeBench } from "./setup.ts";

let bench: Bench;
beforeEach(async () => {
  bench = await makeBench();
});
afterEach(() => bench.close());

const toKey = (name: string): string => bench.key("model", name);

async function lookAtAll(): Promise<void> {
  while (!(await removeOrphans(bench.redis, toKey)));
}

/** Ids of jobs whose hash is there. */
async function kept(): Promise<string[]> {
  const keys = await bench.redis.keys(`${bench.key("model", "*-run-*")}`);
  return keys.map((key) => key.slice(toKey("").length)).toSorted();
}

const step = (runId: string, more: object = {}) => ({ kind: "model" as const, runId, owedAt: 1, index: 0, ...more });

test("steps in no list are removed with what is theirs, and nothing that is in one, or at work", async () => {
  const later = Date.now() + 3_600_000;
  await bench.queue.add([step("run-gone"), step("run-locked"), step("run-stray-lock")]);
  await bench.redis.del(toKey("wait"), toKey("prioritized"));
  await bench.redis.set(toKey("1-0-run-locked:lock"), "token", "PX", 60_000);
  await bench.redis.set(toKey("1-0-run-stray-lock:lock"), "token");
  await bench.queue.add([
    step("run-waits"),
    step("run-low", { priority: 7 }),
    step("run-delayed", { notBefore: later }),
    step("run-active"),
  ]);
  await bench.redis.lrem(toKey("wait"), 0, "1-0-run-active");
  await bench.redis.zrem(toKey("prioritized"), "1-0-run-active");
  await bench.redis.lpush(toKey("active"), "1-0-run-active");
  await bench.plainQueue("model").add("other", {}, { jobId: "others-run-1" });
  await bench.redis.del(toKey("wait"));
  await bench.redis.rpush(toKey("wait"), "1-0-run-waits");
  await lookAtAll();
  expect(await kept()).toEqual([
    "1-0-run-active",
    "1-0-run-delayed",
    "1-0-run-locked",
    "1-0-run-locked:lock",
    "1-0-run-low",
    "1-0-run-waits",
    "others-run-1",
  ]);
});

test("where a list is so long that reading it would hold Redis up, nothing is removed yet", async () => {
  await bench.queue.add([step("run-gone")]);
  await bench.redis.del(toKey("wait"), toKey("prioritized"));
  const others = Array.from({ length: 5_001 }, (_, index) => `other-${index}`);
  await bench.redis.rpush(toKey("wait"), ...others);
  expect(await removeOrphans(bench.redis, toKey)).toBe(false);
  expect(await kept()).toEqual(["1-0-run-gone"]);
  await bench.redis.del(toKey("wait"));
  await lookAtAll();
  expect(await kept()).toEqual([]);
});

test("whoever looks goes on where another has left off, also if that is no place any more", async () => {
  await bench.queue.add(Array.from({ length: 400 }, (_, index) => step(`run-${index}`)));
  await bench.redis.del(toKey("wait"), toKey("prioritized"));
  const left: number[] = [];
  for (let looks = 1; looks < 1_000 && left.at(-1) !== 0; looks += 1) {
    const whoever = bench.redis.duplicate();
    await removeOrphans(whoever, toKey);
    whoever.disconnect();
    left.push((await kept()).length);
  }
  expect(left[0]).toBeGreaterThan(0);
  expect(left.at(-1)).toBe(0);
  await bench.redis.set(toKey("stray-cursor"), "nowhere");
  expect(await removeOrphans(bench.redis, toKey)).toBe(true);
  await lookAtAll();
  expect(await bench.redis.exists(toKey("stray-cursor"))).toBe(0);
});

test("where the user may not walk over keys nothing is removed, and nobody is troubled", async () => {
  await bench.queue.add([step("run-gone")]);
  await bench.redis.del(toKey("wait"), toKey("prioritized"));
  await bench.redis.call("ACL", "SETUSER", "walkless", "on", ">canary", "~*", "&*", "+@all", "-scan");
  const own = new Redis(bench.url.replace("://", "://walkless:canary@"));
  try {
    expect(await removeOrphans(own, toKey)).toBe(true);
  } finally {
    own.disconnect();
    await bench.redis.call("ACL", "DELUSER", "walkless");
  }
  expect(await kept()).toEqual(["1-0-run-gone"]);
});

test("a worker sees to it by itself", async () => {
  const server = await startPrivateRedis({});
  const own = await makeBench(server.url);
  try {
    await own.queue.add(Array.from({ length: 20 }, (_, index) => step(`run-${index}`)));
    await own.redis.del(own.key("model", "wait"), own.key("model", "prioritized"));
    await own.makeWorker({ queues: ["model"], process: async () => ({ type: "done" }) }).start();
    const left = async (): Promise<number> => (await own.redis.keys(own.key("model", "1-*"))).length;
    await vi.waitFor(async () => expect(await left()).toBe(0), { timeout: 15_000, interval: 50 });
  } finally {
    await own.close();
    await server.stop();
  }
});

test("one worker of a fleet looks at a time, and a note without an end keeps nobody from it for ever", async () => {
  const worker = { name: "model", toKey, opts: { stalledInterval: 1_000 } } as unknown as Worker;
  const evaluate = vi.spyOn(bench.redis, "eval");
  const looks = Array.from({ length: 3 }, () => createStrayLook(bench.redis, worker));
  await bench.redis.set(toKey("stray-check"), "1");
  for (const look of looks) await look();
  expect(evaluate).toHaveBeenCalledTimes(3);
  expect(await bench.redis.pttl(toKey("stray-check"))).toBeGreaterThan(0);
  await bench.redis.del(toKey("stray-check"));
  await Promise.all(looks.map((look) => look()));
  // Each asks whether it is its turn; whose it is asks for keys without an end, and for what is left of steps.
  expect(evaluate).toHaveBeenCalledTimes(3 + 3 + 2);
});
