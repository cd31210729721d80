import type { RedisClient } from "./redis-client.ts";

// BullMQ counts each expired lock as a stall. A worker that lost a lock but lives was not lost (invariant 8): Redis was
// away, or the process was frozen. Once the step has ended there it says so in a field of its own beside BullMQ's count,
// and the difference counts.

const forgivenField = "forgiven";

// KEYS[1]: a job's hash, ARGV[1]: the field. Never makes a hash anew: that would be data without a job.
const forgiveScript =
  "if redis.call('EXISTS', KEYS[1]) == 1 then return redis.call('HINCRBY', KEYS[1], ARGV[1], 1) end return 0";

/** Records that this job's lock was lost by a worker that has outlived the step. */
export async function forgiveLostLock(connection: RedisClient, jobKey: string): Promise<void> {
  await connection.eval(forgiveScript, 1, jobKey, forgivenField);
}

/** How often a worker was lost while it held this job, given BullMQ's count of stalls. */
export async function countLostWorkers(connection: RedisClient, jobKey: string, stalls: number): Promise<number> {
  if (stalls === 0) return 0;
  return Math.max(0, stalls - Number((await connection.hget(jobKey, forgivenField)) ?? 0));
}

/** Whether BullMQ refused because the job is not ours any more, or not there. */
export function isLockLost(error: unknown): boolean {
  return error instanceof Error && /^(Missing lock|Lock mismatch|Missing key|Job .* is not in the)/.test(error.message);
}
