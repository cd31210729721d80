import { z } from "zod";
import { pauseMs } from "./doings.ts";
import { type Random, randomFor } from "./random.ts";

/**
 * What happens to worker processes and their Redis.
 * - `kill`: kill -9 of a worker, another takes its place;
 * - `pause`: a worker is frozen (SIGSTOP) for so long;
 * - `stop`: a worker is told to stop (SIGTERM), as in a deploy, and another takes its place;
 * - `redis_kill`: kill -9 of Redis, which is started again on its data after so long;
 * - `redis_stop`: Redis is stopped in order and started again after so long;
 * - `cut`: every connection of a worker to Redis is cut;
 * - `lose_reply`: the next write of a worker takes effect and its connection is cut in place of the reply;
 * - `lose_write`: the connection is cut in place of the next write of a worker;
 * - `kill_at_write`, `kill_after_write`: a worker is killed as its next write leaves, or once Redis has it;
 * - `forget_scripts`: SCRIPT FLUSH;
 * - `pause_fleet`: everything is paused for so long, while the next faults happen;
 * - `lose_steps`: some steps are deleted from their queues, as if Redis had lost them.
 */
export const timedFaults = [
  "kill",
  "pause",
  "stop",
  "redis_kill",
  "redis_stop",
  "cut",
  "lose_reply",
  "lose_write",
  "kill_at_write",
  "kill_after_write",
  "forget_scripts",
  "lose_steps",
  "pause_fleet",
] as const;
export type TimedFaultKind = (typeof timedFaults)[number];

/**
 * - `atMs`: since the first run was started;
 * - `worker`: which of them, from 0; ignored by what befalls Redis;
 * - `forMs`: how long it lasts, of `pause`, `pause_fleet`, `redis_kill` and `redis_stop`.
 */
export type TimedFault = { atMs: number; fault: TimedFaultKind; worker: number; forMs: number };
export const timedFaultSchema: z.ZodType<TimedFault> = z.strictObject({
  atMs: z.int().min(0),
  fault: z.enum(timedFaults),
  worker: z.int().min(0).default(0),
  forMs: z.int().min(0).max(600_000).default(0),
});

export type FaultPlan = {
  seed: number;
  workers: number;
  /** Faults come about up to then. */
  durationMs: number;
  /** On average. */
  everyMs: number;
  /** Whether a killed Redis keeps all that it acknowledged: only then it is killed. */
  keepsAll: boolean;
};

const weights: Record<TimedFaultKind, number> = {
  kill: 8,
  kill_at_write: 5,
  kill_after_write: 5,
  pause: 3,
  stop: 2,
  cut: 3,
  lose_reply: 4,
  lose_write: 3,
  redis_kill: 1,
  redis_stop: 1,
  forget_scripts: 1,
  lose_steps: 1,
  pause_fleet: 1,
};

/** The faults of a plan, in the order in which they come. */
export function makeTimedFaults({ seed, workers, durationMs, everyMs, keepsAll }: FaultPlan): TimedFault[] {
  const random = randomFor(seed, "faults");
  const bag = timedFaults
    .filter((fault) => keepsAll || fault !== "redis_kill")
    .flatMap((fault) => Array.from({ length: weights[fault] }, () => fault));
  const faults: TimedFault[] = [];
  for (let atMs = random.between(0, everyMs); atMs < durationMs; atMs += random.between(1, 2 * everyMs)) {
    const fault = random.pick(bag);
    faults.push({ atMs, fault, worker: random.between(0, workers - 1), forMs: durationOf(fault, random) });
  }
  return faults;
}

function durationOf(fault: TimedFaultKind, random: Random): number {
  // Shorter and longer than a lock lasts.
  if (fault === "pause") return random.between(200, 6_000);
  if (fault === "pause_fleet") return pauseMs(random);
  return fault === "redis_kill" || fault === "redis_stop" ? random.between(100, 3_000) : 0;
}
