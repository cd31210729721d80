// The Lua that runs in Redis, as text so that a plain build needs to copy nothing.
// Scripts compare and write; what is to be written was decided by the caller.

/**
 * The one commit: creates a run, or replaces its head if revision and token are the expected ones.
 *
 * KEYS: 1 head, 2 messages, 3 results, 4 feed, 5 live, 6 owing, 7 and up: listing sets.
 *
 * ARGV: 1 expected revision ("" if the run must not exist), 2 expected token, 3 the commit's own token,
 * 4 transcript length before the commit, 5 "fresh" to drop what the run held before, 6 the run id, 7 its score in
 * `owing` ("" for none), 8 "expire:<ms>" or "persist" or "" for the live text, 9 channel to publish on. Then blocks, each opened by its
 * number of items: index changes (number of the key, "add" or "remove", member), feed entries (seq, JSON), appended
 * messages ("message" and entry, or "result" and call id), early results (call id, JSON), fields removed from the head
 * (name), fields set in the head (name, value).
 *
 * Returns {1}: committed. {2}: this very commit had been made before. {0, field, value, ...}: the head as it is, with
 * nothing after the 0 if there is no run. {-1, what}: the record is damaged; nothing was written.
 *
 * Reads come first and the head is written last, so that an error leaves the run as it was. The first write changes
 * nothing: it is there because a Redis whose memory is full refuses the script at its first write or not at all, and
 * not every command that might come first is refused.
 */
export const commitScript = `
local stored = redis.call('HMGET', KEYS[1], 'rev', 'tok')
local function textOf(value) return value or '' end
if textOf(stored[2]) == ARGV[3] then return {2} end
if textOf(stored[1]) ~= ARGV[1] or textOf(stored[2]) ~= ARGV[2] then
  local reply = redis.call('HGETALL', KEYS[1])
  table.insert(reply, 1, 0)
  return reply
end

local fresh = ARGV[5] == 'fresh'
local position = 9
local function take()
  position = position + 1
  return ARGV[position]
end
local function block(width)
  local items = {}
  for i = 1, tonumber(take()) do
    local item = {}
    for j = 1, width do item[j] = take() end
    items[i] = item
  end
  return items
end
local indexes, entries, appended = block(3), block(2), block(2)
local results, removed, fields = block(2), block(1), block(2)

if not fresh then
  if redis.call('LLEN', KEYS[2]) ~= tonumber(ARGV[4]) then return {-1, 'transcript'} end
  redis.call('XLEN', KEYS[4])
end
local early = {}
for _, item in ipairs(appended) do
  if item[1] == 'result' then
    local json = redis.call('HGET', KEYS[3], item[2])
    if not json then return {-1, 'result ' .. item[2]} end
    early[item[2]] = json
  end
end

redis.call('HSET', KEYS[1], 'rev', ARGV[1])
if fresh then redis.call('DEL', KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]) end
for _, item in ipairs(entries) do
  local added = redis.pcall('XADD', KEYS[4], item[1] .. '-0', 'e', item[2])
  if added.err and string.find(added.err, 'equal or smaller', 1, true) then return {-1, 'feed'} end
  if added.err then return added end
end
for _, item in ipairs(indexes) do
  if item[2] == 'add' then redis.call('ZADD', KEYS[tonumber(item[1])], 0, item[3])
  else redis.call('ZREM', KEYS[tonumber(item[1])], item[3]) end
end
if ARGV[7] == '' then redis.call('ZREM', KEYS[6], ARGV[6]) else redis.call('ZADD', KEYS[6], ARGV[7], ARGV[6]) end
for _, item in ipairs(results) do redis.call('HSET', KEYS[3], item[1], item[2]) end
for _, item in ipairs(appended) do
  if item[1] == 'result' then
    redis.call('RPUSH', KEYS[2], ARGV[3] .. ' ' .. early[item[2]])
    redis.call('HDEL', KEYS[3], item[2])
  else
    redis.call('RPUSH', KEYS[2], ARGV[3] .. ' ' .. item[2])
  end
end
if ARGV[8] == 'persist' then redis.call('PERSIST', KEYS[5])
elseif ARGV[8] ~= '' then redis.call('PEXPIRE', KEYS[5], string.sub(ARGV[8], 8)) end
for _, item in ipairs(removed) do redis.call('HDEL', KEYS[1], item[1]) end
for _, item in ipairs(fields) do redis.call('HSET', KEYS[1], item[1], item[2]) end
redis.call('PUBLISH', ARGV[9], 'commit')
return {1}
`;

/**
 * Appends live text and says so.
 *
 * KEYS: 1 live. ARGV: 1 JSON, 2 how many entries to keep, about, 3 ms to keep the text of a run that goes on,
 * 4 ms to keep it after the end, 5 channel. An expiry that the end of the run has set is left alone.
 */
export const publishLiveScript = `
redis.call('XADD', KEYS[1], 'MAXLEN', '~', ARGV[2], '*', 'd', ARGV[1])
local left = redis.call('PTTL', KEYS[1])
if left < 0 or left > tonumber(ARGV[4]) then redis.call('PEXPIRE', KEYS[1], ARGV[3]) end
redis.call('PUBLISH', ARGV[5], 'live')
`;
