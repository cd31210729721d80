// The scripts that take a run whose record is lost or damaged out of the way. Each looks again at what was read of it.

/**
 * Takes a run without a head out of `owing`. KEYS: 1 head, 2 owing. ARGV: 1 run id, 2 "0" to do so whether it has one or
 * not. Returns {1} if that was done.
 */
export const dropOwingScript = `
if ARGV[2] == '1' and redis.call('EXISTS', KEYS[1]) == 1 then return {0} end
return {redis.call('ZREM', KEYS[2], ARGV[1])}
`;

/** Takes what has no head out of a listing. KEYS: 1 the listing, then the heads. ARGV: their members. */
export const dropListedScript = `
for i = 2, #KEYS do
  if redis.call('EXISTS', KEYS[i]) == 0 then redis.call('ZREM', KEYS[1], ARGV[i - 1]) end
end
return {}
`;

/**
 * Removes a run whose record is damaged with all that is its own, if its head is still as it was read. What it was counted
 * under is told by the sets that it is found in.
 *
 * KEYS: 1 head, 2 messages, 3 results, 4 feed, 5 live, 6 what was cut out of results, 7 owing, 8 counts, then sets: of ends,
 * of all runs, of the statuses, of the agents; with a tenant its listing set and its counts; with a session its listing set
 * and the sessions that have no run. Its place in that session's line it leaves behind: see `dropFromLineScript`.
 * ARGV: 1 type of the head, 2 revision and 3 token ("=" before them; "" for none), 4 run id, 5 tenant and 6 session ("" for
 * none), 7 readers from which on runs are counted under their status, and how many 8 sets of ends, 9 statuses, 10 agents and
 * 11 members follow, then the last three. Returns {1} if it is gone, {0} if its head is another one.
 */
export const removeDamagedScript = `
local function said(value) return value and '=' .. value or '' end
if redis.call('TYPE', KEYS[1]).ok ~= ARGV[1] then return {0} end
local stored = {}
if ARGV[1] == 'hash' then
  stored = redis.call('HMGET', KEYS[1], 'rev', 'tok', 'min', 'counted')
  if said(stored[1]) ~= ARGV[2] or said(stored[2]) ~= ARGV[3] then return {0} end
end
local id, ends, statuses, agents = ARGV[4], tonumber(ARGV[8]), tonumber(ARGV[9]), tonumber(ARGV[10])
local members = {unpack(ARGV, 12 + statuses + agents)}
redis.call('UNLINK', KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6])
redis.call('ZREM', KEYS[7], id)
local at = 8
for i = 1, ends do redis.call('ZREM', KEYS[at + i], id) end
at = at + ends
local function take(key)
  return #members > 0 and redis.call('ZREM', key, unpack(members)) > 0
end
take(KEYS[at + 1])
at = at + 1
local status, agent
for i = 1, statuses do if take(KEYS[at + i]) then status = ARGV[11 + i] end end
at = at + statuses
for i = 1, agents do if take(KEYS[at + i]) then agent = ARGV[11 + statuses + i] end end
at = at + agents
if tonumber(stored[3] or '') and tonumber(stored[3]) < tonumber(ARGV[7]) then status = stored[4] end
local function less(key)
  if not status or not agent then return end
  local left = redis.pcall('HINCRBY', key, status .. ' ' .. agent, -1)
  if type(left) == 'table' or left <= 0 then redis.call('HDEL', key, status .. ' ' .. agent) end
end
less(KEYS[8])
if ARGV[5] ~= '' then
  take(KEYS[at + 1])
  less(KEYS[at + 2])
  at = at + 2
end
if ARGV[6] ~= '' then
  take(KEYS[at + 1])
  if redis.call('EXISTS', KEYS[at + 1]) == 0 then
    redis.call('ZADD', KEYS[at + 2], redis.call('TIME')[1] .. '000', ARGV[6])
  end
end
return {1}
`;

/**
 * Takes an entry out of a session's line, unless its run is another one than was seen. KEYS: 1 head, 2 line, 3 the session's
 * transcript. ARGV: 1 the entry, 2 how long the transcript is, 3 revision and 4 token of the head ("" for none), then what
 * closes the transcript if the entry comes first. Returns {how many entries went}.
 */
export const dropFromLineScript = `
local stored = redis.call('HMGET', KEYS[1], 'rev', 'tok')
local isSeen = stored[1] == ARGV[3] and stored[2] == ARGV[4]
if not isSeen and redis.call('EXISTS', KEYS[1]) == 1 then return {0} end
if redis.call('LINDEX', KEYS[2], 0) == ARGV[1] then
  if redis.call('LLEN', KEYS[3]) ~= tonumber(ARGV[2]) then return {0} end
  for i = 5, #ARGV do redis.call('RPUSH', KEYS[3], ARGV[i]) end
end
return {redis.call('LREM', KEYS[2], 0, ARGV[1])}
`;
