// Catches: streams of BullMQ's that grow without a bound, or hold what was said; jobs that grow with their deliveries.
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { toJobId } from "../../src/bullmq/step-job.ts";
import type { Step } from "../../src/core/owed.ts";
import { type Bench, makeBench } from "./setup.ts";

let bench: Bench;
beforeEach(async () => {
  bench = await makeBench();
});
afterEach(() => bench.close());

const patience = { timeout: 15_000, interval: 20 };
const events = (queue: string): string => bench.key(queue, "events");

test("a worker caps the events of every queue that it serves, whatever a foreign producer had set", async () => {
  const producer = bench.plainQueue("runs");
  await producer.waitUntilReady();
  const capOf = (queue: string): Promise<string | null> =>
    bench.redis.hget(bench.key(queue, "meta"), "opts.maxLenEvents");
  await vi.waitFor(async () => expect(await capOf("runs")).toBe("10000"), patience);
  let taken = 0;
  const worker = bench.makeWorker({
    queues: ["runs", "model"],
    concurrency: 20,
    process: async () => ({ type: "done" }),
    processStart: async () => {
      taken += 1;
      return { type: "done" };
    },
  });
  await worker.start();
  for (const queue of ["runs", "model"]) {
    expect(await capOf(queue)).toBe("200");
  }
  const canary = "canary-of-the-input";
  const jobs = Array.from({ length: 400 }, (_, index) => ({
    name: "start",
    data: { agent: "a", input: canary.repeat(10) },
    opts: { jobId: `run-${index}` },
  }));
  await producer.addBulk(jobs);
  await vi.waitFor(async () => expect(taken).toBe(400), patience);
  // Trimmed a node of the stream at a time.
  await vi.waitFor(async () => expect(await bench.redis.xlen(events("runs"))).toBeLessThan(420), patience);
  expect(JSON.stringify(await bench.redis.xrange(events("runs"), "-", "+"))).not.toContain(canary);
  await worker.stop();
});

test("a job holds no more after many deliveries than after the first", async () => {
  const step: Step = { runId: "run-a", owedAt: 4, index: 0, kind: "model" };
  const job = bench.key("model", toJobId(step));
  const sizes: number[] = [];
  const worker = bench.makeWorker({
    queues: ["model"],
    async process() {
      sizes.push(Object.entries(await bench.redis.hgetall(job)).join().length);
      if (sizes.length === 1) throw new Error("trouble ".repeat(1_000));
      return sizes.length < 30 ? { type: "again", delayMs: 1, why: "trouble ".repeat(1_000) } : { type: "done" };
    },
  });
  await worker.start();
  await bench.queue.add([step]);
  await vi.waitFor(async () => expect(sizes).toHaveLength(30), patience);
  expect((sizes.at(-1) ?? 0) - (sizes[0] ?? 0)).toBeLessThan(60);
  await worker.stop();
  expect(await bench.redis.exists(job)).toBe(0);
});
