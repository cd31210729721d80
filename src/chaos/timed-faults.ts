import { z } from "zod";

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
 * - `delete_jobs`: some jobs are deleted from the queues, as if Redis had lost them.
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
  "delete_jobs",
] as const;
export type TimedFaultKind = (typeof timedFaults)[number];

/**
 * - `atMs`: since the first run was started;
 * - `worker`: which of them, from 0; ignored by what befalls Redis;
 * - `forMs`: how long it lasts, of `pause`, `redis_kill` and `redis_stop`.
 */
export type TimedFault = { atMs: number; fault: TimedFaultKind; worker: number; forMs: number };
export const timedFaultSchema: z.ZodType<TimedFault> = z.strictObject({
  atMs: z.int().min(0),
  fault: z.enum(timedFaults),
  worker: z.int().min(0).default(0),
  forMs: z.int().min(0).max(600_000).default(0),
});
