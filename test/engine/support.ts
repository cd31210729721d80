import type { OperatorLimits } from "../../src/core/fleet-limits.ts";
import type { Redaction } from "../../src/core/redact-event.ts";
import type { defineAgent } from "../../src/define-agent.ts";
import { createEngine, type Engine } from "../../src/engine/engine.ts";
import type { Isolate } from "../../src/engine/step.ts";
import type { Delivery, FleetGates, Room, RunStore, Signals, StepQueue } from "../../src/ports.ts";
import { createSilentLogger } from "../../src/telemetry/logger.ts";
import { createNoTelemetry } from "../../src/telemetry/no-telemetry.ts";
import {
  type CrashPoint,
  createFaults,
  createMemoryGates,
  createMemoryRunStore,
  createMemorySignals,
  createMemoryStepQueue,
  type Faults,
  manualClock,
} from "../../src/testing/index.ts";
import { checkValue } from "../../src/tools/parameters.ts";

export type Agent = ReturnType<typeof defineAgent>;

export type ProcessOptions = {
  agents?: readonly Agent[];
  isolate?: Isolate;
  isAlone?: boolean;
  isolateAfter?: number | undefined;
  /** Ports of this process alone, in place of the shared ones. */
  store?: RunStore;
  queue?: StepQueue;
  signals?: Signals;
  gates?: FleetGates;
  limits?: OperatorLimits;
  room?: Room;
  redaction?: Redaction;
};

export type Bench = {
  clock: ReturnType<typeof manualClock>;
  signals: ReturnType<typeof createMemorySignals>;
  store: RunStore;
  queue: ReturnType<typeof createMemoryStepQueue>;
  gates: FleetGates;
  /** A process of its own over the shared records and queues. */
  process(options?: ProcessOptions): Engine;
};

/** Records, queues and signals that several processes share, in memory. */
export function makeBench(): Bench {
  const clock = manualClock();
  const signals = createMemorySignals();
  const store = createMemoryRunStore({ clock, signals });
  const queue = createMemoryStepQueue({ clock });
  const gates = createMemoryGates({ clock });
  let count = 0;
  return {
    clock,
    signals,
    store,
    queue,
    gates,
    process: ({ agents = [], ...own } = {}) =>
      createEngine({
        store,
        queue,
        gates,
        signals,
        clock,
        ids: { token: () => `t${++count}`, runId: () => `run-${++count}`, random: () => 0.5 },
        agents: { get: (name) => agents.find((agent) => agent.name === name)?.code },
        telemetry: createNoTelemetry(),
        logger: createSilentLogger(),
        payloadLimitBytes: 1_048_576,
        checkValue,
        ...own,
      }),
  };
}

/** Takes the next step that is due; there must be one. */
export function takeStep({ queue }: Bench): NonNullable<ReturnType<Bench["queue"]["take"]>> {
  const taken = queue.take();
  if (!taken) throw new Error(`no step is due: ${JSON.stringify(queue.list())}`);
  return taken;
}

/** A delivery like the given one that can be aborted, as a stop or a lost lock does. */
export function abortable(delivery: Delivery, more: Partial<Delivery> = {}): { delivery: Delivery; abort(): void } {
  const controller = new AbortController();
  return { delivery: { ...delivery, ...more, signal: controller.signal }, abort: () => controller.abort() };
}

/** A process that dies at one point and is then replaced by one that lives. */
export type Mortal = {
  faults: Faults;
  engine(): Engine;
  /** The next process takes over. */
  fresh(): void;
  /** One step of those that are due; again, to the next process, if this one dies of it. */
  deliver(): Promise<void>;
};

export function makeMortal(bench: Bench, agents: readonly Agent[], point?: CrashPoint): Mortal {
  const faults = createFaults(point);
  const process = (own: Faults): Engine =>
    bench.process({
      agents,
      store: own.wrap("store", bench.store),
      queue: own.wrap("queue", bench.queue),
      signals: { ...bench.signals, announce: own.wrap("signals", bench.signals).announce },
    });
  let engine = process(faults);
  const fresh = (): void => {
    engine.close();
    engine = process(createFaults());
  };
  return {
    faults,
    engine: () => engine,
    fresh,
    async deliver() {
      const taken = takeStep(bench);
      const wasDead = faults.dead();
      const outcome = await engine.runStep(taken.delivery);
      await new Promise(setImmediate);
      if (faults.dead() && !wasDead) {
        fresh();
        bench.queue.redeliver(taken.delivery.step);
      } else taken.end(outcome);
    },
  };
}
