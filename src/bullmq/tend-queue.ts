import { Job, type MinimalQueue, type Worker } from "bullmq";
import type { Clock } from "../ports.ts";
import type { RedisClient } from "./redis-client.ts";
import { classOf, classWidth, millisecond } from "./scores.ts";
import { createStrayLook } from "./stray-look.ts";

const everyMs = 1_000;
/** BullMQ lets delayed jobs go when a worker's own clock says so. One that is behind by less does no harm. */
const toleratedMs = 1_000;
const dueAtOnce = 100;
/** Turns from one look at stray keys to the next. */
const turnsBetweenLooks = 10;
/** A step of a low class that has waited so long goes before others, one of each class a second. */
const patienceMs = 2_000;
const classesAtOnce = 10;

export type TendOptions = {
  client: RedisClient;
  /** Whose queue it is. */
  worker: Worker;
  /** It has steps in hand, so others may wait: fetching alone can be what they wait for, with slots left. */
  isBusy: () => boolean;
  clock: Clock;
  trouble: (error: unknown) => void;
};

/**
 * Sees once a second to what BullMQ leaves undone in one queue:
 * - while this machine's clock is behind Redis's, delayed jobs that are due by Redis's are let go;
 * - while the worker is busy, the oldest step of each class below the first one that waits joins that one if it has waited
 *   for two seconds: a low class is slow, and never starved. Jobs of other producers that have no class go first, and are
 *   joined too;
 * - each ten seconds: keys that are to expire, and have lost their end, get one; and some of the database's keys are looked
 *   at for what is left of steps that are in no list any more. One worker of the fleet does that.
 *
 * Otherwise nothing is asked of Redis.
 *
 * @returns how to stop
 */
export function tendQueue({ client, worker, isBusy, clock, trouble }: TendOptions): () => void {
  const queue = worker as unknown as MinimalQueue;
  let tending = false;
  let turns = 0;
  const lookForStrays = createStrayLook(client, worker);

  async function letDueGo(): Promise<void> {
    const until = `(${(clock.now() + 1) * millisecond}`;
    // Page by page, past those that cannot be let go: a job whose data is gone, or one that another worker let go first.
    for (let left = 0; ; ) {
      const ids = await client.zrangebyscore(worker.toKey("delayed"), "-inf", until, "LIMIT", left, dueAtOnce);
      const went = await Promise.all(ids.map((id) => letGo(queue, id)));
      left += went.filter((gone) => !gone).length;
      if (ids.length < dueAtOnce) return;
    }
  }

  /** The first of a class or of those after it. */
  async function firstFrom(priority: number): Promise<{ id: string; priority: number } | undefined> {
    if (!Number.isFinite(priority)) return undefined; // Nothing comes after a score without an end.
    const key = worker.toKey("prioritized");
    const [id, score] = await client.zrangebyscore(key, priority * classWidth, "+inf", "WITHSCORES", "LIMIT", 0, 1);
    return id === undefined || score === undefined ? undefined : { id, priority: classOf(score) };
  }

  async function firstClass(): Promise<number | undefined> {
    const classless = await client.llen(worker.toKey("wait"));
    return classless > 0 ? 0 : (await firstFrom(0))?.priority;
  }

  async function advanceOldest(): Promise<void> {
    const first = await firstClass();
    let next = first === undefined ? undefined : await firstFrom(first + 1);
    for (let seen = 0; first !== undefined && next && seen < classesAtOnce; seen += 1) {
      const job = await Job.fromId(queue, next.id);
      const waitedMs = clock.now() - (job ? job.timestamp + (job.opts.delay ?? 0) : clock.now());
      if (job && waitedMs >= patienceMs) await job.changePriority({ priority: first });
      next = await firstFrom(next.priority + 1);
    }
  }

  async function tend(): Promise<void> {
    turns += 1;
    if (turns % turnsBetweenLooks === 1) await lookForStrays();
    if (clock.now() - Date.now() >= toleratedMs) await letDueGo();
    if (isBusy()) await advanceOldest();
  }

  const timer = setInterval(() => {
    if (tending || client.status !== "ready") return;
    tending = true;
    tend()
      .catch(trouble)
      .finally(() => {
        tending = false;
      });
  }, everyMs);
  timer.unref();
  return () => clearInterval(timer);
}

async function letGo(queue: MinimalQueue, id: string): Promise<boolean> {
  const job = await Job.fromId(queue, id);
  if (!job) return false;
  return job.promote().then(
    () => true,
    () => false,
  );
}
