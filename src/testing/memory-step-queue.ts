import { isSameStep, type Step } from "../core/owed.ts";
import type { Delivery, DeliveryAbort, StepAddress, StepOutcome, StepQueue } from "../ports.ts";
import type { ManualClock } from "./manual-clock.ts";

type ProcessStep = (delivery: Delivery) => Promise<StepOutcome>;

/** A step as the memory queue holds it. `active`: taken and not ended. */
export type QueuedStep = { step: Step; state: "waiting" | "delayed" | "active"; dueAt: number };

/** A step queue in memory, by a manual clock, with the handles that tests of crashes need. */
export type MemoryStepQueue = StepQueue & {
  /** Steps that are queued or active, in the order they will be taken. */
  list(): QueuedStep[];
  /** Takes the next step that is due; undefined if there is none. Whoever takes it ends it, or it is lost. */
  take(): { delivery: Delivery; end(outcome: StepOutcome): void } | undefined;
  /** Takes one step and runs it. A thrown error delivers it again later. False if none was due. */
  run(process: ProcessStep): Promise<boolean>;
  /** As if the worker holding this active step had died: it is queued again at once and counts one lost worker more. */
  redeliver(step: StepAddress): void;
  /** As if the queue had lost it: it is nowhere any more. */
  drop(step: StepAddress): void;
  /** Runs steps until none is queued. @throws Error after `maxDeliveries` (default 10,000): something goes in circles. */
  drain(process: ProcessStep, options: DrainOptions): Promise<void>;
};

export type DrainOptions = {
  /** Moves the clock to the next due time when nothing else is left; without it draining ends there. */
  advanceTime: boolean;
  /** Delivers each step once more after it ended, as if its worker had died just before telling the queue. */
  redeliverEveryStep?: boolean | undefined;
  maxDeliveries?: number | undefined;
};

type Entry = QueuedStep & {
  order: number;
  queuedAt: number;
  deliveries: number;
  lostWorkers: number;
  controller: AbortController;
};

const crashDelayMs = 250;
const defaultPriority = 1_000;
const defaultMaxDeliveries = 10_000;

/** A memory step queue. Delivers at least once, each identity once at a time, like the real one. */
export function createMemoryStepQueue({ clock }: { clock: ManualClock }): MemoryStepQueue {
  const shelf = createShelf(clock);
  return {
    ...shelf,
    async repair(steps) {
      // Others may add and repair meanwhile: only what is missing now is ours.
      const queued = shelf.list();
      const missing = steps.filter(
        (step) => !queued.some((other) => other.step.runId === step.runId && isSameStep(other.step, step)),
      );
      await shelf.add(missing);
      return missing.length;
    },
    async run(process) {
      const taken = shelf.take();
      if (!taken) return false;
      taken.end(await outcomeOf(process, taken.delivery));
      return true;
    },
    drain: (process, options) => drain(shelf, clock, process, options),
  };
}

type Shelf = Pick<MemoryStepQueue, "add" | "promote" | "remove" | "list" | "take" | "redeliver" | "drop">;

