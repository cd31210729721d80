import { describe, expect, test } from "vitest";
import type { Step } from "../../src/core/owed.ts";
import type { StepOutcome } from "../../src/ports.ts";
import { manualClock } from "../../src/testing/manual-clock.ts";
import { createMemoryStepQueue } from "../../src/testing/memory-step-queue.ts";
import { stepQueueContract } from "../contract/step-queue.contract.ts";

const done: StepOutcome = { type: "done" };
const step: Step = { runId: "run-a", owedAt: 1, index: 0, kind: "model" };

describe("memory step queue keeps the contract", () => {
  stepQueueContract(async () => {
    const clock = manualClock();
    const queue = createMemoryStepQueue({ clock });
    return {
      queue,
      clock,
      async consume(process, enough) {
        while (!enough()) {
          if (await queue.run(process)) continue;
          const next = queue.list().find(({ state }) => state === "delayed");
          if (!next) throw new Error("nothing is queued, and it was not enough");
          clock.advance(next.dueAt - clock.now());
        }
      },
      lose: async (lost) => queue.drop(lost),
      close: async () => {},
    };
  });
});

describe("memory step queue", () => {
  test("drains: delayed steps move the clock, steps added meanwhile are run too", async () => {
    const clock = manualClock();
    const startAt = clock.now();
    const queue = createMemoryStepQueue({ clock });
    await queue.add([{ ...step, notBefore: startAt + 60_000 }]);
    const seen: number[] = [];
    await queue.drain(
      async (delivery) => {
        seen.push(delivery.step.owedAt);
        if (delivery.step.owedAt === 1) await queue.add([{ ...step, owedAt: 2 }]);
        return done;
      },
      { advanceTime: true },
    );
    expect(seen).toEqual([1, 2]);
    expect(clock.now()).toBe(startAt + 60_000);
    expect(queue.list()).toEqual([]);
  });

  test("drains without moving the clock up to the first step that is not due", async () => {
    const clock = manualClock();
    const queue = createMemoryStepQueue({ clock });
    const later = { ...step, owedAt: 2, notBefore: clock.now() + 1 };
    await queue.add([step, later]);
    await queue.drain(async () => done, { advanceTime: false });
    expect(queue.list()).toEqual([{ step: later, state: "delayed", dueAt: later.notBefore }]);
  });

  test("can deliver every step once more after its end, as after a lost worker", async () => {
    const queue = createMemoryStepQueue({ clock: manualClock() });
    await queue.add([step, { ...step, owedAt: 2 }]);
    const seen: [number, number][] = [];
    await queue.drain(
      async ({ step: { owedAt }, lostWorkers }) => {
        seen.push([owedAt, lostWorkers]);
        return done;
      },
      { advanceTime: true, redeliverEveryStep: true },
    );
    expect(seen).toHaveLength(4);
    expect(seen).toEqual(
      expect.arrayContaining([
        [1, 0],
        [1, 1],
        [2, 0],
        [2, 1],
      ]),
    );
  });

  test("a redelivered step counts a lost worker and aborts the delivery it replaces", async () => {
    const queue = createMemoryStepQueue({ clock: manualClock() });
    await queue.add([step]);
    const first = queue.take();
    queue.redeliver(step);
    expect(first?.delivery.signal.aborted).toBe(true);
    const second = queue.take();
    expect(second?.delivery).toMatchObject({ lostWorkers: 1, deliveries: 2 });
    first?.end(done);
    expect(queue.list()).toMatchObject([{ state: "active" }]);
    second?.end(done);
    expect(queue.list()).toEqual([]);
  });

  test("says when steps go in circles", async () => {
    const queue = createMemoryStepQueue({ clock: manualClock() });
    await queue.add([step]);
    const circle = queue.drain(async () => ({ type: "again", delayMs: 1, why: "test" }), {
      advanceTime: true,
      maxDeliveries: 10,
    });
    await expect(circle).rejects.toThrow("circles");
  });
});
