import type { RedisClient } from "./redis-client.ts";

/** Keys of the database looked at in one go. */
const keysAtOnce = 250;
/** Where one of a queue's lists is longer, reading it costs too much: what is left is left for another time. */
const longestList = 5_000;
/** For so long it is known where to go on (ms). */
const cursorMs = 3_600_000;

/**
 * KEYS: 1 to 3 lists of jobs, 4 to 8 sorted sets of them, 9 where to go on. ARGV: 1 what the key of a job begins with, 2 how many
 * keys, 3 the longest list, 4 for how long that is kept (ms). Returns 1 if the walk has come to its end.
 */
const removeScript = `
for place = 1, 3 do if redis.call('LLEN', KEYS[place]) > tonumber(ARGV[3]) then return 0 end end
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
local page = redis.pcall('SCAN', redis.call('GET', KEYS[9]) or '0', 'COUNT', ARGV[2])
if page.err then
  -- An ACL may forbid it: then what is left stays. Or this is no place to go on from.
  redis.call('DEL', KEYS[9])
  return 1
end
for _, key in ipairs(page[2]) do
  if string.sub(key, 1, #ARGV[1]) == ARGV[1] then
    local id = string.sub(key, #ARGV[1] + 1)
    if string.find(id, '^%d+%-%d+%-[^:]+$') and redis.call('TYPE', key).ok == 'hash' and not isKept(id) then
      redis.call('DEL', key, key .. ':lock', key .. ':logs')
    end
  end
end
if page[1] == '0' then
  redis.call('DEL', KEYS[9])
  return 1
end
redis.call('SET', KEYS[9], page[1], 'PX', ARGV[4])
return 0`;

const places = [
  "wait",
  "active",
  "paused",
  "prioritized",
  "delayed",
  "completed",
  "failed",
  "waiting-children",
  "stray-cursor",
] as const;

/**
 * Removes what is kept of steps that are in no list of their queue: another program deleted that. BullMQ never gives one
 * out, and never removes it. A step that is owed still is queued anew by the sweeper, as any that was lost. Looks at a few
 * keys of the database, and costs as little whatever its size. Redis keeps where the next call goes on, whoever makes it: a
 * worker that is soon replaced, or one of many that take turns, would come round never.
 *
 * @returns whether all keys have been looked at
 */
export async function removeOrphans(client: RedisClient, toKey: (name: string) => string): Promise<boolean> {
  const keys = places.map((name) => toKey(name));
  const args = [toKey(""), keysAtOnce, longestList, cursorMs];
  return (await client.eval(removeScript, keys.length, ...keys, ...args)) === 1;
}