function createShelf(clock: ManualClock): Shelf {
  const entries = new Map<string, Entry>();
  let order = 0;

  const ordered = (): Entry[] => [...entries.values()].toSorted(byTurn);
  const put = (entry: Entry, delayMs: number): void => {
    order += 1;
    entry.order = order;
    entry.state = delayMs > 0 ? "delayed" : "waiting";
    entry.dueAt = clock.now() + delayMs;
  };

  return {
    async add(steps) {
      for (const step of steps) {
        if (entries.has(nameOf(step))) continue;
        const now = clock.now();
        const entry = makeEntry(step, now);
        put(entry, entry.dueAt - now);
        entries.set(nameOf(step), entry);
      }
    },
    async promote(step) {
      const entry = entries.get(nameOf(step));
      const delayed = entry?.state === "delayed";
      if (delayed) put(entry, 0);
      return delayed;
    },
    async remove(steps) {
      for (const step of steps) if (entries.get(nameOf(step))?.state !== "active") entries.delete(nameOf(step));
    },
    list: () => ordered().map(({ step, state, dueAt }) => ({ step, state, dueAt })),
    take() {
      for (const entry of entries.values()) ripen(entry, clock.now());
      const entry = ordered().find(({ state }) => state === "waiting");
      if (!entry) return undefined;
      const controller = activate(entry);
      return {
        delivery: toDelivery(entry),
        end(outcome) {
          // The end of a delivery that was superseded tells nothing, as with a lost lock.
          if (entries.get(nameOf(entry.step))?.controller !== controller || entry.state !== "active") return;
          if (outcome.type === "again") put(entry, outcome.delayMs);
          else entries.delete(nameOf(entry.step));
        },
      };
    },
    redeliver(step) {
      const entry = entries.get(nameOf(step));
      if (entry?.state !== "active") throw new Error(`step ${nameOf(step)} is not being worked on`);
      entry.controller.abort("lock_lost" satisfies DeliveryAbort);
      entry.lostWorkers += 1;
      put(entry, 0);
    },
    drop(step) {
      entries.delete(nameOf(step));
    },
  };
}

function ripen(entry: Entry, now: number): void {
  if (entry.state === "delayed" && entry.dueAt <= now) entry.state = "waiting";
}

function activate(entry: Entry): AbortController {
  const controller = new AbortController();
  Object.assign(entry, { state: "active", deliveries: entry.deliveries + 1, controller });
  return controller;
}

async function drain(shelf: Shelf, clock: ManualClock, process: ProcessStep, options: DrainOptions): Promise<void> {
  const redelivered = new Set<string>();
  let left = options.maxDeliveries ?? defaultMaxDeliveries;
  for (;;) {
    const taken = shelf.take();
    if (!taken) {
      const dueAt = options.advanceTime ? nextDueAt(shelf.list()) : undefined;
      if (dueAt === undefined) return;
      clock.advance(dueAt - clock.now());
      continue;
    }
    left -= 1;
    if (left < 0) throw new Error("the queue does not get empty: its steps go in circles");
    const outcome = await outcomeOf(process, taken.delivery);
    const { step } = taken.delivery;
    if (options.redeliverEveryStep && outcome.type === "done" && !redelivered.has(nameOf(step))) {
      redelivered.add(nameOf(step));
      shelf.redeliver(step);
    } else taken.end(outcome);
  }
}

function makeEntry(step: Step, now: number): Entry {
  const dueAt = Math.max(now, step.notBefore ?? now);
  const counts = { order: 0, deliveries: 0, lostWorkers: 0 };
  return { step, state: "waiting", dueAt, queuedAt: dueAt, ...counts, controller: new AbortController() };
}

function nameOf({ owedAt, index, runId }: StepAddress): string {
  return `${owedAt}-${index}-${runId}`;
}

function byTurn(a: Entry, b: Entry): number {
  return (a.step.priority ?? defaultPriority) - (b.step.priority ?? defaultPriority) || a.order - b.order;
}

function toDelivery({ step, deliveries, lostWorkers, queuedAt, controller }: Entry): Delivery {
  const address = { runId: step.runId, owedAt: step.owedAt, index: step.index };
  return { step: address, lostWorkers, deliveries, signal: controller.signal, queuedAt };
}

/** A step that throws is never failed: it is delivered again after a wait. */
async function outcomeOf(process: ProcessStep, delivery: Delivery): Promise<StepOutcome> {
  try {
    return await process(delivery);
  } catch (error) {
    return { type: "again", delayMs: crashDelayMs, why: error instanceof Error ? error.message : String(error) };
  }
}

function nextDueAt(steps: QueuedStep[]): number | undefined {
  const times = steps.filter(({ state }) => state === "delayed").map(({ dueAt }) => dueAt);
  return times.length === 0 ? undefined : Math.min(...times);
}
