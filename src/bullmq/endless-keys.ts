import type { RedisClient } from "./redis-client.ts";

/** Whoever renews a lock that had no end keeps it. */
export const strayLockMs = 5_000;

/**
 * KEYS: 1 the note that stalled steps were just looked for, 2 steps at work. ARGV: 1 what the key of a step begins with, 2 how long
 * what has no end stays.
 */
const boundScript = `
local function bound(key) if redis.call('PTTL', key) == -1 then redis.call('PEXPIRE', key, ARGV[2]) end end
bound(KEYS[1])
for _, id in ipairs(redis.call('LRANGE', KEYS[2], 0, 999)) do bound(ARGV[1] .. id .. ':lock') end
`;

/**
 * What BullMQ lets expire by itself has no end in a Redis whose data was copied by a tool that leaves times out. A lost worker's step
 * would be locked for ever, and nobody would look for such steps any more.
 */
export async function boundEndlessKeys(client: RedisClient, toKey: (name: string) => string): Promise<void> {
  await client.eval(boundScript, 2, toKey("stalled-check"), toKey("active"), toKey(""), strayLockMs);
}
