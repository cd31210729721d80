import type { RedisClient } from "./redis-client.ts";

/** Keys of the database looked at in one go. */
const keysAtOnce = 250;
/** Where one of a queue's lists is longer, reading it costs too much: what is left is left for another time. */
const longestList = 5_000;

/**
 * KEYS: 1 to 3 lists of jobs, 4 to 8 sorted sets of them. ARGV: 1 what the key of a job begins with, 2 where to go on, 3 how many keys,
 * 4 the longest list. Returns where to go on the next time.
 */
const removeScript = `
for place = 1, 3 do if redis.call('LLEN', KEYS[place]) > tonumber(ARGV[4]) then return ARGV[2] end end
local listed
local function isListed(id)
  if not listed then
    listed = {}
    for place = 1, 3 do for _, other in ipairs(redis.call('LRANGE', KEYS[place], 0, -1)) do listed[other] = true end end
  end
  return listed[id]
end
local function isKept(id)
  for place = 4, 8 do if redis.call('ZSCORE', KEYS[place], id) then return true end end
  return redis.call('PTTL', ARGV[1] .. id .. ':lock') > 0 or isListed(id)
end
local page = redis.pcall('SCAN', ARGV[2], 'COUNT', ARGV[3])
-- An ACL may forbid it: then what is left stays.
if page.err then return '0' end
for _, key in ipairs(page[2]) do
  if string.sub(key, 1, #ARGV[1]) == ARGV[1] then
    local id = string.sub(key, #ARGV[1] + 1)
    if string.find(id, '^%d+%-%d+%-[^:]+$') and redis.call('TYPE', key).ok == 'hash' and not isKept(id) then
      redis.call('DEL', key, key .. ':lock', key .. ':logs')
    end
  end
end
return page[1]`;

const places = [
  "wait",
  "active",
  "paused",
  "prioritized",
  "delayed",
  "completed",
  "failed",
  "waiting-children",
] as const;

/**
 * Removes what is kept of steps that are in no list of their queue: another program deleted that. BullMQ never gives one
 * out, and never removes it. A step that is owed still is queued anew by the sweeper, as any that was lost. Looks at a few
 * keys of the database, and costs as little whatever its size.
 *
 * @param cursor where to go on; at first "0"
 * @returns where to go on the next time; "0" when all have been looked at
 */
export async function removeOrphans(
  client: RedisClient,
  toKey: (name: string) => string,
  cursor: string,
): Promise<string> {
  const keys = places.map((name) => toKey(name));
  const next = await client.eval(removeScript, keys.length, ...keys, toKey(""), cursor, keysAtOnce, longestList);
  return String(next);
}
