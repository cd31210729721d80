import { Redis } from "ioredis";
import { afterEach, beforeEach, describe, expect, inject, test, vi } from "vitest";
import type { RedisClient } from "../../src/bullmq/redis-client.ts";
import { createStepWorker } from "../../src/bullmq/step-worker.ts";
import { TolerantWorker } from "../../src/bullmq/tolerant-worker.ts";
import type { Step } from "../../src/core/owed.ts";
import type { Delivery, StepOutcome } from "../../src/ports.ts";
import { connect } from "../../src/redis/connection.ts";
import { startTestRedis, testPrefix } from "../support/redis.ts";
import { freePort } from "../support/redis-server.ts";
import { type Bench, makeBench, memoryLogger, systemClock } from "./setup.ts";

const step: Step = { runId: "run-a", owedAt: 4, index: 0, kind: "model" };
const done: StepOutcome = { type: "done" };
const forEver = new Promise<StepOutcome>(() => undefined);

async function timed(work: Promise<unknown>): Promise<number> {
  const startedAt = performance.now();
  await work;
  return performance.now() - startedAt;
}

/** Lets a test do what a worker does by itself each second. */
class Looking extends TolerantWorker {
  look(work: () => Promise<unknown>): Promise<unknown> {
    return this.checkConnectionError(work);
  }
}

test("a look for stalled steps that is refused is tried again later, and keeps no stopped process up until then", async () => {
  const connection = new Redis(inject("redisUrl"), { maxRetriesPerRequest: null });
  const worker = new Looking("looking", null, { connection, prefix: testPrefix(), autorun: false });
  const errors: string[] = [];
  worker.on("error", ({ message }) => errors.push(message));
  const timers = vi.spyOn(globalThis, "setTimeout");
  const looked = worker.look(() => Promise.reject(new Error("OOM command not allowed")));
  await vi.waitFor(() => expect(errors).toEqual(["OOM command not allowed"]));
  expect(await Promise.race([looked.then(() => "at once"), new Promise(setImmediate)])).not.toBe("at once");
  const holding = timers.mock.calls.filter(
    ([, ms], index) => ms === 5_000 && timers.mock.results[index]?.value.hasRef(),
  );
  expect(holding).toEqual([]);
  timers.mockRestore();
  expect(await worker.look(async () => "answered")).toBe("answered");
  await worker.close();
  connection.disconnect();
});

test("a worker that stops waits no longer for a Redis that takes no step back", async () => {
  const server = await startTestRedis({ own: true });
  const waits = new Set<number>();
  const bench = await makeBench(server.url, {
    ...systemClock,
    // Longer than any test, unless it is called off.
    sleep: (ms, signal) => {
      waits.add(ms);
      const over = Promise.withResolvers<void>();
      const end = (): void => {
        waits.delete(ms);
        over.resolve();
      };
      if (signal?.aborted) end();
      else signal?.addEventListener("abort", end, { once: true });
      return over.promise;
    },
  });
  try {
    const worker = bench.makeWorker({
      graceMs: 100,
      async process() {
        await server.cli("CONFIG", "SET", "maxmemory", "1");
        return { type: "again", delayMs: 0, why: "" };
      },
    });
    await worker.start();
    await bench.queue.add([step]);
    await vi.waitFor(() => expect(waits.size).toBe(1), { timeout: 15_000, interval: 20 });
    await worker.stop();
    await vi.waitFor(() => expect(waits.size).toBe(0), { timeout: 1_000, interval: 20 });
  } finally {
    await bench.close();
    await server.stop();
  }
});

