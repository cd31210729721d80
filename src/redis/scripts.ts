// The Lua that runs in Redis, as text so that a plain build needs to copy nothing.
// Scripts compare and write; what is to be written was decided by the caller.

/**
 * One change of an index. Of "more" and "less" the member is `<status> <agent>`, of "end" `<epoch ms> <run id>`. Of runs for
 * readers before 5 the head's field "counted" says under which status each is in the counts: not at all if an older version
 * made it, and not under its status if an older one moved it. So "less_counted", whose member is the agent, takes away what
 * "more" has put there, and nothing else.
 */
const applyIndex = `
local function count(key, field, by)
  local now = redis.pcall('HINCRBY', key, field, by)
  -- No number: another program has put it there. It counts as none, unless it is the key that is of another type.
  if type(now) == 'table' then now = by; redis.call('HSET', key, field, by) end
  if now <= 0 then redis.call('HDEL', key, field) end
end
local function applyIndex(key, action, member, counted)
  if action == 'add' then redis.call('ZADD', key, 0, member)
  elseif action == 'remove' then redis.call('ZREM', key, member)
  elseif action == 'end' then redis.call('ZADD', key, string.match(member, '^(%S+) (.*)$'))
  elseif action == 'push' then redis.call('RPUSH', key, member)
  elseif action == 'drop' then redis.call('LREM', key, 0, member)
  elseif action == 'more' then count(key, member, 1)
  elseif action == 'less' or counted then count(key, action == 'less' and member or counted .. ' ' .. member, -1)
  end
end
`;

/**
 * The one commit: creates a run, or replaces its head if revision and token are the expected ones.
 *
 * KEYS: 1 head, 2 messages, 3 feed, 4 owing; where the commit needs them, 5 results, 6 live; then listing sets, counts and
 * a session's line; with "fresh", last: what was cut out of results.
 *
 * ARGV: 1 expected revision ("" if the run must not exist), 2 expected token, 3 the commit's own token, 4 channel to
 * publish on, 5 channel to publish on when the run ends ("" if it does not), 6 a header, since each argument costs more
 * than all it holds: words with a space between, "-" for none:
 * - the new revision, and the run id;
 * - transcript length before the commit ("-" if it may be any), number of feed entries before it;
 * - the run's score in `owing`;
 * - for how many ms the live text is kept from now on, or "persist";
 * - "fresh" to drop what the run held before;
 * - how many feed entries, index changes, appended messages, early results and removed fields follow.
 *
 * Then these, flat: feed entries (JSON), index changes (number of the key, "add"
 * or "remove" for a set, "push" or "drop" for a list, and member; "end", "more", "less" or "less_counted": see `applyIndex`),
 * appended messages (token and JSON as they are stored, or "=" and the call id of an early result), early results (call
 * id, JSON), fields removed from the head (name), and to the end fields set in the head (name, value) beside revision and
 * token.
 *
 * Returns {1}: committed. {2}: this very commit had been made before. {0, field, value, ...}: the head as it is, with
 * nothing after the 0 if there is no run. {-1, what}: the record is damaged; nothing was written.
 *
 * Reads come first and the head is written last, so that an error leaves the run as it was. A Redis whose memory is
 * full refuses a script at its first write or not at all, and DEL is never refused: a write that is comes before it.
 *
 * The feed is a list, its entry N at index N - 1: a stream takes over 4 KB as soon as it has an entry. Runs made by readers
 * before 4 have a stream, with one row per commit, and keep it.
 */
