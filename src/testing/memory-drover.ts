import { defaultPayloadLimitBytes } from "../core/defaults.ts";
import type { OperatorLimits } from "../core/fleet-limits.ts";
import type { Policy } from "../core/policy.ts";
import type { Redaction } from "../core/redact-event.ts";
import type { Agent } from "../define-agent.ts";
import { createRunApi, type Drover, governAgents, type WorkerHandle } from "../drover.ts";
import { createEngine, type Engine } from "../engine/engine.ts";
import { pauseFleet, resumeFleet } from "../engine/fleet-pause.ts";
import { createIds } from "../ids.ts";
import type { FleetReader, Logger, RunStore, Signals, Telemetry } from "../ports.ts";
import { readLimits } from "../read-options.ts";
import { type RedactionOptions, toRedaction } from "../redaction/redaction.ts";
import { createSilentLogger, redactLogs } from "../telemetry/logger.ts";
import { createNoTelemetry } from "../telemetry/no-telemetry.ts";
import { checkValue } from "../tools/parameters.ts";
import { type ManualClock, manualClock } from "./manual-clock.ts";
import { createMemoryFleet } from "./memory-fleet.ts";
import { createMemoryFleetSwitch, type MemoryFleetSwitch } from "./memory-fleet-switch.ts";
import { createMemoryGates } from "./memory-gates.ts";
import { createMemoryRunStore } from "./memory-run-store.ts";
import { createMemorySignals } from "./memory-signals.ts";
import { createMemoryStepQueue } from "./memory-step-queue.ts";

export type MemoryDroverOptions = {
  agents: readonly Agent[];
  /** As of `createDrover`. */
  policy?: Policy | undefined;
  /** As of `createDrover`. */
  limits?: OperatorLimits | undefined;
  /** A manual clock moves only when told. Default: time jumps to the next due step when nothing else is left to do. */
  clock?: ManualClock | undefined;
  telemetry?: Telemetry | undefined;
  logger?: Logger | undefined;
  /** As of `createDrover`. */
  redaction?: RedactionOptions | undefined;
};

/** Drover without Redis: the same API, engine and rules, for tests. `work()` takes steps until it is stopped. */
export function createMemoryDrover(options: MemoryDroverOptions): Drover {
  return openMemoryBackend(options).drover;
}

/** A Drover in memory, and what it is made over. */
export type MemoryBackend = {
  drover: Drover;
  engine: Engine;
  store: RunStore;
  signals: Signals;
  fleet: FleetReader;
  clock: ManualClock;
  redaction: Redaction;
};

/** As `createMemoryDrover`, with the parts that HTTP needs too. */
export function openMemoryBackend(options: MemoryDroverOptions): MemoryBackend {
  const clock = options.clock ?? manualClock();
  const agents = governAgents(options.agents, options.policy);
  const redaction = toRedaction(options.redaction, []);
  const queue = createMemoryStepQueue({ clock });
  const wakers = new Set<() => void>();
  const ring = (): void => {
    for (const wake of wakers) wake();
  };
  const ringing: typeof queue = {
    ...queue,
    add: (steps) => queue.add(steps).then(ring),
    promote: async (step) => {
      const promoted = await queue.promote(step);
      ring();
      return promoted;
    },
  };
  const signals = createMemorySignals();
  const store = createMemoryRunStore({ clock, signals });
  const gates = createMemoryGates({ clock });
  const limits = readLimits(options.limits);
  const fleetSwitch = createMemoryFleetSwitch();
  const engine = createEngine({
    store,
    queue: ringing,
    gates,
    limits,
    signals,
    clock,
    ids: createIds(),
    agents,
    telemetry: options.telemetry ?? createNoTelemetry(),
    logger: options.logger ? redactLogs(options.logger, redaction.redactor) : createSilentLogger(),
    redaction,
    checkValue,
    payloadLimitBytes: defaultPayloadLimitBytes,
  });
  const workers = new Map<WorkerHandle, { startedAt: number }>();
  const codes = options.agents.flatMap(({ name }) => agents.get(name) ?? []);
  const fleet = createMemoryFleet({ clock, fleetSwitch, store, queue, gates, limits, agents: codes, workers });

  const drover: Drover = {
    async work() {
      const handle = startMemoryWorker({ engine, queue, clock, wakers, auto: !options.clock, fleetSwitch });
      workers.set(handle, { startedAt: clock.now() });
      const stop = (): Promise<void> => handle.stop().finally(() => workers.delete(handle));
      return { ...handle, stop };
    },
    fleet: () => fleet.read(),
    ...pausing({ fleetSwitch, signals, fleet, clock, redaction, ring }),
    ...createRunApi(() => engine, redaction.redactor),
    async close() {
      await Promise.all([...workers.keys()].map((worker) => worker.stop()));
      engine.close();
    },
  };
  return { drover, engine, store, signals, fleet, clock, redaction };
}

