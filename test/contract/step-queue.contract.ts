import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { Step } from "../../src/core/owed.ts";
import type { Clock, Delivery, StepOutcome, StepQueue } from "../../src/ports.ts";

export type StepQueueHarness = {
  queue: StepQueue;
  clock: Clock;
  /** Delivers steps to `process`, one at a time, until `done` says that it was enough. Time passes as it must. */
  consume(process: (delivery: Delivery) => Promise<StepOutcome>, done: () => boolean): Promise<void>;
  /** Makes the queue lose this step, as a crash of the store or a hand in the wrong place can. */
  lose(step: Step): Promise<void>;
  close(): Promise<void>;
};

const done: StepOutcome = { type: "done" };

/** What every step queue must do, whatever it is made of. */
export function stepQueueContract(makeHarness: () => Promise<StepQueueHarness>): void {
  let harness: StepQueueHarness;
  let delivered: string[];
  let owedAt = 0;

  beforeEach(async () => {
    harness = await makeHarness();
    delivered = [];
  });
  afterEach(() => harness.close());

  function makeStep(runId: string, fields: Partial<Step> = {}): Step {
    owedAt += 1;
    return { runId, owedAt, index: 0, kind: "model", ...fields };
  }

  /** Consumes until `last` was delivered, `times` steps in all. */
  async function consumeUntil(last: string, onDelivery?: (delivery: Delivery) => Promise<StepOutcome | undefined>) {
    await harness.consume(
      async (delivery) => {
        delivered.push(delivery.step.runId);
        return (await onDelivery?.(delivery)) ?? done;
      },
      () => delivered.includes(last),
    );
  }

  describe("adding", () => {
    test("delivers a step with its address, once", async () => {
      const step = makeStep("run-a", { index: 3 });
      const seen: Delivery[] = [];
      const before = harness.clock.now();
      await harness.queue.add([step]);
      await consumeUntil("run-a", async (delivery) => {
        seen.push(delivery);
        return undefined;
      });
      expect(seen).toHaveLength(1);
      expect(seen[0]).toMatchObject({
        step: { runId: "run-a", owedAt: step.owedAt, index: 3 },
        lostWorkers: 0,
        deliveries: 1,
      });
      expect(seen[0]?.signal.aborted).toBe(false);
      expect(Math.abs((seen[0]?.queuedAt ?? 0) - before)).toBeLessThan(5_000);
    });

    test("adding a step that is queued delivers it once", async () => {
      const step = makeStep("run-a");
      await harness.queue.add([step]);
      await harness.queue.add([step, step]);
      await harness.queue.add([makeStep("run-last")]);
      await consumeUntil("run-last");
      expect(delivered).toEqual(["run-a", "run-last"]);
    });

    test("many steps of all kinds in one call are all delivered", async () => {
      const steps = [
        makeStep("run-model"),
        makeStep("run-wake", { kind: "wake", index: 1_000_000 }),
        makeStep("run-tool", { kind: "tool", index: 1 }),
        makeStep("run-tool-2", { kind: "tool", index: 2 }),
        makeStep("run-browser", { kind: "tool", index: 3, queue: "browser" }),
      ];
      await harness.queue.add(steps);
      await harness.consume(
        async ({ step }) => {
          delivered.push(step.runId);
          return done;
        },
        () => delivered.length === steps.length,
      );
      expect(delivered.toSorted()).toEqual(steps.map(({ runId }) => runId).toSorted());
    });

    test("a lower priority number goes first, no priority in between", async () => {
      await harness.queue.add([makeStep("run-last", { priority: 2_000 })]);
      await harness.queue.add([makeStep("run-plain")]);
      await harness.queue.add([makeStep("run-urgent", { priority: 1 })]);
      await consumeUntil("run-last");
      expect(delivered).toEqual(["run-urgent", "run-plain", "run-last"]);
    });

    test("a step is not delivered before its time, and does not hold up others", async () => {
      const notBefore = harness.clock.now() + 600;
      await harness.queue.add([makeStep("run-later", { notBefore }), makeStep("run-now")]);
      let deliveredAt = 0;
      await consumeUntil("run-later", async ({ step }) => {
        if (step.runId === "run-later") deliveredAt = harness.clock.now();
        return undefined;
      });
      expect(delivered).toEqual(["run-now", "run-later"]);
      expect(deliveredAt).toBeGreaterThanOrEqual(notBefore);
      expect(deliveredAt).toBeLessThan(notBefore + 5_000);
    });

    test("adding an active step does not deliver it again", async () => {
      const step = makeStep("run-a");
      await harness.queue.add([step]);
      await consumeUntil("run-last", async (delivery) => {
        if (delivery.step.runId !== "run-a") return undefined;
        await harness.queue.add([step]);
        expect(await harness.queue.repair([step])).toBe(0);
        await harness.queue.remove([step]);
        await harness.queue.add([makeStep("run-last")]);
        return undefined;
      });
      expect(delivered).toEqual(["run-a", "run-last"]);
    });

    test("a step that ended may be queued and delivered again", async () => {
      const step = makeStep("run-a");
      await harness.queue.add([step]);
      await consumeUntil("run-a");
      delivered = [];
      await harness.queue.add([step]);
      await consumeUntil("run-a");
      expect(delivered).toEqual(["run-a"]);
    });
  });

  describe("delivering again", () => {
    test("an outcome `again` comes back after its delay, and the delivery counts", async () => {
      await harness.queue.add([makeStep("run-a")]);
      const seen: { deliveries: number; at: number }[] = [];
      await harness.consume(
        async ({ deliveries }) => {
          seen.push({ deliveries, at: harness.clock.now() });
          return seen.length === 1 ? { type: "again", delayMs: 300, why: "test" } : done;
        },
        () => seen.length === 2,
      );
      expect(seen.map(({ deliveries }) => deliveries)).toEqual([1, 2]);
      expect((seen[1]?.at ?? 0) - (seen[0]?.at ?? 0)).toBeGreaterThanOrEqual(300);
    });

    test("an outcome `again` without a delay comes back", async () => {
      await harness.queue.add([makeStep("run-a")]);
      await harness.consume(
        async ({ step }) => {
          delivered.push(step.runId);
          return delivered.length === 1 ? { type: "again", delayMs: 0, why: "test" } : done;
        },
        () => delivered.length === 2,
      );
      expect(delivered).toEqual(["run-a", "run-a"]);
    });

    test("a step that throws is delivered again, and no worker counts as lost", async () => {
      await harness.queue.add([makeStep("run-a")]);
      const lost: number[] = [];
      await harness.consume(
        async ({ lostWorkers }) => {
          lost.push(lostWorkers);
          if (lost.length < 3) throw new Error("out of order");
          return done;
        },
        () => lost.length === 3,
      );
      expect(lost).toEqual([0, 0, 0]);
    });
  });

  describe("promoting", () => {
    test("a delayed step is delivered at once; any other is left alone, which is said", async () => {
      const later = makeStep("run-later", { notBefore: harness.clock.now() + 60_000 });
      const [queued, never] = [makeStep("run-queued"), makeStep("run-never")];
      await harness.queue.add([later, queued]);
      expect(await harness.queue.promote(queued)).toBe(false);
      expect(await harness.queue.promote(never)).toBe(false);
      expect(await harness.queue.promote(later)).toBe(true);
      expect(await harness.queue.promote(later)).toBe(false);
      await consumeUntil("run-later", async ({ step }) => {
        if (step.runId === "run-later") expect(await harness.queue.promote(later)).toBe(false);
        return undefined;
      });
      expect(delivered.toSorted()).toEqual(["run-later", "run-queued"]);
    });
  });

  describe("removing and repairing", () => {
    test("a removed step is not delivered; removing what is not there is no error", async () => {
      const [waiting, delayed] = [makeStep("run-a"), makeStep("run-b", { notBefore: harness.clock.now() + 100 })];
      await harness.queue.add([waiting, delayed]);
      await harness.queue.remove([waiting, delayed, makeStep("run-never")]);
      await harness.queue.add([makeStep("run-last", { notBefore: harness.clock.now() + 300 })]);
      await consumeUntil("run-last");
      expect(delivered).toEqual(["run-last"]);
    });

    test("a step that the queue lost is repaired, once", async () => {
      const step = makeStep("run-a");
      await harness.queue.add([step]);
      await harness.lose(step);
      expect(await harness.queue.repair([step])).toBe(1);
      expect(await harness.queue.repair([step])).toBe(0);
      await harness.queue.add([makeStep("run-last")]);
      await consumeUntil("run-last");
      expect(delivered).toEqual(["run-a", "run-last"]);
    });

    test("repairing leaves alone what is queued or not due, and counts what it repaired", async () => {
      const notBefore = harness.clock.now() + 500;
      const healthy = [makeStep("run-a"), makeStep("run-later", { notBefore })];
      const missing = [makeStep("run-b"), makeStep("run-c", { kind: "tool" })];
      await harness.queue.add(healthy);
      expect(await harness.queue.repair([...healthy, ...missing])).toBe(2);
      let deliveredAt = 0;
      await consumeUntil("run-later", async ({ step }) => {
        if (step.runId === "run-later") deliveredAt = harness.clock.now();
        return undefined;
      });
      expect(delivered.toSorted()).toEqual(["run-a", "run-b", "run-c", "run-later"]);
      expect(deliveredAt).toBeGreaterThanOrEqual(notBefore);
    });
  });
}
