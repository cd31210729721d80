import type { Worker } from "bullmq";
import { boundEndlessKeys, strayLockMs } from "./endless-keys.ts";
import { removeOrphans } from "./orphan-jobs.ts";
import type { RedisClient } from "./redis-client.ts";
import { runsQueue } from "./step-job.ts";

/** A little less than a worker's time from one look to the next, so that one that is alone never misses its own. */
const turnMs = 9_000;

/** KEYS: 1 the note that somebody just looked. ARGV: 1 how long it holds. Returns 1 to whoever is to look now. */
const turnScript = `
if redis.call('SET', KEYS[1], '1', 'NX', 'PX', ARGV[1]) then return 1 end
if redis.call('PTTL', KEYS[1]) == -1 then redis.call('PEXPIRE', KEYS[1], ARGV[1]) end
return 0
`;

/**
 * @returns a look at some of the keys that nobody else sees to, for one worker of those on a queue: what it costs Redis must
 *   not grow with the fleet.
 */
export function createStrayLook(client: RedisClient, worker: Worker): () => Promise<void> {
  const toKey = (name: string): string => worker.toKey(name);
  return async () => {
    if ((await client.eval(turnScript, 1, toKey("stray-check"), turnMs)) !== 1) return;
    await boundEndlessKeys(client, toKey, worker.opts.stalledInterval ?? strayLockMs);
    // Starts are their producers' own.
    if (worker.name !== runsQueue) await removeOrphans(client, toKey);
  };
}
