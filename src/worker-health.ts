import { atMost } from "./at-most.ts";
import type { Clock, FleetReader, QueueState } from "./ports.ts";

/**
 * Whether a worker does its work.
 * - `live`: false if work has waited for long and this worker begins none. Starting it again is the remedy;
 * - `ready`: false also while Redis does not answer, or a queue is paused in BullMQ, where starting again helps nobody;
 * - `reason`: why it is not well, in a sentence.
 */
export type WorkerHealth = { live: boolean; ready: boolean; reason?: string | undefined };

export type WorkerHealthOptions = {
  fleet: FleetReader;
  /** Those that it serves, by BullMQ's names. */
  queues: readonly string[];
  /** The most steps at once. */
  concurrency: number;
  stats(): { running: number; lastStartedAt: number | undefined };
  /** Of one queue: another that goes on says nothing of it. */
  lastStartedOn(queue: string): number | undefined;
  isPaused(): boolean;
  clock: Pick<Clock, "now">;
  /** How long work may wait and this worker begin none, in ms; default 300,000. */
  stuckAfterMs?: number | undefined;
};

const defaultStuckAfterMs = 300_000;
const answerWithinMs = 2_000;

/** Reads the fleet when it is asked, at most once a second; costs nothing else. */
export function createWorkerHealth(options: WorkerHealthOptions): () => Promise<WorkerHealth> {
  const { fleet, queues, concurrency, stats, clock, stuckAfterMs = defaultStuckAfterMs } = options;
  const beganAt = clock.now();
  // What waited through a pause is begun a moment after it, not stuck.
  let pausedAt = beganAt;
  const queuePausedAt = new Map<string, number>();

  function judge(states: readonly QueueState[]): WorkerHealth {
    const { running } = stats();
    if (options.isPaused()) pausedAt = clock.now();
    const old = states.filter(({ name, oldestAgeMs = 0 }) => queues.includes(name) && oldestAgeMs > stuckAfterMs);
    const paused = old.filter((state) => state.paused);
    for (const { name } of paused) queuePausedAt.set(name, clock.now());
    const idleOn = (queue: string): number =>
      clock.now() - Math.max(options.lastStartedOn(queue) ?? beganAt, pausedAt, queuePausedAt.get(queue) ?? 0);
    const waiting = old.filter(({ name }) => idleOn(name) > stuckAfterMs);
    if (waiting.length === 0) return paused.length === 0 ? { live: true, ready: true } : pausedInBullmq(paused);
    const idleMs = Math.min(...waiting.map(({ name }) => idleOn(name)));
    const oldestMs = Math.max(...waiting.map(({ oldestAgeMs = 0 }) => oldestAgeMs));
    const names = waiting.map(({ name }) => `"${name}"`).join(", ");
    const reason =
      `Steps wait in ${names}, the oldest for ${seconds(oldestMs)} s, and this worker has begun none for ` +
      `${seconds(idleMs)} s; it holds ${running} of at most ${concurrency}. Start it again: what it holds is taken by others.`;
    return { live: false, ready: false, reason };
  }

  return async () => {
    const view = await atMost(answerWithinMs, fleet.read()).catch(() => undefined);
    if (view) return judge(view.value.queues);
    return {
      live: true,
      ready: false,
      reason: "Redis does not answer. Check that it runs and that REDIS_URL leads to it.",
    };
  };
}

function pausedInBullmq(queues: readonly QueueState[]): WorkerHealth {
  const names = queues.map(({ name }) => `"${name}"`).join(", ");
  const reason = `Steps wait in ${names}, which somebody paused by BullMQ's own pause: no worker takes them. Resume it there.`;
  return { live: true, ready: false, reason };
}

/** The health of all workers of a process: as bad as that of the worst. */
export function combineHealth(all: readonly WorkerHealth[]): WorkerHealth {
  if (all.length === 0) return { live: true, ready: false, reason: "The worker is starting." };
  return all.find(({ live }) => !live) ?? all.find(({ ready }) => !ready) ?? { live: true, ready: true };
}

const seconds = (ms: number): number => Math.round(ms / 1_000);