describe("stopping a worker", () => {
  let bench: Bench;
  beforeEach(async () => {
    bench = await makeBench();
  });
  afterEach(() => bench.close());

  /** Starts a worker that takes the step and does this with it; resolves when it has it. */
  async function holdStep(process: (delivery: Delivery) => Promise<StepOutcome>, graceMs: number) {
    const taken = Promise.withResolvers<Delivery>();
    const worker = bench.makeWorker({
      graceMs,
      process(delivery) {
        taken.resolve(delivery);
        return process(delivery);
      },
    });
    await worker.start();
    await bench.queue.add([step]);
    return { worker, delivery: await taken.promise };
  }

  /** How long until another worker gets the step, and what it is told. */
  async function takeOver(): Promise<{ afterMs: number; lostWorkers: number }> {
    const startedAt = performance.now();
    const { delivery } = await holdStep(async () => done, 500);
    return { afterMs: performance.now() - startedAt, lostWorkers: delivery.lostWorkers };
  }

  test("an idle worker stops at once; a second stop is the first one", async () => {
    const worker = bench.makeWorker({ graceMs: 10_000, process: async () => done });
    await worker.start();
    const first = worker.stop();
    expect(worker.stop()).toBe(first);
    expect(await timed(first)).toBeLessThan(5_000);
  });

  test("a stopped worker's connections stay closed, though BullMQ was about to open one again", async () => {
    const clients: RedisClient[] = [];
    const worker = bench.makeWorker({
      connect() {
        const { client } = connect(bench.url, { role: "worker" });
        clients.push(client);
        return client;
      },
      process: async () => done,
    });
    await worker.start();
    await worker.stop();
    expect(clients.length).toBe(3);
    for (const client of clients) await expect(client.connect()).rejects.toThrow("closed");
    await vi.waitFor(() => expect(clients.map(({ status }) => status)).toEqual(clients.map(() => "end")));
  });

  test("a worker that was never started stops at once", async () => {
    const worker = bench.makeWorker({ graceMs: 10_000, process: async () => done });
    expect(await timed(worker.stop())).toBeLessThan(5_000);
  });

  test("a step in hand may end within the grace period", async () => {
    const release = Promise.withResolvers<void>();
    const { worker, delivery } = await holdStep(async () => {
      await release.promise;
      return done;
    }, 10_000);
    const stopped = worker.stop();
    await bench.queue.add([{ ...step, owedAt: 5 }]); // not taken any more
    release.resolve();
    expect(await timed(stopped)).toBeLessThan(1_500);
    expect(delivery.signal.aborted).toBe(false);
    expect(await bench.plainQueue("model").getJobCounts("active", "prioritized")).toEqual({
      active: 0,
      prioritized: 1,
    });
  });

  test("after the grace period the step is aborted and given back; another worker has it at once, none lost", async () => {
    const { worker, delivery } = await holdStep(
      ({ signal }) =>
        new Promise((resolve) => {
          signal.addEventListener("abort", () => resolve({ type: "again", delayMs: 0, why: "handed back" }));
        }),
      300,
    );
    expect(await timed(worker.stop())).toBeLessThan(300 + 5_000);
    expect(delivery.signal.aborted).toBe(true);
    expect(await takeOver()).toEqual({ afterMs: expect.toSatisfy((ms: number) => ms < 2_000), lostWorkers: 0 });
  });

  test("so is a step that does not heed its signal", async () => {
    const { worker } = await holdStep(() => forEver, 300);
    expect(await timed(worker.stop())).toBeLessThan(300 + 5_000);
    expect(await takeOver()).toEqual({ afterMs: expect.toSatisfy((ms: number) => ms < 2_000), lostWorkers: 0 });
  });

  test("a worker that is cut off loses its step; it comes back when its lock expires, and counts one lost worker", async () => {
    const { worker, delivery } = await holdStep(() => forEver, 300);
    await bench.cutOff(worker);
    expect(await timed(worker.stop())).toBeLessThan(300 + 5_000);
    expect(delivery.signal.aborted).toBe(true);
    expect(await takeOver()).toEqual({ afterMs: expect.toSatisfy((ms: number) => ms < 8_000), lostWorkers: 1 });
  });
});

describe("stopping a worker without Redis", () => {
  test("that never was there", async () => {
    const url = `redis://127.0.0.1:${await freePort()}`;
    const logger = memoryLogger();
    const [connection, locks] = [connect(url, { role: "worker" }), connect(url, { role: "worker" })];
    const worker = createStepWorker({
      client: connection.client,
      locks: locks.client,
      connect: () => connect(url, { role: "worker" }).client,
      queues: ["model", "tools"],
      concurrency: 1,
      graceMs: 500,
      clock: systemClock,
      logger,
      process: async () => done,
      processStart: async () => done,
    });
    const starting = worker.start();
    expect(await timed(worker.stop())).toBeLessThan(2_500);
    await starting; // does not hang either
    await Promise.all([connection.close(), locks.close()]);
    expect(logger.lines.length).toBeLessThan(5);
  });

  test("that went away, with a step in hand", async () => {
    const server = await startTestRedis({ own: true });
    const bench = await makeBench(server.url);
    const taken = Promise.withResolvers<Delivery>();
    const worker = bench.makeWorker({
      graceMs: 500,
      process(delivery) {
        taken.resolve(delivery);
        return forEver;
      },
    });
    await worker.start();
    await bench.queue.add([step]);
    const { signal } = await taken.promise;
    await server.kill9();
    expect(await timed(worker.stop())).toBeLessThan(500 + 2_000);
    expect(signal.aborted).toBe(true);
    await bench.close();
    await server.stop();
  });
});
