import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { StartDelivery } from "../../src/bullmq/step-worker.ts";
import type { Delivery } from "../../src/ports.ts";
import { type Bench, makeBench } from "./setup.ts";

const done = { type: "done" } as const;
const payload = { agent: "assistant", input: "hello" };
const now = Date.now();

/** Fields as no queue writes them; whoever has Redis's password can. */
const damages: [what: string, fields: Record<string, string>][] = [
  ["options that are no JSON", { opts: "garbage" }],
  ["options that are null", { opts: "null" }],
  ["options that are a text", { opts: '"attempts"' }],
  ["no options, no time and no priority", { opts: "", timestamp: "", priority: "" }],
  ["a progress that is no JSON", { progress: "half" }],
  ["a parent that is no JSON", { parent: "another" }],
  ["a part in a schedule that is none", { rjk: "hourly" }],
  ["the word that it failed while nobody looked", { defa: "job stalled more than allowable limit" }],
  ["a time and a delay that are no numbers", { timestamp: "now", opts: '{"delay":"soon"}' }],
];

describe("a job whose record was spoilt", () => {
  let bench: Bench;
  beforeEach(async () => {
    bench = await makeBench();
  });
  afterEach(() => bench.close());

  test.each(damages)("by %s is worked on, once, and leaves nothing behind", async (_what, fields) => {
    const step = { kind: "model", runId: "run-a", owedAt: 1, index: 1 } as const;
    await bench.queue.add([step]);
    await bench.redis.hset(bench.key("model", "1-1-run-a"), fields);
    await bench.plainQueue("runs").add("start", payload, { jobId: "run-a", removeOnFail: false });
    await bench.redis.hset(bench.key("runs", "run-a"), fields);
    const taken = Promise.withResolvers<Delivery>();
    const started = Promise.withResolvers<StartDelivery>();
    const worker = bench.makeWorker({
      queues: ["runs", "model"],
      async process(delivery) {
        taken.resolve(delivery);
        return done;
      },
      async processStart(delivery) {
        started.resolve(delivery);
        return done;
      },
    });
    await worker.start();
    const { step: given, queuedAt } = await taken.promise;
    expect(given).toEqual({ runId: "run-a", owedAt: 1, index: 1 });
    expect(queuedAt).toBeGreaterThanOrEqual(now);
    expect(await started.promise).toMatchObject({ start: { runId: "run-a", payload } });
    await worker.stop();
    for (const name of ["runs", "model"]) expect(await bench.plainQueue(name).getJobCountByTypes()).toBe(0);
    expect(await bench.redis.exists(bench.key("model", "1-1-run-a"), bench.key("runs", "run-a"))).toBe(0);
    expect(bench.logger.lines).toEqual([]);
  });

  test("a start that waited in a flow for a job that failed fails with it, as the flow has it", async () => {
    const runs = bench.plainQueue("runs");
    await runs.add("start", payload, { jobId: "run-a" });
    await bench.redis.hset(bench.key("runs", "run-a"), "defa", "child bull:fetch:1 failed");
    await runs.add("start", payload, { jobId: "run-b" });
    const started: string[] = [];
    const last = Promise.withResolvers<void>();
    const worker = bench.makeWorker({
      queues: ["runs"],
      process: async () => done,
      async processStart({ start }) {
        started.push("runId" in start ? start.runId : "");
        if (started.includes("run-b")) last.resolve();
        return done;
      },
    });
    await worker.start();
    await last.promise;
    await worker.stop();
    expect(started).toEqual(["run-b"]);
    expect(await runs.getJobCountByTypes()).toBe(0);
  });

  test.each([
    ['{"priority":"7"}', 7],
    ['{"priority":7.9}', 7],
    ['{"priority":1e999}', 2_097_151],
    ['{"priority":"high"}', undefined],
    ['{"priority":-3}', undefined],
  ])("starts with options like %s have a class that a run can keep", async (opts, priority) => {
    await bench.plainQueue("runs").add("start", payload, { jobId: "run-a" });
    await bench.redis.hset(bench.key("runs", "run-a"), "opts", opts);
    const started = Promise.withResolvers<StartDelivery>();
    const worker = bench.makeWorker({
      queues: ["runs"],
      process: async () => done,
      async processStart(delivery) {
        started.resolve(delivery);
        return done;
      },
    });
    await worker.start();
    expect((await started.promise).priority).toBe(priority);
    await worker.stop();
  });
});
