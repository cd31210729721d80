import { type Job, Queue } from "bullmq";
import { defaultPrefix } from "../core/defaults.ts";
import { DroverError } from "../core/errors.ts";
import type { Step } from "../core/owed.ts";
import type { Clock, Logger, StepQueue } from "../ports.ts";
import { messageOf } from "./damping.ts";
import { strayLockMs } from "./endless-keys.ts";
import type { RedisClient } from "./redis-client.ts";
import { dueAtOf } from "./scores.ts";
import { mayBeInFormerQueue, type NewJob, queueOf, queuePrefix, toJob, toJobId, toolQueue } from "./step-job.ts";

/** Events kept per queue, about. They hold ids and markers only; nobody needs old ones. */
export const maxEvents = 200;
/** The longest wait that a worker's "again" may put on a step that is due; a later due time comes from a wrong clock. */
export const maxAgainMs = 30_000;
const repairsAtOnce = 100;

/** A connection that fails fast, bounds its waits and turns failures of Redis into ours: a producer's. */
export type QueueConnection = {
  readonly client: RedisClient;
  use<T>(fn: (client: RedisClient) => Promise<T>): Promise<T>;
};

/** A step queue with its BullMQ objects; `close` ends those and leaves the given connection open. */
export type BullStepQueue = StepQueue & { close(): Promise<void> };

/**
 * Steps as BullMQ jobs: queue `tools-<name>` for tools with a queue of their own, `model` for all others.
 *
 * @param connection shared with all queues, so that what a caller has just written on it and the add that follows leave
 *   in one go, in this order.
 * @param prefix default `{drover}`; queues live under `<prefix>:q`.
 * @param clock Redis's time; due times are by it.
 */
export function createStepQueue(options: {
  connection: QueueConnection;
  prefix?: string | undefined;
  clock: Clock;
  logger: Logger;
}): BullStepQueue {
  const { connection, clock, logger } = options;
  const queues = createQueueSet(connection.client, queuePrefix(options.prefix ?? defaultPrefix), logger);

  const addTo = async (name: string, steps: Step[]): Promise<void> => {
    const now = clock.now();
    const queue = await queues.open(name);
    await addJobs(
      queue,
      steps.map((step) => toJob(step, now)),
    );
  };

  const add = async (steps: Step[]): Promise<void> => {
    const [first] = steps;
    if (first && steps.length === 1) return await addTo(queueOf(first), steps);
    await Promise.all([...Map.groupBy(steps, queueOf)].map(([name, group]) => addTo(name, group)));
  };

  const repairStep = async (step: Step): Promise<number> => {
    const queue = await findQueue(queues.open, step);
    const id = toJobId(step);
    await clearDamage(connection.client, queue.toKey(id));
    const state = await queue.getJobState(id);
    if (state === "active" || state === "waiting" || state === "prioritized") return 0;
    if (state === "delayed") return promoteIfLate(queue, id, step, clock.now());
    // Kept after its end, in no list though its data exists, or not there: an add alone would be swallowed or too little.
    const removed = await queue.remove(id);
    if (removed === 0) return 0; // locked: its worker still has it, the next sweep looks again
    await add([step]);
    logger.debug({ runId: step.runId, step: id, state }, "queued a step again that its queue had lost");
    return 1;
  };

  const repair = async (steps: Step[]): Promise<number> => {
    let repaired = 0;
    for (let at = 0; at < steps.length; at += repairsAtOnce) {
      const counts = await Promise.all(steps.slice(at, at + repairsAtOnce).map(repairStep));
      repaired += counts.reduce((sum, count) => sum + count, 0);
    }
    return repaired;
  };

  return {
    add: (steps) => connection.use(() => add(steps)),
    repair: (steps) => connection.use(() => repair(steps)),
    promote: (step) => connection.use(async () => promoteStep(await queues.open(queueOf(step)), step)),
    async remove(steps) {
      const remove = async (step: Step): Promise<void> => removeStep(await queues.open(queueOf(step)), step);
      await Promise.allSettled(steps.map((step) => connection.use(() => remove(step))));
    },
    close: queues.close,
  };
}

/**
 * Past the methods of the queue, which make an object of each job for the caller, at a price that shows in each step.
 */
