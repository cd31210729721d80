import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { StartDelivery } from "../../src/bullmq/processor.ts";
import { toJobId } from "../../src/bullmq/step-job.ts";
import type { Step } from "../../src/core/owed.ts";
import type { Delivery, StepOutcome } from "../../src/ports.ts";
import { type Bench, makeBench } from "./setup.ts";

const step: Step = { runId: "run-a", owedAt: 4, index: 0, kind: "model" };
const id = toJobId(step);
const done: StepOutcome = { type: "done" };

/** Resolves when the signal aborts. */
function aborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve();
    else signal.addEventListener("abort", () => resolve(), { once: true });
  });
}

/** A list that can be waited for: `nth(n)` resolves with its item number n, from 0. */
function makeMailbox<T>(): { push(item: T): void; nth(n: number): Promise<T>; items: T[] } {
  const items: T[] = [];
  const waiting = new Map<number, PromiseWithResolvers<T>>();
  const slot = (n: number): PromiseWithResolvers<T> => {
    const made = waiting.get(n) ?? Promise.withResolvers<T>();
    waiting.set(n, made);
    return made;
  };
  return {
    items,
    push(item) {
      slot(items.length).resolve(item);
      items.push(item);
    },
    nth: (n) => slot(n).promise,
  };
}

describe("step worker", () => {
  let bench: Bench;
  beforeEach(async () => {
    bench = await makeBench();
  });
  afterEach(() => bench.close());

  test("a lost lock aborts the step within a renewal period; the new owner counts no lost worker", async () => {
    const deliveries = makeMailbox<Delivery>();
    const worker = bench.makeWorker({
      concurrency: 2,
      async process(delivery) {
        deliveries.push(delivery);
        if (deliveries.items.length === 1) await aborted(delivery.signal);
        return done;
      },
    });
    await worker.start();
    await bench.queue.add([step]);
    const first = await deliveries.nth(0);
    await bench.redis.del(bench.key("model", id, "lock"));
    const lostAt = performance.now();
    await aborted(first.signal);
    expect(performance.now() - lostAt).toBeLessThan(2_000);
    const second = await deliveries.nth(1);
    expect(second).toMatchObject({ deliveries: 2, lostWorkers: 0 });
    await worker.stop();
    expect(await bench.plainQueue("model").getJobCountByTypes()).toBe(0);
    expect(bench.logger.lines).toMatchObject([
      { level: "warn", message: expect.stringMatching(/^lost the lock/), step: id },
    ]);
  });

  test("a lock lost just before the end is logged once, and the step is delivered again", async () => {
    const deliveries = makeMailbox<Delivery>();
    const worker = bench.makeWorker({
      async process(delivery) {
        deliveries.push(delivery);
        if (deliveries.items.length === 1) await bench.redis.del(bench.key("model", id, "lock"));
        return done;
      },
    });
    await worker.start();
    await bench.queue.add([step]);
    await deliveries.nth(1);
    await worker.stop();
    expect(bench.logger.lines.map(({ message }) => message)).toEqual(["a step ended after its lock was lost"]);
  });

  test("a step delivered anew while its last delivery still runs in the same worker waits for that one to end", async () => {
    const events = makeMailbox<string>();
    const release = Promise.withResolvers<void>();
    const worker = bench.makeWorker({
      concurrency: 2,
      async process({ deliveries, signal }) {
        events.push(`begin ${deliveries}`);
        if (deliveries === 1) {
          await aborted(signal);
          await release.promise; // a tool that does not heed its signal
        }
        events.push("end");
        return done;
      },
    });
    await worker.start();
    await bench.queue.add([step]);
    await events.nth(0);
    await bench.redis.del(bench.key("model", id, "lock"));
    const plain = bench.plainQueue("model");
    while ((await plain.getJobState(id)) !== "delayed") await plain.getJobCountByTypes(); // put back at least once
    release.resolve();
    await events.nth(3);
    expect(events.items).toEqual(["begin 1", "end", expect.stringMatching(/^begin [3-9]/), "end"]);
  });

  test("an error never fails a job: it waits longer each time, and the log does not grow with it", async () => {
    const at: number[] = [];
    const worker = bench.makeWorker({
      async process() {
        at.push(performance.now());
        if (at.length < 4) throw new Error("a bug");
        ended.resolve();
        return done;
      },
    });
    const ended = Promise.withResolvers<void>();
    const failed: string[] = [];
    await worker.start();
    await bench.queue.add([step]);
    await ended.promise;
    await worker.stop();
    const events = await bench.redis.xrange(bench.key("model", "events"), "-", "+");
    for (const [, fields] of events) if (fields.includes("failed")) failed.push(fields.join(" "));
    expect(failed).toEqual([]);
    const waits = at.slice(1).map((time, n) => time - (at[n] ?? 0));
    expect(waits[0]).toBeGreaterThan(190);
    expect(waits[2]).toBeGreaterThan((waits[0] ?? 0) * 2);
    expect(bench.logger.lines).toMatchObject([{ message: "a step could not be worked on", error: "a bug" }]);
  });

  test("a job that names no step is dropped with a line, and the worker goes on", async () => {
    await bench.plainQueue("model").add("model", { hello: "world" }, { removeOnComplete: false });
    await bench.queue.add([step]);
    const seen = Promise.withResolvers<Delivery>();
    const worker = bench.makeWorker({
      async process(delivery) {
        seen.resolve(delivery);
        return done;
      },
    });
    await worker.start();
    expect((await seen.promise).step.runId).toBe("run-a");
    await worker.stop();
    expect(bench.logger.lines).toMatchObject([{ level: "error", message: "dropped a job whose data names no step" }]);
    expect(await bench.plainQueue("model").getJobCountByTypes()).toBe(0);
  });

  test("counts steps in hand and tells when the last one began", async () => {
    const begun = Promise.withResolvers<void>();
    const release = Promise.withResolvers<void>();
    const worker = bench.makeWorker({
      async process() {
        begun.resolve();
        await release.promise;
        return done;
      },
    });
    expect(worker.stats()).toEqual({ running: 0, lastStartedAt: undefined });
    const before = Date.now();
    await worker.start();
    await bench.queue.add([step]);
    await begun.promise;
    expect(worker.stats().running).toBe(1);
    expect(worker.stats().lastStartedAt).toBeGreaterThanOrEqual(before);
    release.resolve();
    await worker.stop();
    expect(worker.stats().running).toBe(0);
  });

  test("steps run side by side up to the concurrency", async () => {
    let [now, most] = [0, 0];
    const full = Promise.withResolvers<void>();
    const worker = bench.makeWorker({
      concurrency: 3,
      async process() {
        now += 1;
        most = Math.max(most, now);
        if (now === 3) full.resolve();
        await full.promise;
        now -= 1;
        return done;
      },
    });
    await bench.queue.add(Array.from({ length: 9 }, (_, index) => ({ ...step, index })));
    await worker.start();
    await full.promise;
    await worker.stop();
    expect(most).toBe(3);
  });
});

