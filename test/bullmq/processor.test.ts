import { DelayedError, type Job, WaitingError } from "bullmq";
import { Redis } from "ioredis";
import { describe, expect, test } from "vitest";
import { createTroubleLog } from "../../src/bullmq/damping.ts";
import { createProcessor, type Processor } from "../../src/bullmq/processor.ts";
import type { StepOutcome } from "../../src/ports.ts";
import { manualClock } from "../../src/testing/manual-clock.ts";
import { memoryLogger } from "./setup.ts";

const clock = manualClock(Date.now());

function makeProcessor(
  outcome: StepOutcome,
  mayStart?: () => true | Promise<boolean>,
): { processor: Processor; logger: ReturnType<typeof memoryLogger> } {
  const logger = memoryLogger();
  // Takes the marker that wakes idle workers, and that a lock was lost.
  const connection = Object.assign(new Redis({ lazyConnect: true }), { zadd: async () => "0", eval: async () => 1 });
  const processor = createProcessor({
    queue: "model",
    connection,
    toKey: (id) => id,
    process: async () => outcome,
    mayStart,
    processStart: async () => outcome,
    clock,
    logger,
    trouble: createTroubleLog(logger),
    onStarted: () => undefined,
  });
  return { processor, logger };
}

/** A job that answers moves with these errors, one after the other, then takes them. */
function makeJob(...errors: string[]): { job: Job; moves: [string, ...unknown[]][] } {
  const moves: [string, ...unknown[]][] = [];
  const move =
    (name: string) =>
    async (...args: unknown[]): Promise<void> => {
      moves.push([name, ...args]);
      const error = errors.shift();
      if (error) throw new Error(error);
    };
  const fields = { id: "4-0-run-a", token: "t", opts: {}, data: { runId: "run-a", owedAt: 4, index: 0 } };
  const counts = { timestamp: 1, stalledCounter: 0, attemptsStarted: 1, priority: 1_000 };
  const job = { ...fields, ...counts, moveToWait: move("wait"), moveToDelayed: move("delayed") };
  return { job: job as unknown as Job, moves };
}

describe("giving a step back", () => {
  test("what still arrives while the worker stops goes back untouched", async () => {
    const { processor } = makeProcessor({ type: "done" });
    const { job, moves } = makeJob();
    processor.refuse();
    await expect(processor.process(job)).rejects.toBeInstanceOf(WaitingError);
    expect(moves).toEqual([["wait", "t"]]);
  });

  test("what waits to know whether it may start goes back if the worker is held or stops meanwhile", async () => {
    for (const halt of [(of: Processor) => of.hold("worker"), (of: Processor) => of.refuse()]) {
      const may = Promise.withResolvers<boolean>();
      const { processor } = makeProcessor({ type: "done" }, () => may.promise);
      const { job, moves } = makeJob();
      const given = processor.process(job).catch((error: unknown) => error);
      halt(processor);
      may.resolve(true);
      expect(await given).toBeInstanceOf(WaitingError);
      expect(moves).toEqual([["wait", "t"]]);
    }
    const { processor } = makeProcessor({ type: "done" }, () => Promise.resolve(true));
    expect(await processor.process(makeJob().job)).toBe("ok");
  });

  test("the due time of a delayed step is Redis's time plus the delay", async () => {
    const { processor } = makeProcessor({ type: "again", delayMs: 3_600_000, why: "test" });
    const { job, moves } = makeJob();
    await expect(processor.process(job)).rejects.toBeInstanceOf(DelayedError);
    const dueAt = Math.max(clock.now(), Date.now()) + 3_600_000;
    expect(moves).toEqual([["delayed", expect.toSatisfy((at: number) => Math.abs(at - dueAt) < 1_000), "t"]]);
  });

  test("it is tried until Redis takes it, with growing waits and one line", async () => {
    const { processor, logger } = makeProcessor({ type: "again", delayMs: 0, why: "test" });
    const { job, moves } = makeJob("OOM command not allowed", "OOM command not allowed");
    const given = processor.process(job).catch((error: unknown) => error);
    await clock.whenSleeping();
    expect(clock.nextAt()).toBeGreaterThan(clock.now() + 199);
    clock.advance(250);
    await clock.whenSleeping();
    expect(clock.nextAt()).toBeGreaterThan(clock.now() + 399);
    clock.advance(500);
    expect(await given).toBeInstanceOf(WaitingError);
    expect(moves).toHaveLength(3);
    expect(logger.lines).toMatchObject([{ level: "warn", message: "could not give a step back" }]);
    expect(processor.running()).toBe(0);
  });

  test.each([
    "Missing lock for job 4-0-run-a. moveToDelayed",
    "Lock mismatch for job 4-0-run-a.",
    "Connection is closed.",
  ])("it is given up when the answer is %j", async (message) => {
    const { processor } = makeProcessor({ type: "again", delayMs: 5, why: "test" });
    const { job, moves } = makeJob(message);
    await expect(processor.process(job)).rejects.toBeInstanceOf(DelayedError);
    expect(moves).toHaveLength(1);
  });

  test("a lock that both a renewal and the giving back find lost is told of once", async () => {
    for (const renewalFirst of [true, false]) {
      const { processor, logger } = makeProcessor({ type: "again", delayMs: 5, why: "test" });
      const { job } = makeJob();
      job.moveToDelayed = async () => {
        if (renewalFirst) processor.loseLocks(["4-0-run-a"]);
        else queueMicrotask(() => processor.loseLocks(["4-0-run-a"]));
        throw new Error("Missing lock for job 4-0-run-a. moveToDelayed");
      };
      await expect(processor.process(job)).rejects.toBeInstanceOf(DelayedError);
      expect(logger.lines).toMatchObject([{ level: "warn", message: expect.stringMatching(/^lost the lock/) }]);
    }
  });
});
