import { DelayedError, type Job, WaitingError } from "bullmq";
import type { Clock, Delivery, Logger, StepOutcome, Telemetry } from "../ports.ts";
import { messageOf, type TroubleLog } from "./damping.ts";
import { createHeldSteps, type HeldStep, type HeldSteps } from "./held-steps.ts";
import { countLostWorkers, forgiveLostLock, isLockLost } from "./lost-locks.ts";
import type { RedisClient } from "./redis-client.ts";
import { type ParsedStart, parseStart } from "./start-contract.ts";
import { readStep, runsQueue, toPriority } from "./step-job.ts";
import { maxAgainMs } from "./step-queue.ts";

/** A job of the `runs` queue, read. */
export type StartDelivery = {
  start: ParsedStart;
  /** When it was queued, epoch ms by the producer's clock. */
  queuedAt: number;
  /** As the producer gave it; lower numbers go first. */
  priority?: number | undefined;
  signal: AbortSignal;
};

export type ProcessorOptions = {
  queue: string;
  connection: RedisClient;
  toKey: (jobId: string) => string;
  process: (delivery: Delivery) => Promise<StepOutcome>;
  processStart: (delivery: StartDelivery) => Promise<StepOutcome>;
  maxPayloadBytes?: number | undefined;
  mayStart?: (() => true | Promise<boolean>) | undefined;
  clock: Clock;
  logger: Logger;
  telemetry?: Pick<Telemetry, "count"> | undefined;
  trouble: TroubleLog;
  onStarted: () => void;
};

/** The steps of one queue that this worker holds. */
export type Processor = {
  process(job: Job): Promise<string>;
  /** The lock of these jobs is lost: whoever runs them is told, and no end of theirs is reported. */
  loseLocks(jobIds: string[]): void;
  running(): number;
  /** From now on everything that is delivered goes back at once. */
  refuse(): void;
  /** The same until what it is held for is over. */
  hold(why: string): void;
  release(why: string): void;
  /** Resolves when no step is held. */
  idle(): Promise<void>;
  /** Aborts all signals; what has not ended `afterMs` later goes back to the queue as it is. */
  abandon(afterMs: number): void;
  /** What Redis has not taken back by now is given up: its lock expires. */
  giveUp(): void;
};

/** Aborted in a stopping worker: steps must go back soon, and it is too late for that. */
type Stopping = { soon: AbortSignal; over: AbortSignal };
type GiveBackOptions = ProcessorOptions & { stopping: Stopping };

/** What a finished job leaves in BullMQ's event stream. */
const marker = "ok";
const firstCrashDelayMs = 250;
const zombieDelayMs = 500;
/** For a step that may not begin although this worker is not held yet: so it does not come again and again till it is. */
const refusedDelayMs = 100;

/**
 * What a BullMQ worker runs for each job. It never fails one: an error means a bug or trouble with Redis, and either way
 * the step is delivered again after a wait that grows.
 */
export function createProcessor(given: ProcessorOptions): Processor {
  let refusing = false;
  const soon = new AbortController();
  const over = new AbortController();
  const options = { ...given, stopping: { soon: soon.signal, over: over.signal } };
  const holds = new Set<string>();
  const held = holdSteps(options);

  const work = async (job: Job, jobId: string): Promise<string> => {
    const step = held.begin(jobId);
    try {
      options.onStarted();
      const outcome = await new Promise<StepOutcome>((resolve, reject) => {
        step.abandon = resolve;
        perform(options, job, jobId, step.controller.signal).then(resolve, reject);
      });
      if (step.lost) throw new WaitingError(); // nothing to report: BullMQ leaves the job alone and fetches the next
      if (outcome.type === "done") return marker;
      return await giveBack(options, job, outcome.delayMs, step);
    } finally {
      held.end(jobId);
    }
  };

  /** Undefined: it may be worked on here. */
  const turnedAway = (job: Job, jobId: string): Promise<never> | undefined => {
    if (refusing || holds.size > 0) return giveBack(options, job, 0);
    if (!held.has(jobId)) return undefined;
    // Delivered anew while its last delivery still runs here: that one lost its lock. It ends first.
    held.loseLocks([jobId]);
    return giveBack(options, job, zombieDelayMs);
  };

  return {
    loseLocks: held.loseLocks,
    running: held.count,
    idle: held.idle,
    abandon(afterMs) {
      soon.abort();
      held.abandon(afterMs);
    },
    giveUp: () => over.abort(),
    process(job) {
      const jobId = job.id ?? "";
      // The producer's wish to keep the job would block its id (a corrected job could not come in).
      job.opts.removeOnComplete = true;
      job.opts.removeOnFail = true;
      // Asked again once it is known whether it may start: a stop or a hold may have come meanwhile.
      const begin = (): Promise<string> => turnedAway(job, jobId) ?? work(job, jobId);
      return turnedAway(job, jobId) ?? ifAllowed(options, job, begin);
    },
    refuse() {
      refusing = true;
    },
    hold: (why) => void holds.add(why),
    release: (why) => void holds.delete(why),
  };
}

