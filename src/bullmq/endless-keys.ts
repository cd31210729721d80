import type { RedisClient } from "./redis-client.ts";

/** Whoever renews a lock that had no end keeps it. */
export const strayLockMs = 5_000;

/**
 * KEYS: 1 the note that stalled steps were just looked for, 2 steps at work. ARGV: 1 what the key of a step begins with, 2 how long
 * what has no end stays, 3 the longest that the note may hold.
 */
const boundScript = `
local noted = redis.call('PTTL', KEYS[1])
if noted == -1 or noted > tonumber(ARGV[3]) then redis.call('PEXPIRE', KEYS[1], ARGV[3]) end
for _, id in ipairs(redis.call('LRANGE', KEYS[2], 0, 999)) do
  local lock = ARGV[1] .. id .. ':lock'
  if redis.call('PTTL', lock) == -1 then redis.call('PEXPIRE', lock, ARGV[2]) end
end
`;

/**
 * What BullMQ lets expire by itself has no end in a Redis whose data was copied by a tool that leaves times out. A lost worker's step
 * would be locked for ever, and nobody would look for such steps any more. A worker of another make notes its look for as long as it
 * lets pass between two of its own, 30 s by BullMQ's default, and keeps all others from looking meanwhile.
 *
 * @param lookMs what this worker lets pass
 */
export async function boundEndlessKeys(
  client: RedisClient,
  toKey: (name: string) => string,
  lookMs: number,
): Promise<void> {
  await client.eval(boundScript, 2, toKey("stalled-check"), toKey("active"), toKey(""), strayLockMs, lookMs);
}