async function addJobs(queue: Queue, jobs: NewJob[]): Promise<void> {
  const backend = queue.getBackend();
  const added = jobs.map((job) => ({ job: { ...untouched, ...job }, jobId: job.id, parentKeyOpts: {} }));
  const [first] = added;
  if (first && added.length === 1) await backend.addJob(first.job, first.jobId);
  else if (first) await backend.addJobs(added);
}

/** What BullMQ keeps of a job's life, before it began. */
const untouched = {
  progress: 0,
  attemptsMade: 0,
  attemptsStarted: 0,
  stalledCounter: 0,
  failedReason: "",
  returnvalue: "null",
} as const;

/**
 * Keys that somebody else has written. A job that is no hash fails every script that touches it, a lock without an end holds
 * its job for ever; BullMQ makes neither.
 */
async function clearDamage(client: RedisClient, jobKey: string): Promise<void> {
  const lock = `${jobKey}:lock`;
  const [type, left] = await Promise.all([client.type(jobKey), client.pttl(lock)]);
  if (type !== "hash" && type !== "none") await client.del(jobKey);
  if (left === -1) await client.pexpire(lock, strayLockMs);
}

/** The queue that holds a step's job, or should. */
async function findQueue(open: (name: string) => Promise<Queue>, step: Step): Promise<Queue> {
  if (mayBeInFormerQueue(step)) {
    const former = await open(toolQueue(undefined));
    if ((await former.getJobState(toJobId(step))) !== "unknown") return former;
  }
  return open(queueOf(step));
}

async function promoteStep(queue: Queue, step: Step): Promise<boolean> {
  const job = await queue.getJob(toJobId(step));
  return job !== undefined && promoteDelayed(queue, job);
}

/** A locked job is left to its worker, which finds that it is not owed. */
async function removeStep(queue: Queue, step: Step): Promise<void> {
  await queue.remove(toJobId(step));
}

/** Moves a delayed job to the front of the queue if its step is due and only a clock that is wrong holds it back. */
async function promoteIfLate(queue: Queue, id: string, step: Step, now: number): Promise<number> {
  if ((step.notBefore ?? 0) > now) return 0;
  const client = await queue.getBackend().client;
  const score = await client.zscore(queue.toKey("delayed"), id);
  if (score === null) return 0;
  const dueAt = dueAtOf(score);
  if (dueAt > now && dueAt <= now + maxAgainMs) return 0;
  const job = await queue.getJob(id);
  return job && (await promoteDelayed(queue, job)) ? 1 : 0;
}

/** False if it is not delayed, or a worker took it just now. */
async function promoteDelayed(queue: Queue, job: Job): Promise<boolean> {
  try {
    await job.promote();
    return true;
  } catch (error) {
    if ((await queue.getJobState(job.id ?? "")) !== "delayed") return false;
    throw error;
  }
}

/** BullMQ queues by name, each made once, when it is first needed. */
function createQueueSet(
  connection: RedisClient,
  prefix: string,
  logger: Logger,
): { open(name: string): Promise<Queue>; close(): Promise<void> } {
  const queues = new Map<string, { queue: Queue; ready: Promise<Queue> }>();
  let closed = false;

  const make = (name: string): { queue: Queue; ready: Promise<Queue> } => {
    const queue = new Queue(name, { connection, prefix, streams: { events: { maxLen: maxEvents } } });
    queue.on("error", (error: Error) => {
      logger.debug({ queue: name, error: messageOf(error) }, "step queue trouble"); // whoever called is told
    });
    const ready = queue.waitUntilReady().then(
      () => queue,
      (error: unknown) => {
        queues.delete(name); // a queue whose first contact failed stays broken: the next caller gets a new one
        void queue.close().catch(() => undefined);
        throw error;
      },
    );
    ready.catch(() => undefined); // the caller may have given up by then
    return { queue, ready };
  };

  return {
    open(name) {
      if (closed) return Promise.reject(new DroverError("stopped", "The step queue was closed."));
      const known = queues.get(name);
      if (known) return known.ready;
      const made = make(name);
      queues.set(name, made);
      return made.ready;
    },
    async close() {
      closed = true;
      const open = [...queues.values()];
      queues.clear();
      await Promise.allSettled(open.map(({ queue }) => queue.close()));
    },
  };
}
