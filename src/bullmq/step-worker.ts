import { QueueKeys, RedisConnection, type Worker } from "bullmq";
import { atMost } from "../at-most.ts";
import { defaultPrefix } from "../core/defaults.ts";
import { endClient, revive } from "../end-client.ts";
import type { Clock, Delivery, Logger, StepOutcome, Telemetry } from "../ports.ts";
import { createDamper, createTroubleLog, type Damper, messageOf, type TroubleLog } from "./damping.ts";
import { isLockLost } from "./lost-locks.ts";
import { createProcessor, type Processor, type StartDelivery } from "./processor.ts";
import type { RedisClient } from "./redis-client.ts";
import { queuePrefix } from "./step-job.ts";
import { maxEvents } from "./step-queue.ts";
import { createTap, type Tap } from "./tap.ts";
import { tendQueue } from "./tend-queue.ts";
import { TolerantBackend, TolerantWorker } from "./tolerant-worker.ts";

export type { StartDelivery } from "./processor.ts";

export type StepWorkerOptions = {
  /**
   * What commands go over. Whoever made it ends it once this worker has stopped. It must retry without limit
   * (`maxRetriesPerRequest: null`) and have no command timeout.
   */
  client: RedisClient;
  /** Another of the same kind, for nothing but renewing locks. Whoever made it ends it. */
  locks: RedisClient;
  /** Makes a client of the same kind, on which a queue waits for work; this worker ends it. */
  connect: () => RedisClient;
  prefix?: string | undefined;
  /** Names of the queues to serve: `runs`, `model`, or `tools-<name>`. */
  queues: string[];
  /** Steps at once, per queue. */
  concurrency: number;
  process: (delivery: Delivery) => Promise<StepOutcome>;
  processStart: (delivery: StartDelivery) => Promise<StepOutcome>;
  /** Asked before each step; false: it is given back. Default: every step may begin. */
  mayStart?: (() => true | Promise<boolean>) | undefined;
  clock: Clock;
  logger: Logger;
  telemetry?: Pick<Telemetry, "count"> | undefined;
  /** How long a lock outlives its worker. Default 3,000 ms. */
  lockMs?: number | undefined;
  /** How often locks are looked at. A dead worker's step is taken up after about `lockMs` and two of these. Default 1,000 ms. */
  stalledMs?: number | undefined;
  /** How long steps in hand may go on when the worker stops. Default 10,000 ms. */
  graceMs?: number | undefined;
  /** Largest data of a start job, UTF-8 bytes. Default 1 MiB. */
  maxPayloadBytes?: number | undefined;
};

export type StepWorker = {
  /** Resolves when the worker takes steps on every queue. */
  start(): Promise<void>;
  /**
   * Takes no more steps, lets those in hand go on for the grace period, then aborts them and gives them back, so that
   * another worker has them within seconds. Ends within the grace period and two seconds, Redis or not.
   * A second call returns the first one's promise.
   */
  stop(): Promise<void>;
  /** Takes no more steps until what it is held for is over; those in hand go on. May be called before `start`. */
  hold(why: string): void;
  release(why: string): void;
  /** For readiness: steps in hand, and when the last one was begun (epoch ms by the clock). */
  stats(): { running: number; lastStartedAt: number | undefined };
  /** When the last step of that queue was begun. */
  lastStartedOn(queue: string): number | undefined;
};

type Lane = {
  queue: string;
  toKey: (name: string) => string;
  worker: Worker;
  blocking: RedisClient;
  processor: Processor;
  damper: Damper;
  tap: Tap;
};

const defaultLockMs = 3_000;
const defaultStalledMs = 1_000;
const defaultGraceMs = 10_000;
/** Losing a worker never fails a step: the limit of stalls is ours (invariant 8), not BullMQ's. */
const neverStalledTooOften = 1_000_000_000;
/**
 * After the abort: the time a step has to end by itself, and the time Redis has to take the steps back. Half a second of two
 * is left for connections, telemetry and the process itself.
 */
const windDownMs = 400;
const handBackMs = 1_100;

/** Consumes step queues. Knows nothing of what a step does: that is `process`. */
export function createStepWorker(options: StepWorkerOptions): StepWorker {
  const { logger, client } = options;
  const trouble = createTroubleLog(logger);
  const starts = createStarts(options.clock);
  const locks = new RedisConnection(options.locks, { shared: true, blocking: false });
  locks.on("error", () => undefined); // what it means for a step is told as its lost lock
  const lanes = options.queues.map((queue) =>
    createLane(options, queue, { trouble, locks, onStarted: () => starts.note(queue) }),
  );
  const ended = Promise.withResolvers<void>();
  let stopping: Promise<void> | undefined;

  const end = (): void => {
    for (const lane of lanes) {
      lane.damper.stop();
      lane.processor.giveUp();
    }
    for (const { blocking } of lanes) void endClient(blocking);
    ended.resolve();
  };

  return {
    async start() {
      const ready = Promise.all([locks.client, ...lanes.map((lane) => lane.worker.waitUntilReady())]);
      ready.catch(() => undefined); // after a stop nobody listens any more
      await Promise.race([ready, ended.promise]);
      // A producer of somebody else's sets BullMQ's own cap, 10,000 events, or none at all.
      const capped = Promise.all(lanes.map((lane) => client.hset(lane.toKey("meta"), "opts.maxLenEvents", maxEvents)));
      await Promise.race([capped, ended.promise]).catch((error: unknown) => {
        logger.debug({ error: messageOf(error) }, "the events of queues are capped as their producers had it");
      });
      for (const lane of stopping ? [] : lanes) lane.tap.open();
    },
    stop() {
      stopping ??= stopLanes(lanes, options.graceMs ?? defaultGraceMs).finally(end);
      return stopping;
    },
    hold(why) {
      for (const { tap, processor } of lanes) {
        tap.hold(why);
        processor.hold(why);
      }
    },
    release(why) {
      for (const { tap, processor } of lanes) {
        processor.release(why);
        tap.release(why);
      }
    },
    stats: () => ({ running: countRunning(lanes), lastStartedAt: starts.last() }),
    lastStartedOn: starts.lastOn,
  };
}

