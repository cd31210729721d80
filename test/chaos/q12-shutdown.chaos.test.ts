// Catches: a deployment that waits for ever for a worker to end, or loses what the worker had in hand.
import { setTimeout as sleep } from "node:timers/promises";
import { describe, expect, onTestFinished, test } from "vitest";
import { eventually } from "../support/eventually.ts";
import { startTestRedis } from "../support/redis.ts";
import { freePort } from "../support/redis-server.ts";
import { startSilentProxy } from "../support/silent-proxy.ts";
import { spawnCliWorker, startCliWorker } from "../support/worker-process.ts";
import { makeWorld } from "../support/world.ts";
import { isLong } from "./support/seed.ts";

const graceMs = isLong ? 10_000 : 1_500;
/** Within how long after its grace period a worker is gone; the short form shares its cores with other tests. */
const overMs = isLong ? 2_000 : 5_000;
/** Ctrl-C that npm passes on a second time comes within this; what comes later is a second wish. */
const sameSignalMs = 300;
const respond = ({ index }: { index: number }): string | Promise<string> =>
  index === 0 ? new Promise<never>(() => {}) : "done";

describe("SIGTERM with a long model call in flight", () => {
  test("[Q12] [G8] ends the worker in time with code 0, and another has its step within 5 s", async () => {
    const answer = Promise.withResolvers<string>();
    const never = new Promise<never>(() => {});
    const world = await makeWorld({ respond: ({ index }) => (index === 0 ? never : answer.promise), graceMs });
    const worker = await startCliWorker(world.options);
    const run = await world.drover.start("e2e", "go", { runId: "graceful-1" });
    await world.server.received(0);
    await startCliWorker(world.options);
    const toldAt = worker.terminate();
    const { code, signal, at } = await worker.exit;
    expect([code, signal]).toEqual([0, null]);
    expect(at - toldAt).toBeGreaterThanOrEqual(graceMs - 50);
    expect(at - toldAt).toBeLessThan(graceMs + overMs);
    const begunAgainMs = (await world.server.received(1)).at - at;
    expect(begunAgainMs).toBeLessThan(5_000);
    // Handed back on purpose: no lock had to expire, and no worker counts as lost.
    const [jobId = ""] = await world.redis.lrange(`${world.keys.queuePrefix}:model:active`, 0, -1);
    expect(await world.redis.hget(`${world.keys.queuePrefix}:model:${jobId}`, "ats")).toBe("2");
    expect(await world.redis.hget(`${world.keys.queuePrefix}:model:${jobId}`, "stc")).toBeNull();
    answer.resolve("done");
    expect(await run.result({ timeoutMs: 10_000 })).toMatchObject({ status: "completed", output: "done", turns: 1 });
  });

  test("[Q12] ends an idle worker at once with code 0", async () => {
    const world = await makeWorld({ respond, graceMs });
    const worker = await startCliWorker(world.options);
    const toldAt = worker.terminate();
    const { code, at } = await worker.exit;
    expect(code).toBe(0);
    expect(at - toldAt).toBeLessThan(overMs);
  });

  test("[Q12] a second SIGTERM ends the worker at once", async () => {
    const world = await makeWorld({ respond, graceMs: 60_000 });
    const worker = await startCliWorker(world.options);
    await world.drover.start("e2e", "go", { runId: "twice" });
    await world.server.received(0);
    worker.terminate();
    await sleep(sameSignalMs + 200);
    const toldAt = worker.terminate();
    const { code, at } = await worker.exit;
    expect(code).toBe(143);
    expect(at - toldAt).toBeLessThan(overMs);
    await world.work();
    expect(await world.drover.get("twice").result({ timeoutMs: 20_000 })).toMatchObject({ status: "completed" });
  });

  test("[Q12] [G8] lets a call that is nearly done end first", async () => {
    const answer = Promise.withResolvers<string>();
    const world = await makeWorld({ respond: () => answer.promise, graceMs: 10_000 });
    const worker = await startCliWorker(world.options);
    const run = await world.drover.start("e2e", "go", { runId: "graceful-2" });
    await world.server.received(0);
    worker.terminate();
    answer.resolve("just in time");
    expect((await worker.exit).code).toBe(0);
    expect(await run.result({ timeoutMs: 1_000 })).toMatchObject({ status: "completed", output: "just in time" });
    expect(world.server.requests.length).toBe(1);
  });

  test("[Q12] [G8] ends the worker in time though Redis was stopped before", async () => {
    const server = await startTestRedis({ args: ["--appendfsync", "always"] });
    try {
      const world = await makeWorld({ respond, server, graceMs });
      const worker = await startCliWorker(world.options);
      const run = await world.drover.start("e2e", "go", { runId: "graceful-3" });
      await world.server.received(0);
      await server.kill9();
      const toldAt = worker.terminate();
      const { code, at } = await worker.exit;
      expect(code).toBe(0);
      expect(at - toldAt).toBeLessThan(graceMs + overMs);
      await server.restart();
      await world.work();
      await world.server.received(1);
      expect(await run.result({ timeoutMs: 20_000 })).toMatchObject({ status: "completed", output: "done" });
    } finally {
      await server.stop();
    }
  });

  test("[Q12] [G8] ends the worker in time though Redis has fallen silent", async () => {
    const world = await makeWorld({ respond, graceMs });
    const proxy = await startSilentProxy(world.options.redisUrl);
    const worker = await startCliWorker({ ...world.options, redisUrl: proxy.url });
    const run = await world.drover.start("e2e", "go", { runId: "graceful-4" });
    await world.server.received(0);
    proxy.silence();
    const toldAt = worker.terminate();
    const { code, at } = await worker.exit;
    expect(code).toBe(0);
    expect(at - toldAt).toBeLessThan(graceMs + overMs);
    await world.work();
    expect(await run.result({ timeoutMs: 20_000 })).toMatchObject({ status: "completed", output: "done" });
  });
});