export const commitScript: string = `${applyIndex}
local stored = redis.call('HMGET', KEYS[1], 'rev', 'tok')
local rev, tok = stored[1] or '', stored[2] or ''
if tok == ARGV[3] then return {2} end
if rev ~= ARGV[1] or tok ~= ARGV[2] then
  local reply = redis.call('HGETALL', KEYS[1])
  table.insert(reply, 1, 0)
  return reply
end

local revision, id, before, told, since, live, fresh, feeds, indexes, appends, results, removes =
  string.match(ARGV[6], '^(%S+) (%S+) (%S+) (%S+) (%S+) (%S+) (%S+) (%S+) (%S+) (%S+) (%S+) (%S+)$')
fresh = fresh == 'fresh'
local feedAt = 7
local indexAt = feedAt + feeds
local appendAt = indexAt + 3 * indexes
local resultAt = appendAt + appends
local removeAt = resultAt + 2 * results
local fieldAt = removeAt + removes

local counted = indexes ~= '0' and redis.call('HGET', KEYS[1], 'counted')
if not fresh and before ~= '-' and redis.call('LLEN', KEYS[2]) ~= tonumber(before) then return {-1, 'transcript'} end
local early = {}
for i = appendAt, resultAt - 1 do
  if string.byte(ARGV[i]) == 61 then
    local name = string.sub(ARGV[i], 2)
    local json = redis.call('HGET', KEYS[5], name)
    if not json then return {-1, 'result ' .. name} end
    early[#early + 1] = name
    ARGV[i] = ARGV[3] .. ' ' .. json
  end
end

local feedLength = indexAt > feedAt and not fresh and redis.pcall('LLEN', KEYS[3])
if type(feedLength) == 'number' and feedLength ~= tonumber(told) then return {-1, 'feed'} end

if fresh then
  redis.call('HSET', KEYS[1], 'rev', ARGV[1])
  redis.call('DEL', KEYS[1], KEYS[2], KEYS[3], KEYS[5], KEYS[6], KEYS[#KEYS])
end
-- What others share comes first: where that cannot be written (a key of another type, an ACL), nothing of the run's own has been.
if since == '-' then redis.call('ZREM', KEYS[4], id) else redis.call('ZADD', KEYS[4], since, id) end
for i = indexAt, appendAt - 3, 3 do
  applyIndex(KEYS[tonumber(ARGV[i])], ARGV[i + 1], ARGV[i + 2], counted)
end
if indexAt > feedAt then
  if type(feedLength) == 'table' then
    local row = '[' .. table.concat(ARGV, ',', feedAt, indexAt - 1) .. ']'
    local added = redis.pcall('XADD', KEYS[3], told + feeds .. '-0', 'e', row)
    if added.err and string.find(added.err, 'equal or smaller', 1, true) then return {-1, 'feed'} end
    if added.err then return added end
  else
    for i = feedAt, indexAt - 1, 1000 do redis.call('RPUSH', KEYS[3], unpack(ARGV, i, math.min(i + 999, indexAt - 1))) end
  end
end
for i = resultAt, removeAt - 2, 2 do redis.call('HSET', KEYS[5], ARGV[i], ARGV[i + 1]) end
for i = appendAt, resultAt - 1, 1000 do redis.call('RPUSH', KEYS[2], unpack(ARGV, i, math.min(i + 999, resultAt - 1))) end
for i = 1, #early do redis.call('HDEL', KEYS[5], early[i]) end
if live == 'persist' then redis.call('PERSIST', KEYS[6]) elseif live ~= '-' then redis.call('PEXPIRE', KEYS[6], live) end
for i = removeAt, fieldAt - 1 do redis.call('HDEL', KEYS[1], ARGV[i]) end
while #ARGV - fieldAt > 1000 do
  redis.call('HSET', KEYS[1], unpack(ARGV, fieldAt, fieldAt + 999))
  fieldAt = fieldAt + 1000
end
redis.call('HSET', KEYS[1], 'rev', revision, 'tok', ARGV[3], unpack(ARGV, fieldAt))
-- An ACL may forbid it. What is made by now is found by looking; a commit told as failed would be taken for lost.
redis.pcall('PUBLISH', ARGV[4], 'commit')
if ARGV[5] ~= '' then redis.pcall('PUBLISH', ARGV[5], 'end') end
return {1}
`;

/**
 * Removes a run with all that is its own, if it is still the one that was read. Frees memory before it takes any, and in
 * the background: it works on a full Redis, and on a run of any size without holding others up.
 *
 * KEYS: 1 head, 2 messages, 3 results, 4 feed, 5 live, 6 what was cut out of results, 7 owing, then one per index change;
 * of a run in a session last: its session's listing set, and the sessions that have no run.
 * ARGV: 1 revision, 2 token, 3 run id, 4 its session ("" for none), 5 since when that has no run, if it was the last one
 * (epoch ms; "" for now), then action and member of each index change. Returns {1} if the run is gone, {0} if it is another one.
 */
