import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { toJobId } from "../../src/bullmq/step-job.ts";
import type { Step } from "../../src/core/owed.ts";
import type { StepQueue } from "../../src/ports.ts";
import { createPlacement, type Placement } from "../../src/sharding/placement.ts";
import { createShardedStepQueue } from "../../src/sharding/sharded-step-queue.ts";
import { shardOf } from "../../src/sharding/slots.ts";
import { makeBench, systemClock } from "../bullmq/setup.ts";
import { newRun, runCreated } from "../contract/run-fixtures.ts";
import { stepQueueContract } from "../contract/step-queue.contract.ts";
import { type Shards, setUpShards } from "./setup.ts";

// Of steps of several shards nothing is promised about their order: the contract's runs are all in one.
describe("a sharded step queue keeps the contract", () => {
  stepQueueContract(async () => {
    const benches = [await makeBench(), await makeBench()];
    const [, bench] = benches as [(typeof benches)[0], (typeof benches)[0]];
    const known = createPlacement([]);
    const placement: Placement = { ...known, known: () => 1 };
    return {
      queue: createShardedStepQueue(
        benches.map(({ queue }) => queue),
        placement,
      ),
      clock: systemClock,
      async consume(process, enough) {
        const reached = Promise.withResolvers<void>();
        const worker = bench.makeWorker({
          process: (delivery) =>
            process(delivery).finally(() => {
              if (enough()) reached.resolve();
            }),
        });
        await worker.start();
        await reached.promise;
        await worker.stop();
      },
      async lose(step) {
        const id = toJobId(step);
        await bench.redis.del(bench.key("model", id));
        await bench.redis.zrem(bench.key("model", "prioritized"), id);
      },
      close: async () => void (await Promise.all(benches.map((one) => one.close()))),
    };
  });
});

describe("a step is queued where its run is", () => {
  let shards: Shards;
  beforeEach(() => {
    shards = setUpShards();
  });
  afterEach(() => shards.close());

  const step = (runId: string): Step => ({ runId, kind: "model", owedAt: 1, index: 0 });
  const inSession = (runId: string, session: string) => ({ ...newRun({ runId }, []), session });

  /** A queue that keeps what it is given. */
  function recorder(): StepQueue & { calls: string[] } {
    const calls: string[] = [];
    const note = (what: string) => (steps: Step[]) =>
      void calls.push(`${what} ${steps.map(({ runId }) => runId).join(" ")}`);
    return {
      calls,
      add: async (steps) => note("add")(steps),
      remove: async (steps) => note("remove")(steps),
      async repair(steps) {
        note("repair")(steps);
        return steps.length;
      },
      async promote(one) {
        note("promote")([one]);
        return true;
      },
    };
  }

  test("whether this process knows the run or has to look for it", async () => {
    const runIds = Array.from({ length: 12 }, (_, index) => `run-${index}`);
    const first = shards.open();
    for (const [index, runId] of runIds.entries()) {
      const run = index % 2 === 0 ? newRun({ runId }, []) : inSession(runId, `chat-${index}`);
      await first.store.create(run, [], [runCreated(run)]);
    }
    for (const { placement } of [first, shards.open()]) {
      const queues = [recorder(), recorder(), recorder()];
      const queue = createShardedStepQueue(queues, placement);
      await queue.add(runIds.map(step));
      expect(await queue.repair(runIds.map(step))).toBe(12);
      const held = queues.map(({ calls }) => calls[0]?.split(" ").slice(1) ?? []);
      expect(held.flat().toSorted()).toEqual(runIds.toSorted());
      for (const [index, runId] of runIds.entries()) {
        const home = shardOf(index % 2 === 0 ? runId : `chat-${index}`, 3);
        expect(held[home]).toContain(runId);
        expect(await queue.promote(step(runId))).toBe(true);
        expect(queues[home]?.calls.at(-1)).toBe(`promote ${runId}`);
      }
      await queue.remove(runIds.map(step));
      expect(queues.flatMap(({ calls }) => calls.at(-1)?.split(" ").slice(1) ?? []).toSorted()).toEqual(
        runIds.toSorted(),
      );
    }
  });

  test("what was just committed is queued before anything is awaited", async () => {
    const { store, placement } = shards.open();
    const run = inSession("run-a", "chat-4");
    await store.create(run, [], [runCreated(run)]);
    const queues = [recorder(), recorder(), recorder()];
    void createShardedStepQueue(queues, placement).add([step("run-a")]);
    expect(queues[shardOf("chat-4", 3)]?.calls).toEqual(["add run-a"]);
  });
});