test("[Q12] [G8] a worker whose Redis refuses writes ends in time by itself", async () => {
  const server = await startTestRedis({ own: true });
  onTestFinished(() => server.stop());
  const world = await makeWorld({ respond, server, graceMs });
  const worker = await world.work();
  await world.drover.start("e2e", "go", { runId: "graceful-5" });
  await world.server.received(0);
  await server.cli("CONFIG", "SET", "maxmemory", "1");
  await eventually(() => worker.logLines().find((line) => line.includes("step worker trouble")), 30_000);
  const toldAt = worker.terminate();
  const { code, at } = await worker.exit;
  expect(code).toBe(0);
  // Less than the 5 s that BullMQ waits after such a refusal.
  expect(at - toldAt).toBeLessThan(graceMs + (isLong ? overMs : 3_000));
});

describe("a worker whose Redis cannot be reached", () => {
  test("[Q12] [G7] says so in one sentence and ends with an error code", async () => {
    const world = await makeWorld({ respond });
    const redisUrl = `redis://127.0.0.1:${await freePort()}`;
    const startedAt = Date.now();
    const worker = spawnCliWorker({ ...world.options, redisUrl });
    const { code, at } = await worker.exit;
    expect(code).toBe(1);
    expect(at - startedAt).toBeLessThan(20_000);
    const said = (await worker.printed).split("\n").filter((line) => line !== "" && !line.startsWith("{"));
    expect(said.length).toBe(1);
    expect(said[0]).toMatch(/Redis at 127\.0\.0\.1:\d+ .*start Redis/);
  });

  test("[Q12] ends when it is told to, before it has given up", async () => {
    const world = await makeWorld({ respond, graceMs });
    const worker = spawnCliWorker({ ...world.options, redisUrl: `redis://127.0.0.1:${await freePort()}` });
    await sleep(1_500);
    const toldAt = worker.terminate();
    const { at } = await worker.exit;
    expect(at - toldAt).toBeLessThan(graceMs + overMs);
  });

  test("[Q12] [G7] says so when Redis takes the connection and never answers", async () => {
    const world = await makeWorld({ respond });
    const proxy = await startSilentProxy(world.options.redisUrl);
    proxy.silence();
    const startedAt = Date.now();
    const worker = spawnCliWorker({ ...world.options, redisUrl: proxy.url });
    const { code, at } = await worker.exit;
    expect(code).toBe(1);
    expect(at - startedAt).toBeLessThan(20_000);
    expect(await worker.printed).toMatch(/Redis at 127\.0\.0\.1:\d+ /);
  });
});
