// Catches: a deployment that waits for ever for a worker to end, or loses what the worker had in hand.
import { describe, expect, test } from "vitest";
import { startTestRedis } from "../support/redis.ts";
import { freePort } from "../support/redis-server.ts";
import { startSilentProxy } from "../support/silent-proxy.ts";
import { spawnCliWorker, startCliWorker } from "../support/worker-process.ts";
import { makeWorld } from "../support/world.ts";

const graceMs = 1_500;
const respond = ({ index }: { index: number }): string | Promise<string> =>
  index === 0 ? new Promise<never>(() => {}) : "done";

describe("SIGTERM with a long model call in flight", () => {
  test("[G8] ends the worker in time with code 0, and another has its step within 5 s", async () => {
    const world = await makeWorld({ respond, graceMs });
    const worker = await startCliWorker(world.options);
    const run = await world.drover.start("e2e", "go", { runId: "graceful-1" });
    await world.server.received(0);
    await startCliWorker(world.options);
    const toldAt = worker.terminate();
    const { code, signal, at } = await worker.exit;
    expect([code, signal]).toEqual([0, null]);
    expect(at - toldAt).toBeGreaterThanOrEqual(graceMs - 50);
    expect(at - toldAt).toBeLessThan(graceMs + 2_000);
    const begunAgainMs = (await world.server.received(1)).at - at;
    expect(begunAgainMs).toBeLessThan(5_000);
    expect(await run.result({ timeoutMs: 10_000 })).toMatchObject({ status: "completed", output: "done", turns: 1 });
    process.stdout.write(
      `graceful: ended ${at - toldAt} ms after SIGTERM (grace ${graceMs}), begun again ${begunAgainMs} ms after that\n`,
    );
  });

  test("[G8] lets a call that is nearly done end first", async () => {
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

  test("[G8] ends the worker in time though Redis was stopped before", async () => {
    const server = await startTestRedis({ own: true });
    try {
      const world = await makeWorld({ respond, server, graceMs });
      const worker = await startCliWorker(world.options);
      const run = await world.drover.start("e2e", "go", { runId: "graceful-3" });
      await world.server.received(0);
      await server.kill9();
      const toldAt = worker.terminate();
      const { code, at } = await worker.exit;
      expect(code).toBe(0);
      expect(at - toldAt).toBeLessThan(graceMs + 2_000);
      await server.restart();
      await world.work();
      await world.server.received(1);
      expect(await run.result({ timeoutMs: 20_000 })).toMatchObject({ status: "completed", output: "done" });
    } finally {
      await server.stop();
    }
  });

  test("[G8] ends the worker in time though Redis has fallen silent", async () => {
    const world = await makeWorld({ respond, graceMs });
    const proxy = await startSilentProxy(world.options.redisUrl);
    const worker = await startCliWorker({ ...world.options, redisUrl: proxy.url });
    const run = await world.drover.start("e2e", "go", { runId: "graceful-4" });
    await world.server.received(0);
    proxy.silence();
    const toldAt = worker.terminate();
    const { code, at } = await worker.exit;
    expect(code).toBe(0);
    expect(at - toldAt).toBeLessThan(graceMs + 2_000);
    await world.work();
    expect(await run.result({ timeoutMs: 20_000 })).toMatchObject({ status: "completed", output: "done" });
  });
});

describe("a worker whose Redis cannot be reached", () => {
  test("[G7] says so in one sentence and ends with an error code", async () => {
    const world = await makeWorld({ respond });
    const redisUrl = `redis://127.0.0.1:${await freePort()}`;
    const startedAt = Date.now();
    const worker = spawnCliWorker({ ...world.options, redisUrl });
    const { code, at } = await worker.exit;
    expect(code).toBe(1);
    expect(at - startedAt).toBeLessThan(10_000);
    const said = (await worker.printed).split("\n").filter((line) => line !== "" && !line.startsWith("{"));
    expect(said.length).toBe(1);
    expect(said[0]).toMatch(/Redis at 127\.0\.0\.1:\d+ .*start Redis/);
  });

  test("[G7] says so when Redis takes the connection and never answers", async () => {
    const world = await makeWorld({ respond });
    const proxy = await startSilentProxy(world.options.redisUrl);
    proxy.silence();
    const startedAt = Date.now();
    const worker = spawnCliWorker({ ...world.options, redisUrl: proxy.url });
    const { code, at } = await worker.exit;
    expect(code).toBe(1);
    expect(at - startedAt).toBeLessThan(10_000);
    expect(await worker.printed).toMatch(/Redis at 127\.0\.0\.1:\d+ /);
  });
});
