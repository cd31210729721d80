import type { Backend } from "./backend.ts";
import { runsQueue } from "./bullmq/step-job.ts";
import { createStepWorker, type StepWorker, type StepWorkerOptions } from "./bullmq/step-worker.ts";
import { endClient } from "./end-client.ts";
import type { Delivery, StepOutcome } from "./ports.ts";

export type StepWorkersOptions = Omit<StepWorkerOptions, "process" | "processStart" | "clock" | "logger" | "locks">;

/** What takes steps in this process, as one. */
export type StepWorkers = {
  start(): Promise<void>;
  stop(): Promise<void>;
  /** As of each worker. */
  hold(why: string): void;
  release(why: string): void;
  stats(): { running: number; lastStartedAt: number | undefined };
  /** When the last step of that queue was begun, in any shard. */
  lastStartedOn(queue: string): number | undefined;
  /** The most steps at once. */
  readonly concurrency: number;
};

/**
 * One worker, or with several shards one for each, among which `concurrency` is divided (rounded up), and one for the
 * queue `runs`, which all shards share.
 */
export function createStepWorkers(backend: Backend, options: StepWorkersOptions): StepWorkers {
  const { engine, shards, clock, logger } = backend;
  const { queues, concurrency } = options;
  const locks = options.connect();
  locks.on("error", () => undefined); // what it means for a step is told as its lost lock
  const common = {
    ...options,
    locks,
    processStart: ({ start, priority }) => engine.takeStart(start, priority),
    clock,
    logger,
  } satisfies Omit<StepWorkerOptions, "process">;

  function open(own: Pick<StepWorkerOptions, "prefix" | "queues" | "concurrency" | "process">): Opened {
    return { worker: createStepWorker({ ...common, ...own }), most: own.concurrency * own.queues.length };
  }

  function openShards(): Opened[] {
    const starts = queues.filter((name) => name === runsQueue);
    const steps = queues.filter((name) => name !== runsQueue);
    const divided = Math.ceil(concurrency / shards.length);
    return [
      ...(starts.length > 0
        ? [open({ prefix: options.prefix, queues: starts, concurrency, process: engine.runStep })]
        : []),
      ...(steps.length > 0 ? shards : []).map(({ keys, sawRun }) => {
        const process = (delivery: Delivery): Promise<StepOutcome> => {
          sawRun(delivery.step.runId);
          return engine.runStep(delivery);
        };
        return open({ prefix: keys.prefix, queues: steps, concurrency: divided, process });
      }),
    ];
  }

  const opened =
    shards.length === 1
      ? [open({ prefix: options.prefix, queues, concurrency, process: engine.runStep })]
      : openShards();
  const workers = opened.map(({ worker }) => worker);
  const stop = (): Promise<void> => stopAll(workers, locks);

  return {
    concurrency: opened.reduce((sum, { most }) => sum + most, 0),
    start: () => startAll(workers, stop),
    stop,
    hold: (why) => holdAll(workers, why),
    release: (why) => releaseAll(workers, why),
    lastStartedOn(queue) {
      const started = workers.flatMap((worker) => worker.lastStartedOn(queue) ?? []);
      return started.length === 0 ? undefined : Math.max(...started);
    },
    stats: () => statsOf(workers),
  };
}

async function startAll(workers: readonly StepWorker[], stop: () => Promise<void>): Promise<void> {
  try {
    await Promise.all(workers.map((worker) => worker.start()));
  } catch (error) {
    await stop();
    throw error;
  }
}

async function stopAll(workers: readonly StepWorker[], locks: StepWorkerOptions["locks"]): Promise<void> {
  await Promise.all(workers.map((worker) => worker.stop()));
  await endClient(locks);
}

function statsOf(workers: readonly StepWorker[]): ReturnType<StepWorkers["stats"]> {
  const all = workers.map((worker) => worker.stats());
  const started = all.flatMap(({ lastStartedAt }) => lastStartedAt ?? []);
  return {
    running: all.reduce((sum, { running }) => sum + running, 0),
    lastStartedAt: started.length === 0 ? undefined : Math.max(...started),
  };
}

function holdAll(workers: readonly StepWorker[], why: string): void {
  for (const worker of workers) worker.hold(why);
}

function releaseAll(workers: readonly StepWorker[], why: string): void {
  for (const worker of workers) worker.release(why);
}

type Opened = { worker: ReturnType<typeof createStepWorker>; most: number };
