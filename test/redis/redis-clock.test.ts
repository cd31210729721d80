import { expect, inject, test } from "vitest";
import { connect, type RedisConnection } from "../../src/redis/connection.ts";
import { createRedisClock, type RedisClock } from "../../src/redis/redis-clock.ts";

/** A clock over a Redis whose time, and a machine whose steady time, are set by hand. */
function setUp(): {
  clock: RedisClock;
  redis: { now: number; delayMs: number; down: boolean };
  pass(ms: number): void;
} {
  const redis = { now: 5_000_000, delayMs: 0, down: false };
  let steady = 100;
  const client = {
    time: async () => {
      if (redis.down) throw new Error("Connection is closed.");
      steady += redis.delayMs / 2;
      redis.now += redis.delayMs / 2;
      const reply = [String(Math.floor(redis.now / 1_000)), String((redis.now % 1_000) * 1_000)];
      steady += redis.delayMs / 2;
      redis.now += redis.delayMs / 2;
      return reply;
    },
  };
  const connection = { use: (fn: (given: typeof client) => unknown) => fn(client) } as unknown as RedisConnection;
  return {
    clock: createRedisClock({ connection, steady: () => steady }),
    redis,
    pass(ms) {
      steady += ms;
      redis.now += ms;
    },
  };
}

test("tells Redis's time, and carries it on by the steady clock", async () => {
  const { clock, redis, pass } = setUp();
  await clock.ready();
  expect(clock.now()).toBe(5_000_000);
  pass(1_234);
  expect(clock.now()).toBe(redis.now);
  redis.down = true;
  pass(60_000);
  await expect(clock.refresh()).rejects.toThrow("Connection is closed.");
  expect(clock.now()).toBe(redis.now);
  clock.stop();
});

test("reckons with the way there and back, and ignores an answer that took long", async () => {
  const { clock, redis } = setUp();
  redis.delayMs = 400;
  await clock.ready();
  expect(Math.abs(clock.now() - redis.now)).toBeLessThanOrEqual(1);
  redis.delayMs = 3_000;
  redis.now += 50;
  await clock.refresh();
  expect(redis.now - clock.now()).toBe(50);
  clock.stop();
});

test("never runs backwards while it waits for Redis's time, and goes on at once where that is ahead", async () => {
  const { clock, redis, pass } = setUp();
  await clock.ready();
  redis.now -= 1_000;
  await clock.refresh();
  let last = clock.now();
  for (let step = 0; step < 25; step += 1) {
    pass(100);
    const now = clock.now();
    expect(now).toBeGreaterThanOrEqual(last + 49);
    last = now;
  }
  expect(last).toBe(redis.now);
  redis.now += 2_000;
  await clock.refresh();
  expect(clock.now()).toBe(redis.now);
  clock.stop();
});

test("takes the time of another server after a failover, also when it is an hour behind", async () => {
  const { clock, redis } = setUp();
  await clock.ready();
  redis.now -= 3_600_000;
  await clock.refresh();
  expect(clock.now()).toBe(redis.now);
  clock.stop();
});

test("is this machine's time before Redis has told its own, and then Redis's", async () => {
  const connection = connect(inject("redisUrl"), { role: "worker" });
  const clock = createRedisClock({ connection });
  expect(Math.abs(clock.now() - Date.now())).toBeLessThan(1_000);
  await clock.ready();
  expect(Math.abs(clock.now() - Date.now())).toBeLessThan(1_000);
  clock.stop();
  await connection.close();
});

test("sleeps, and wakes at once when it is told to, without rejecting", async () => {
  const connection = connect(inject("redisUrl"), { role: "worker" });
  const clock = createRedisClock({ connection });
  const startedAt = performance.now();
  await clock.sleep(30);
  expect(performance.now() - startedAt).toBeGreaterThanOrEqual(29);
  const stop = new AbortController();
  const long = clock.sleep(60 * 24 * 3_600_000, stop.signal);
  stop.abort();
  await long;
  await clock.sleep(60_000, stop.signal);
  await clock.sleep(-5);
  expect(performance.now() - startedAt).toBeLessThan(5_000);
  clock.stop();
  await connection.close();
});