function countRunning(lanes: readonly Lane[]): number {
  return lanes.reduce((sum, lane) => sum + lane.processor.running(), 0);
}

/** When the last step was begun, on each queue and on any. */
function createStarts(clock: Clock): {
  note(queue: string): void;
  last(): number | undefined;
  lastOn(queue: string): number | undefined;
} {
  const times = new Map<string, number>();
  let last: number | undefined;
  return {
    note(queue) {
      last = clock.now();
      times.set(queue, last);
    },
    last: () => last,
    lastOn: (queue) => times.get(queue),
  };
}

async function stopLanes(lanes: Lane[], graceMs: number): Promise<void> {
  const closing = lanes.map(async (lane) => {
    lane.damper.stop();
    lane.tap.close();
    lane.processor.refuse();
    await revive(lane.blocking);
    await lane.worker.close().catch(() => undefined); // waits for steps in hand; for ever when Redis is away
  });
  const closed = Promise.all(closing);
  const idle = Promise.all(lanes.map((lane) => lane.processor.idle()));
  await atMost(graceMs, Promise.race([closed, idle]));
  for (const lane of lanes) lane.processor.abandon(windDownMs);
  await atMost(handBackMs, closed);
}

/** What the queues of one worker share. */
type Shared = { trouble: TroubleLog; locks: RedisConnection; onStarted: () => void };

function createLane(options: StepWorkerOptions, queue: string, shared: Shared): Lane {
  const { client } = options;
  const { trouble, locks } = shared;
  const prefix = queuePrefix(options.prefix ?? defaultPrefix);
  const keys = new QueueKeys(prefix);
  const blocking = options.connect();
  blocking.on("error", () => undefined); // reported through the worker below
  const toKey = (jobId: string): string => keys.toKey(queue, jobId);
  const processor = createProcessor({ ...options, ...shared, queue, connection: client, toKey });
  const worker = new TolerantWorker(
    queue,
    (job) => processor.process(job),
    {
      connection: client,
      prefix,
      autorun: false,
      concurrency: options.concurrency,
      lockDuration: options.lockMs ?? defaultLockMs,
      stalledInterval: options.stalledMs ?? defaultStalledMs,
      maxStalledCount: neverStalledTooOften,
      removeOnComplete: { count: 0 },
      removeOnFail: { count: 0 },
    },
    // All connections are ours: BullMQ's own way of making another one could not be ended while Redis is away.
    (name, backendOptions) =>
      new TolerantBackend(
        locks,
        new RedisConnection(client, { shared: true, blocking: false }),
        name,
        keys.getKeys(name),
        (type) => keys.toKey(name, type),
        backendOptions,
        new RedisConnection(blocking, { shared: true, blocking: true }),
      ),
  );
  const tap = createTap(worker, (error) => {
    options.logger.error({ queue, error: messageOf(error) }, "a worker loop ended");
  });
  const damper = createDamper({ pause: () => tap.hold("damper"), resume: () => tap.release("damper") });
  const stopTending = tendQueue({
    client,
    worker,
    isBusy: () => processor.running() > 0,
    clock: options.clock,
    trouble: (error) => trouble(error, { queue }, "step worker trouble"),
  });
  worker.once("closing", stopTending);
  worker.on("lockRenewalFailed", (jobIds: string[]) => processor.loseLocks(jobIds));
  // Said once in the fleet for each expired lock, by whoever put the step back.
  worker.on("stalled", () => options.telemetry?.count({ what: "redelivery", queue }));
  worker.on("error", (error: Error) => onWorkerError(error, queue, trouble, damper));
  return { queue, toKey, worker, blocking, processor, damper, tap };
}

function onWorkerError(error: Error, queue: string, trouble: TroubleLog, damper: Damper): void {
  if (error.message.startsWith("could not renew lock")) return; // told by `lockRenewalFailed`
  if (isLockLost(error)) return trouble(error, { queue }, "a step ended after its lock was lost");
  trouble(error, { queue }, "step worker trouble");
  if (!isConnectionError(error)) damper.trouble();
}

function isConnectionError(error: Error): boolean {
  const code = "code" in error ? error.code : undefined;
  return typeof code === "string" || error.message === "Connection is closed.";
}