describe("start jobs from a plain BullMQ queue", () => {
  let bench: Bench;
  beforeEach(async () => {
    bench = await makeBench();
  });
  afterEach(() => bench.close());

  test("bad ones are rejected with the reason, good ones start, and every id is free again", async () => {
    const plain = bench.plainQueue("runs");
    const keep = { removeOnComplete: false, removeOnFail: false };
    const payload = { agent: "assistant", input: "hello" };
    await plain.add("start", payload, keep); // no job id
    await plain.add("start", payload, { ...keep, jobId: "17-" });
    await plain.add("start", { agent: 7, input: "hello" }, { ...keep, jobId: "run-type" });
    await plain.add("start", { ...payload, prio: 1 }, { ...keep, jobId: "run-unknown" });
    await plain.add("start", { ...payload, input: "x".repeat(2_000) }, { ...keep, jobId: "run-large" });
    await plain.add("start", "hello", { ...keep, jobId: "run-text" });
    await plain.add("begin", payload, { ...keep, jobId: "run-name" });
    await plain.add("start", payload, { ...keep, jobId: "run-good", attempts: 5, priority: 3 });
    const starts = makeMailbox<StartDelivery>();
    const worker = bench.makeWorker({
      queues: ["runs"],
      maxPayloadBytes: 1_000,
      process: async () => done,
      async processStart(delivery) {
        starts.push(delivery);
        return done;
      },
    });
    await worker.start();
    const last = await starts.nth(7);
    expect(last).toMatchObject({ start: { runId: "run-good", payload }, priority: 3 });
    const rejected = starts.items.flatMap(({ start }) => ("rejected" in start ? [start.rejected] : []));
    expect(rejected.map(({ runId, agent }) => [runId, agent])).toEqual([
      ["job-1", "assistant"],
      ["job-17-", "assistant"],
      ["run-type", undefined],
      ["run-unknown", "assistant"],
      ["run-large", "assistant"],
      ["run-text", undefined],
      ["run-name", "assistant"],
    ]);
    expect(rejected.every(({ reason }) => reason.includes("expected") && reason.includes("received"))).toBe(true);

    await plain.add("start", payload, { ...keep, jobId: "run-type" }); // corrected, under the same id
    expect(await starts.nth(8)).toMatchObject({ start: { runId: "run-type", payload } });
    await worker.stop();
    expect(await plain.getJobCountByTypes()).toBe(0);
  });

  test("data that is no JSON is rejected, and the worker goes on", async () => {
    const plain = bench.plainQueue("runs");
    await plain.add("start", {}, { jobId: "run-a" });
    await bench.redis.hset(bench.key("runs", "run-a"), "data", '{"agent":"a","input":NaN}');
    await plain.add("start", { agent: "a", input: "b" }, { jobId: "run-b" });
    const starts = makeMailbox<StartDelivery>();
    const worker = bench.makeWorker({
      queues: ["runs"],
      process: async () => done,
      async processStart(delivery) {
        starts.push(delivery);
        return done;
      },
    });
    await worker.start();
    const { start } = await starts.nth(0);
    expect(start).toMatchObject({ rejected: { runId: "run-a", reason: expect.stringContaining("expected object") } });
    expect(await starts.nth(1)).toMatchObject({ start: { runId: "run-b" } });
    await worker.stop();
    expect(bench.logger.lines).toEqual([]);
  });

  test("a start that throws is delivered again", async () => {
    const starts = makeMailbox<StartDelivery>();
    const worker = bench.makeWorker({
      queues: ["runs"],
      process: async () => done,
      async processStart(delivery) {
        starts.push(delivery);
        if (starts.items.length === 1) throw new Error("Redis is away");
        return done;
      },
    });
    await worker.start();
    const data = { agent: "a", input: "b" };
    await bench.plainQueue("runs").add("start", data, { jobId: "run-a", removeOnFail: true });
    expect(await starts.nth(1)).toMatchObject({ start: { runId: "run-a", payload: data } });
  });
});
