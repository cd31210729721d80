import { atMost } from "./at-most.ts";
import { type Backend, type BackendOptions, openBackend } from "./backend.ts";
import { ownQueues } from "./bullmq/queue-depths.ts";
import { modelQueue, toolQueue } from "./bullmq/step-job.ts";
import { DroverError } from "./core/errors.ts";
import type { Retention } from "./core/retention.ts";
import { readInTurn } from "./engine/fleet-turn.ts";
import { startSweeper } from "./engine/sweep.ts";
import { createIds } from "./ids.ts";
import { beginIsolated, endIsolated, isolatedStep } from "./isolate.ts";
import type { Delivery } from "./ports.ts";
import { type PresenceOptions, startPresence } from "./presence.ts";
import { checkRedis, type Finding } from "./redis/check.ts";
import { makeClient } from "./redis/redis-options.ts";
import { watchSettings } from "./redis/watch-settings.ts";
import { createStepWorkers } from "./step-workers.ts";
import { createWorkerHealth, type WorkerHealth } from "./worker-health.ts";
import { openWorkerPause } from "./worker-pause.ts";

export type WorkOptions = {
  /** Steps at once on each queue; default 100. With shards it is divided among them, rounded up. */
  concurrency?: number | undefined;
  /**
   * Queues to serve: `runs`; `model`, for model calls and for tools without a queue of their own; and those that tools
   * name. Default: all that the agents need.
   */
  queues?: readonly string[] | undefined;
  /** How long steps in hand may go on when the worker stops, in ms; default 10,000. */
  graceMs?: number | undefined;
  /** How long a step's lock outlives its worker, in ms; default 3,000. */
  lockMs?: number | undefined;
  /** How long work may wait and this worker begin none before `health` calls it stuck, in ms; default 300,000. */
  stuckAfterMs?: number | undefined;
  /**
   * How many workers a step may lose before it runs alone in a child process, whose death ends its run as `poison`; default 3,
   * at least 1.
   */
  isolateAfter?: number | undefined;
  /** Refuse to work on a Redis whose settings can lose runs (eviction); default true. */
  strict?: boolean | undefined;
};

export type WorkerHandle = {
  readonly queues: readonly string[];
  /** Steps in hand, and when the last one was begun, epoch ms. */
  stats(): { running: number; lastStartedAt: number | undefined };
  /** Whether it takes steps while there are some, as of now: for the probes of a supervisor. Never rejects. */
  health(): Promise<WorkerHealth>;
  /** Takes no more steps until it is resumed; those in hand go on, and what they make owed waits or is others' to take. */
  pause(): Promise<void>;
  resume(): Promise<void>;
  /** Takes no more steps, lets those in hand end within the grace period, gives the rest back. */
  stop(): Promise<void>;
};

const defaultConcurrency = 100;

/** The queue that users name so. */
function toQueue(name: string): string {
  return ownQueues.includes(name) ? name : toolQueue(name);
}

/** What older versions left on the former queue of tools is taken by those who take such steps now. */
function toServed(queues: string[]): string[] {
  return [...new Set(queues.includes(modelQueue) ? [...queues, toolQueue(undefined)] : queues)];
}

export type WorkerDeps = BackendOptions & {
  /** The agents that the worker has, by name, and the queues that their tools name. */
  toolQueues: ReadonlyMap<string, readonly string[]>;
  /** Sends what telemetry still holds; awaited before an isolated step's process ends. */
  flush: () => Promise<void>;
  /** How long runs are kept once they have ended. */
  retention?: Retention | undefined;
};

/**
 * Starts taking steps. In a process that was started for one isolated step, executes that one and ends the process.
 *
 * @throws DroverError "queue_unavailable", or "unsupported" for a Redis that can lose runs.
 */
export async function startWorker(deps: WorkerDeps, options: WorkOptions): Promise<WorkerHandle> {
  const { isolateAfter } = options;
  if (isolateAfter !== undefined && !(isolateAfter >= 1)) {
    throw new DroverError("invalid", `isolateAfter: expected a number from 1 on, received ${String(isolateAfter)}.`);
  }
  const backend = openBackend({ ...deps, isolateAfter }, "worker");
  try {
    await backend.connection.ready();
    const findings = await refuseUnfitRedis(backend, deps, options.strict ?? true);
    await backend.clock.ready();
    const alone = isolatedStep();
    if (alone) return await runAlone(backend, alone, deps.flush);
    return await takeSteps(backend, deps, options, findings);
  } catch (error) {
    await backend.close();
    throw error;
  }
}