export const removeScript: string = `${applyIndex}
local stored = redis.call('HMGET', KEYS[1], 'rev', 'tok', 'counted')
if not stored[1] then return {1} end
if stored[1] ~= ARGV[1] or stored[2] ~= ARGV[2] then return {0} end
redis.call('UNLINK', KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6])
redis.call('ZREM', KEYS[7], ARGV[3])
local last = #KEYS
if ARGV[4] ~= '' then last = last - 2 end
for i = 8, last do applyIndex(KEYS[i], ARGV[2 * i - 10], ARGV[2 * i - 9], stored[3]) end
if last < #KEYS and redis.call('EXISTS', KEYS[last + 1]) == 0 then
  local leftAt = ARGV[5]
  if leftAt == '' then leftAt = redis.call('TIME')[1] .. '000' end
  redis.call('ZADD', KEYS[last + 2], leftAt, ARGV[4])
end
return {1}
`;

/** Forgets ends that are noted from before a time. KEYS: 1 the set. ARGV: 1 that time (epoch ms), then run ids. */
export const forgetEndsScript = `
for i = 2, #ARGV do
  local at = redis.call('ZSCORE', KEYS[1], ARGV[i])
  if at and tonumber(at) < tonumber(ARGV[1]) then redis.call('ZREM', KEYS[1], ARGV[i]) end
end
return {1}
`;

/** Notes when a run ended, if it is as it was read. KEYS: 1 head, 2 the set. ARGV: 1 revision, 2 token, 3 epoch ms, 4 run id. */
export const noteEndScript = `
local stored = redis.call('HMGET', KEYS[1], 'rev', 'tok')
if stored[1] ~= ARGV[1] or stored[2] ~= ARGV[2] then return {0} end
return {redis.call('ZADD', KEYS[2], 'NX', ARGV[3], ARGV[4])}
`;

/**
 * Drops what is kept of a session that still has no run, and the note that it has none.
 *
 * KEYS: 1 the sessions that have no run, 2 its listing set, 3 transcript, 4 line, 5 inputs. ARGV: 1 the session, 2 before
 * when it must have been left (epoch ms).
 */
export const removeSessionScript = `
local left = redis.call('ZSCORE', KEYS[1], ARGV[1])
if not left or tonumber(left) >= tonumber(ARGV[2]) then return {0} end
redis.call('ZREM', KEYS[1], ARGV[1])
if redis.call('EXISTS', KEYS[2]) == 0 then redis.call('UNLINK', KEYS[3], KEYS[4], KEYS[5]) end
return {1}
`;

/**
 * Appends live text and says so, unless the run is gone: a late word of a removed run would lie there for a day.
 *
 * KEYS: 1 live, 2 head. ARGV: 1 JSON, 2 how many entries to keep, about, 3 ms to keep the text of a run that goes on,
 * 4 ms to keep it after the end, 5 channel. An expiry that the end of the run has set is left alone.
 */
export const publishLiveScript = `
if redis.call('EXISTS', KEYS[2]) == 0 then return end
redis.call('XADD', KEYS[1], 'MAXLEN', '~', ARGV[2], '*', 'd', ARGV[1])
local left = redis.call('PTTL', KEYS[1])
if left < 0 or left > tonumber(ARGV[4]) then redis.call('PEXPIRE', KEYS[1], ARGV[3]) end
redis.pcall('PUBLISH', ARGV[5], 'live')
`;

/**
 * Decides once and for all which run an input goes into: the one that is active in the session, else a run of its own.
 * A decision stands until the run refuses the input; then it gets a run of its own.
 *
 * KEYS: 1 inputs, 2 line, 3 head of the run that has the input's id. ARGV: 1 the input's id, 2 its hash, 3 the run that
 * refused it ("" for none). Returns {decision}: `<state> <run id> <hash>`, state "open" or "taken".
 */
export const claimInputScript = `
local held = redis.call('HGET', KEYS[1], ARGV[1])
if held and string.find(held, 'open ' .. ARGV[3] .. ' ', 1, true) ~= 1 then return {held} end
local target = ARGV[1]
local head = not held and redis.call('EXISTS', KEYS[3]) == 0 and redis.call('LINDEX', KEYS[2], 0)
if head then target = string.match(head, '^%d+:(.+)$') or target end
local decision = 'open ' .. target .. ' ' .. (held and string.match(held, '[^ ]*$') or ARGV[2])
redis.call('HSET', KEYS[1], ARGV[1], decision)
return {decision}
`;
