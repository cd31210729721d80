// Catches: a job that waits for ever because others always go first; a start whose run is given another priority than its
// producer asked for; due steps that a machine with a slow clock lets go a few at a time.
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { type Bench, makeBench, systemClock } from "./setup.ts";

let bench: Bench;
beforeEach(async () => {
  bench = await makeBench();
});
afterEach(() => bench.close());

const patience = { timeout: 20_000, interval: 20 };
const start = { agent: "a", input: "go" };

/** Another start as soon as one is taken, so that the queue never runs dry. */
async function flood(onStart: (runId: string, priority: number | undefined) => void, first?: number): Promise<void> {
  const queue = bench.plainQueue("runs");
  const given = first === undefined ? {} : { priority: first };
  let sent = 0;
  const send = (): Promise<unknown> => {
    sent += 1;
    return queue.add("start", start, { ...given, jobId: `flood-${sent}` });
  };
  await Promise.all([send(), send(), send()]);
  const worker = bench.makeWorker({
    queues: ["runs"],
    process: async () => ({ type: "done" }),
    async processStart({ start: parsed, priority }) {
      onStart("runId" in parsed ? parsed.runId : "", priority);
      await send();
      await new Promise((resolve) => setTimeout(resolve, 20));
      return { type: "done" };
    },
  });
  await worker.start();
}

test.each([undefined, 3])(
  "a start of a low class begins among others that never end, of class %s, and its run has the priority it was given",
  async (first) => {
    const begun = new Map<string, number | undefined>();
    await bench.plainQueue("runs").add("start", start, { priority: 1_000, jobId: "low" });
    await flood((runId, priority) => begun.set(runId, priority), first);
    await vi.waitFor(() => expect(begun.has("low")).toBe(true), patience);
    expect(begun.get("low")).toBe(1_000);
    expect(begun.get("flood-1")).toBe(first);
  },
  30_000,
);

test("a start whose score has no end begins too, and that there is one is no trouble", async () => {
  const queue = bench.plainQueue("runs");
  await queue.add("start", start, { priority: 1_000, jobId: "low" });
  await bench.redis.zadd(bench.key("runs", "prioritized"), "inf", "low", "inf", "stray", "-inf", "other-stray");
  const begun = new Set<string>();
  await flood((runId) => begun.add(runId), 3);
  await vi.waitFor(() => expect(begun).toContain("low"), patience);
  expect(bench.logger.lines.filter(({ message }) => message === "step worker trouble")).toEqual([]);
}, 30_000);

test("due steps are all let go in one turn while this machine is behind, past one whose data is gone", async () => {
  const behindMs = 3_600_000;
  const clock = { ...systemClock, now: () => Date.now() + behindMs };
  const queue = bench.plainQueue("model");
  const ids = Array.from({ length: 350 }, (_, index) => `1-0-run-${index}`);
  const jobs = ids.map((jobId, index) => ({
    name: "model",
    data: { runId: `run-${index}`, owedAt: 1, index: 0 },
    opts: { jobId, delay: 60_000, timestamp: Date.now() },
  }));
  await queue.addBulk(jobs);
  for (const id of ids.slice(0, 120)) await bench.redis.del(bench.key("model", id));
  const taken = new Set<string>();
  const worker = bench.makeWorker({
    clock,
    concurrency: 50,
    async process({ step }) {
      taken.add(step.runId);
      return { type: "done" };
    },
  });
  const startedAt = Date.now();
  await worker.start();
  await vi.waitFor(() => expect(taken.size).toBe(230), patience);
  // A turn a second: page by page in turns of their own would take four of them.
  expect(Date.now() - startedAt).toBeLessThan(10_000);
});