async function takeSteps(
  backend: Backend,
  deps: WorkerDeps,
  options: WorkOptions,
  known: readonly Finding[],
): Promise<WorkerHandle> {
  const { clock } = backend;
  const queues = options.queues ?? [...ownQueues, ...new Set([...deps.toolQueues.values()].flat())];
  const served = toServed(queues.map(toQueue));
  const { concurrency = defaultConcurrency } = options;
  const pause = await openWorkerPause(backend);
  const worker = createStepWorkers(backend, {
    client: backend.connection.client,
    connect: () => makeClient(deps.redis, "worker", "drover-step-worker"),
    ...{ prefix: deps.prefix, queues: served, concurrency },
    telemetry: deps.telemetry,
    ...{ lockMs: options.lockMs, graceMs: options.graceMs },
    maxPayloadBytes: deps.payloadLimitBytes,
    mayStart: pause.mayStart,
  });
  pause.govern(worker);
  await worker.start().catch((error: unknown) => {
    pause.stop();
    throw error;
  });
  const sweepers = startSweepers(backend, deps);
  const stopWatching = watchSettings({ ...backend, prefix: deps.prefix, durability: deps.durability, known });
  const id = createIds().token();
  const stopObserving = deps.telemetry.observeFleet(readInTurn(backend, id));
  const presence = tellFleet(backend, deps, {
    worker: { id, queues: served, concurrency: worker.concurrency },
    running: () => worker.stats().running,
    isPaused: pause.isPaused,
  });
  pause.tellBy(presence.tellAgain);
  // Whoever starts runs once `work()` has resolved finds its agents known.
  await presence.told();
  const stop = once(async () => {
    // It takes no more steps from now on, so it is none of those that serve the queues any more.
    await Promise.all([worker.stop(), presence.stop()]);
    stopObserving();
    pause.stop();
    stopWatching();
    await sweepers.stop();
    await backend.close();
  });
  return {
    queues,
    stats: worker.stats,
    health: createWorkerHealth({
      ...{ fleet: backend.fleet, queues: served, concurrency: worker.concurrency, stats: worker.stats, clock },
      lastStartedOn: worker.lastStartedOn,
      ...{ isPaused: pause.isPaused, stuckAfterMs: options.stuckAfterMs },
    }),
    pause: () => pause.set(true),
    resume: () => pause.set(false),
    stop,
  };
}

function tellFleet(
  { presence, clock }: Backend,
  deps: WorkerDeps,
  own: Pick<PresenceOptions, "worker" | "running" | "isPaused">,
): ReturnType<typeof startPresence> {
  return startPresence({ ...deps, ...own, presence, clock, served: toServedBy(deps) });
}

/** Each shard has its own, so that one that cannot be reached holds up no other. */
function startSweepers(backend: Backend, { retention }: WorkerDeps): { stop(): Promise<void> } {
  const sweepers = backend.shards.map(({ store, queue }) => startSweeper({ ...backend, store, queue }, { retention }));
  return {
    async stop() {
      await atMost(sweepEndMs, Promise.all(sweepers.map((sweeper) => sweeper.stop())));
    },
  };
}

/** A sweeper that asks a Redis which is away waits for it; a stopping worker does not. */
const sweepEndMs = 500;

/** Does it when it is first asked for, and for all who ask. */
function once(work: () => Promise<void>): () => Promise<void> {
  let done: Promise<void> | undefined;
  return () => {
    done ??= work();
    return done;
  };
}

/** The queues that each agent's tools name. */
function toServedBy({ toolQueues }: WorkerDeps): Map<string, string[]> {
  return new Map([...toolQueues].map(([agent, named]) => [agent, named.map(toolQueue)]));
}

async function runAlone(
  { engine, clock, close }: Backend,
  { lostWorkers, ...step }: NonNullable<ReturnType<typeof isolatedStep>>,
  flush: () => Promise<void>,
): Promise<never> {
  const signal = beginIsolated();
  const delivery: Delivery = { step, lostWorkers, deliveries: lostWorkers + 1, signal, queuedAt: clock.now() };
  if (!signal.aborted) await engine.runStep(delivery);
  await flush();
  await close();
  return endIsolated();
}

async function refuseUnfitRedis(
  { connection, logger }: Backend,
  { prefix, durability }: BackendOptions,
  strict: boolean,
): Promise<Finding[]> {
  const findings = await checkRedis(connection, { prefix, durability });
  for (const { severity, setting, message } of findings) {
    if (severity === "warning") logger.warn({ setting }, message);
  }
  const errors = findings.filter(({ severity }) => severity === "error");
  if (errors.length === 0) return findings;
  const text = errors.map(({ message }) => message).join(" ");
  if (strict) throw new DroverError("unsupported", text);
  logger.error({}, text);
  return findings;
}