type PauseParts = Pick<MemoryBackend, "signals" | "fleet" | "clock" | "redaction"> & {
  fleetSwitch: MemoryFleetSwitch;
  ring: () => void;
};

function pausing({ fleet, redaction, ring, ...parts }: PauseParts): Pick<Drover, "pauseAll" | "resumeAll"> {
  const presence = { workers: async () => (await fleet.read()).workers };
  const deps = { ...parts, ...redaction, presence, logger: createSilentLogger() };
  return {
    pauseAll: (options) => pauseFleet(deps, options),
    resumeAll: () => resumeFleet(deps).finally(ring),
  };
}

type WorkerParts = Omit<Waiting, "running" | "signal" | "isHeld"> & { engine: Engine };

/** Takes every step that is due at once, and waits for the next one. */
function startMemoryWorker({ engine, ...parts }: WorkerParts): WorkerHandle {
  const { queue, clock } = parts;
  const stopping = new AbortController();
  const running = new Set<Promise<void>>();
  let lastStartedAt: number | undefined;
  let isPaused = false;
  async function loop(): Promise<void> {
    while (!stopping.signal.aborted) {
      const isHeld = isPaused || parts.fleetSwitch.isPaused();
      const taken = isHeld ? undefined : queue.take();
      if (!taken) {
        await nextChange({ ...parts, running, signal: stopping.signal, isHeld });
        continue;
      }
      lastStartedAt = clock.now();
      const step = engine.runStep(taken.delivery).then(taken.end);
      running.add(step);
      void step.then(() => running.delete(step));
    }
    await Promise.all(running);
  }
  const looping = loop();
  const pause = async (wanted: boolean): Promise<void> => {
    isPaused = wanted;
    for (const wake of parts.wakers) wake();
  };
  return {
    queues: ["model", "tools"],
    stats: () => ({ running: running.size, lastStartedAt }),
    health: async () => ({ live: true, ready: true }),
    pause: () => pause(true),
    resume: () => pause(false),
    stop: () => {
      stopping.abort();
      return looping;
    },
  };
}

type Waiting = {
  queue: ReturnType<typeof createMemoryStepQueue>;
  clock: ManualClock;
  wakers: Set<() => void>;
  running: Set<Promise<void>>;
  auto: boolean;
  fleetSwitch: MemoryFleetSwitch;
  signal: AbortSignal;
  /** Nothing is taken, whatever is due. */
  isHeld: boolean;
};

/** Waits until a step may be due: one was added or has ended, or its time has come. */
async function nextChange({ queue, clock, wakers, running, auto, signal, isHeld }: Waiting): Promise<void> {
  const times = queue.list().flatMap(({ state, dueAt }) => (state === "delayed" ? [dueAt] : []));
  const dueAt = times.length === 0 || isHeld ? undefined : Math.min(...times);
  if (auto && dueAt !== undefined && running.size === 0) {
    clock.advance(dueAt - clock.now());
    return;
  }
  const waiting = new AbortController();
  await new Promise<void>((resolve) => {
    const wake = (): void => {
      wakers.delete(wake);
      waiting.abort();
      resolve();
    };
    wakers.add(wake);
    signal.addEventListener("abort", wake, { once: true, signal: waiting.signal });
    for (const step of running) void step.then(wake);
    if (dueAt !== undefined) void clock.sleep(dueAt - clock.now(), waiting.signal).then(wake);
  });
}