function holdSteps(options: ProcessorOptions): HeldSteps {
  return createHeldSteps({
    lost: (jobIds) => tellLost(options, jobIds),
    // Not before: a step that takes all memory loses its lock first, and then its worker dies of it.
    outlived(jobId) {
      forgiveLostLock(options.connection, options.toKey(jobId)).catch((error: unknown) => {
        options.trouble(error, { queue: options.queue, ...ofJob(jobId) }, "could not record a lost lock");
      });
    },
  });
}

/** An outage takes the locks of all steps at hand in one moment: one line tells of them. */
function tellLost({ queue, logger, telemetry }: ProcessorOptions, jobIds: string[]): void {
  const [first = ""] = jobIds;
  const others = jobIds.length - 1;
  const fields = { queue, ...ofJob(first), ...(others > 0 ? { others } : {}) };
  logger.warn(fields, "lost the lock of a step; another worker may have it now");
  telemetry?.count({ what: "lock_lost", queue }, jobIds.length);
}

/** Begins a step unless it must not; what that costs where it is known is a comparison. */
function ifAllowed(options: GiveBackOptions, job: Job, work: () => Promise<string>): Promise<string> {
  const may = options.mayStart?.() ?? true;
  if (may === true) return work();
  return may.then((yes) => (yes ? work() : giveBack(options, job, refusedDelayMs)));
}

async function perform(options: ProcessorOptions, job: Job, jobId: string, signal: AbortSignal): Promise<StepOutcome> {
  try {
    if (options.queue === runsQueue) {
      const start = parseStart(job, { maxPayloadBytes: options.maxPayloadBytes });
      // As it was given: one that waited for long may have been moved to another class.
      const priority = Number(job.opts.priority ?? job.priority);
      const given = priority > 0 ? { priority: toPriority(priority) } : {};
      return await options.processStart({ start, queuedAt: job.timestamp, ...given, signal });
    }
    const step = readStep(job.data);
    if (!step) {
      // Not one of ours; the sweeper queues anew whatever a run really owes.
      options.logger.error({ queue: options.queue, step: jobId }, "dropped a job whose data names no step");
      return { type: "done" };
    }
    const lostWorkers = await countLostWorkers(options.connection, options.toKey(jobId), job.stalledCounter);
    const queuedAt = job.timestamp + (Number(job.opts.delay) || 0) || options.clock.now();
    const deliveries = job.attemptsStarted;
    return await options.process({ step, lostWorkers, deliveries, signal, queuedAt });
  } catch (error) {
    const delayMs = growing(firstCrashDelayMs, job.attemptsStarted);
    options.trouble(error, { queue: options.queue, ...ofJob(jobId), delayMs }, "a step could not be worked on");
    return { type: "again", delayMs, why: messageOf(error) };
  }
}

/** The step and its run, as far as the job's id tells. */
function ofJob(jobId: string): { step: string; runId?: string } {
  const [, runId] = /^\d+-\d+-(.+)$/.exec(jobId) ?? [];
  return runId === undefined ? { step: jobId } : { step: jobId, runId };
}

function growing(firstMs: number, times: number): number {
  const wait = Math.min(firstMs * 2 ** Math.min(Math.max(times - 1, 0), 20), maxAgainMs);
  return wait * (0.8 + 0.2 * Math.random());
}

/**
 * Returns a job to its queue: to the front, or to be taken after a delay. Tries until it worked or the lock is lost:
 * a job that is simply dropped would count as one whose worker was lost. Always throws what tells BullMQ to leave it.
 */
async function giveBack(options: GiveBackOptions, job: Job, delayMs: number, step?: HeldStep): Promise<never> {
  const token = job.token ?? "";
  for (let tries = 1; ; tries += 1) {
    try {
      if (delayMs > 0) await job.moveToDelayed(dueAt(options.clock, delayMs), token);
      else await moveToFront(options, job, token);
      break;
    } catch (error) {
      const fields = { queue: options.queue, ...ofJob(job.id ?? "") };
      if (isGone(error, step)) break;
      options.trouble(error, fields, "could not give a step back");
      await nextTry(options, tries);
      if (options.stopping.over.aborted) break;
    }
  }
  throw delayMs > 0 ? new DelayedError() : new WaitingError();
}

/** A worker that stops tries again at once, and often: what waits longer would also keep its process up. */
function nextTry({ clock, stopping: { soon, over } }: GiveBackOptions, tries: number): Promise<void> {
  return soon.aborted ? clock.sleep(firstCrashDelayMs, over) : clock.sleep(growing(firstCrashDelayMs, tries), soon);
}

/** Whether a step cannot be given back any more. A lock that a renewal found lost too is told of once. */
function isGone(error: unknown, step: HeldStep | undefined): boolean {
  if (isLockLost(error)) step?.loseLock();
  return isLockLost(error) || step?.lost === true || isClosed(error);
}

/** BullMQ puts a job with a priority to the front without waking idle workers; its own marker does that. */
async function moveToFront(options: ProcessorOptions, job: Job, token: string): Promise<void> {
  await job.moveToWait(token);
  await options.connection.zadd(options.toKey("marker"), 0, "0");
}

/** Redis's time, but never so early that this machine, if its clock is ahead, would take the job back at once. */
function dueAt(clock: Clock, delayMs: number): number {
  return Math.ceil(Math.max(clock.now(), Date.now()) + delayMs);
}

function isClosed(error: unknown): boolean {
  return error instanceof Error && error.message === "Connection is closed.";
}
