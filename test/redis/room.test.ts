// Catches: runs taken until Redis is full, a start that costs a read each, a host without INFO on which nothing starts.
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import type { Room } from "../../src/ports.ts";
import { connect, type RedisConnection } from "../../src/redis/connection.ts";
import { createRedisRoom } from "../../src/redis/room.ts";
import { startTestRedis, type TestRedis } from "../support/redis.ts";

let redis: TestRedis;
let connection: RedisConnection;
beforeAll(async () => {
  redis = await startTestRedis({ own: true });
  connection = connect(redis.url, { role: "producer" });
});
afterAll(async () => {
  await connection.close();
  await redis.stop();
});
beforeEach(() => redis.cli("CONFIG", "SET", "maxmemory", "0"));

const makeRoom = (limitPercent = 90, of = connection): Room =>
  createRedisRoom({ connection: of, places: [`${redis.prefix}:a`], limitPercent });

async function infoCalls(): Promise<number> {
  return Number(/cmdstat_info:calls=(\d+)/.exec(String(await redis.cli("INFO", "commandstats")))?.[1] ?? 0);
}

async function limitTo(share: number): Promise<void> {
  const used = Number(/used_memory:(\d+)/.exec(String(await redis.cli("INFO", "memory")))?.[1]);
  await redis.cli("CONFIG", "SET", "maxmemory", String(Math.floor(used / share)));
}

test("there is room without a limit, and below the share; above it there is none", async () => {
  expect(await makeRoom().refusal(10)).toBeUndefined();
  await limitTo(0.5);
  expect(await makeRoom().refusal(10)).toBeUndefined();
  await limitTo(0.95);
  expect(await makeRoom().refusal(10)).toMatch(/is nearly full: [\d.]+ MiB of its [\d.]+ MiB/);
  expect(await makeRoom(100).refusal(10)).toBeUndefined();
});

test("what is started since the last reading counts, before Redis tells of it", async () => {
  await limitTo(0.5);
  const room = makeRoom();
  expect(await room.refusal(500_000_000)).toBeUndefined();
  expect(await room.refusal(10)).toMatch(/nearly full/);
  // Another process knows nothing of it.
  expect(await makeRoom().refusal(10)).toBeUndefined();
});

test("many starts at once cost one reading", async () => {
  await limitTo(0.5);
  const room = makeRoom();
  const before = await infoCalls();
  await Promise.all(Array.from({ length: 100 }, () => room.refusal(10)));
  // The others are this test's own: each of its connections asks as it opens.
  expect((await infoCalls()) - before).toBeLessThan(5);
});

test("on a host that forbids INFO there is always room", async () => {
  await redis.cli("ACL", "SETUSER", "plain", "on", ">secret", "~*", "&*", "+@all", "-info");
  const url = redis.url.replace("redis://", "redis://plain:secret@");
  const plain = connect(url, { role: "producer" });
  await limitTo(0.99);
  expect(await makeRoom(90, plain).refusal(10)).toBeUndefined();
  await plain.close();
});
