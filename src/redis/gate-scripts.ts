// The Lua of the fleet's gates. A gate has four keys: a hash with its schedule and who is inside under which token
// ("k:<holder>"), and three sorted sets: places in time (holder, when), places inside (holder, until when) and the line
// (holder, order of coming). The memory twin in src/testing/memory-gates.ts does the same; one contract holds for both.

/** Where a script takes the time from, and what all of them do with a gate. */
const shared = `
local now = tonumber(ARGV[1])
if not now then
  local time = redis.call('TIME')
  now = time[1] * 1000 + time[2] / 1000
end
local called = {}

local function number(value) return string.format('%.17g', value) end

local function keep(key, ms)
  if redis.call('PTTL', key) < ms then redis.call('PEXPIRE', key, math.ceil(ms)) end
end

local function gateAt(index)
  local first = 4 * (index - 1)
  return {
    index = index, base = KEYS[first + 1], tickets = KEYS[first + 2], leases = KEYS[first + 3], line = KEYS[first + 4],
  }
end

-- Drops who has gone without a word, and keeps a place for whoever is first in line.
local function move(gate, limit, callMs, except)
  for _, gone in ipairs(redis.call('ZRANGEBYSCORE', gate.leases, '-inf', number(now))) do
    redis.call('ZREM', gate.leases, gone)
    redis.call('HDEL', gate.base, 'k:' .. gone)
  end
  for _ = redis.call('ZCARD', gate.leases) + 1, limit do
    local first = redis.call('ZPOPMIN', gate.line)[1]
    if not first then break end
    redis.call('ZADD', gate.leases, number(now + callMs), first)
    if first ~= except then
      table.insert(called, gate.index)
      table.insert(called, first)
    end
  end
end
`;

/**
 * KEYS: four for each gate. ARGV: 1 the time ("" for Redis's), 2 holder, 3 token, 4 lease, 5 how long a place is kept for
 * one who was called, 6 how long a place in time is remembered after it, 7 first wait in line, 8 longest wait in line,
 * 9 how long an unused gate is remembered; then for each gate: interval (0: no rate), slack, distance of places, burst,
 * places inside (0: any). All times in ms.
 *
 * Returns "entered", "rate_limit" or "concurrency_limit", the gate that is waited at (from 1, else 0), until when, and
 * pairs of gate and holder whose turn has come.
 */
export const enterScript: string = `${shared}
local holder, token = ARGV[2], ARGV[3]
local leaseMs, callMs, keptMs = tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[9])
local gates = {}
for index = 1, #KEYS / 4 do
  local gate = gateAt(index)
  local at = 9 + 5 * (index - 1)
  gate.interval, gate.slack, gate.distance = tonumber(ARGV[at + 1]), tonumber(ARGV[at + 2]), tonumber(ARGV[at + 3])
  gate.burst, gate.limit = tonumber(ARGV[at + 4]), tonumber(ARGV[at + 5])
  gates[index] = gate
end

local full
for _, gate in ipairs(gates) do
  if gate.limit > 0 then
    redis.call('HSET', gate.base, 'max', gate.limit)
    move(gate, gate.limit, callMs, holder)
    local inside = redis.call('ZSCORE', gate.leases, holder)
    if not inside and redis.call('ZCARD', gate.leases) >= gate.limit then full = full or gate end
    for _, key in ipairs({gate.base, gate.leases, gate.line}) do keep(key, keptMs) end
  end
end
if full then
  if not redis.call('ZSCORE', full.line, holder) then
    redis.call('ZADD', full.line, redis.call('HINCRBY', full.base, 'seq', 1), holder)
    keep(full.line, keptMs)
  end
  local ahead = redis.call('ZRANK', full.line, holder)
  local waitMs = math.min(tonumber(ARGV[7]) * (1 + ahead / 20), tonumber(ARGV[8]))
  return {'concurrency_limit', full.index, number(now + waitMs), unpack(called)}
end

local allReady = true
for _, gate in ipairs(gates) do
  if gate.interval > 0 then
    local kept = redis.call('HMGET', gate.base, 'tat', 'ent', 'late')
    gate.tat, gate.ent, gate.late = tonumber(kept[1] or 0), tonumber(kept[2] or 0), tonumber(kept[3] or 0)
    gate.ticket = tonumber(redis.call('ZSCORE', gate.tickets, holder) or nil)
    gate.ahead = (gate.burst - 1) * gate.distance
    gate.opens = gate.ent - gate.slack - (gate.burst - 1) * gate.interval
    if gate.ticket then gate.due = gate.ticket - gate.slack <= now else gate.due = gate.tat - gate.ahead <= now end
    gate.ready = gate.due and gate.opens <= now
    allReady = allReady and gate.ready
  end
end

if allReady then
  for _, gate in ipairs(gates) do
    if gate.interval > 0 then
      local ent = math.max(gate.ent, now) + gate.interval
      local tat = gate.tat
      if gate.ticket then redis.call('ZREM', gate.tickets, holder) else tat = math.max(tat, now) + gate.distance end
      redis.call('HSET', gate.base, 'ent', number(ent), 'tat', number(tat))
      keep(gate.base, math.max(ent, tat) - now + gate.burst * gate.interval + keptMs)
    end
    if gate.limit > 0 then
      redis.call('ZADD', gate.leases, number(now + leaseMs), holder)
      redis.call('HSET', gate.base, 'k:' .. holder, token)
      for _, key in ipairs({gate.base, gate.leases}) do keep(key, keptMs) end
    end
  end
  return {'entered', 0, number(now), unpack(called)}
end

local waitsAt, till = 0, now
for _, gate in ipairs(gates) do
  if gate.interval > 0 and not gate.ready then
    local place = gate.ticket
    if gate.due then
      -- Its time has come and the gate is behind its schedule: it gets the next place that is left.
      place = math.max(gate.late, gate.opens)
      redis.call('HSET', gate.base, 'late', number(place + gate.interval))
      gate.tat = math.max(gate.tat, place + gate.distance)
    elseif not place then
      place = gate.tat - gate.ahead
      gate.tat = gate.tat + gate.distance
    end
    redis.call('HSET', gate.base, 'tat', number(gate.tat), 'tail', number(gate.ahead + gate.distance))
    redis.call('ZREMRANGEBYSCORE', gate.tickets, '-inf', number(now - tonumber(ARGV[6])))
    redis.call('ZADD', gate.tickets, number(place), holder)
    local needed = math.max(gate.ent, gate.tat, place) - now + gate.burst * gate.interval + keptMs
    for _, key in ipairs({gate.base, gate.tickets}) do keep(key, needed) end
    if place > till then till = place end
    if waitsAt == 0 or place == till then waitsAt = gate.index end
  end
end
for _, gate in ipairs(gates) do
  if gate.limit > 0 then
    redis.call('ZADD', gate.leases, number(till + leaseMs), holder)
    redis.call('HDEL', gate.base, 'k:' .. holder)
    for _, key in ipairs({gate.base, gate.leases}) do keep(key, till - now + keptMs) end
  end
end
return {'rate_limit', waitsAt, number(till), unpack(called)}
`;

/** KEYS: one gate's. ARGV: 1 the time, 2 holder, 3 token, 4 lease, 5 how long an unused gate is remembered. */
export const renewScript: string = `${shared}
local gate = gateAt(1)
local holds = redis.call('HGET', gate.base, 'k:' .. ARGV[2])
if holds and holds ~= ARGV[3] then return {} end
redis.call('HSET', gate.base, 'k:' .. ARGV[2], ARGV[3])
redis.call('ZADD', gate.leases, number(now + tonumber(ARGV[4])), ARGV[2])
for _, key in ipairs({gate.base, gate.leases}) do keep(key, tonumber(ARGV[5])) end
return {}
`;

/**
 * Gives back a place inside (with its token), or all that is kept for one who waits (without).
 *
 * KEYS: one gate's. ARGV: 1 the time, 2 holder, 3 token or "", 4 how long a place is kept for one who was called.
 * Returns pairs of 1 and the holder whose turn has come.
 */
export const leaveScript: string = `${shared}
local gate, holder = gateAt(1), ARGV[2]
if (redis.call('HGET', gate.base, 'k:' .. holder) or '') == ARGV[3] then
  redis.call('ZREM', gate.leases, holder)
  redis.call('HDEL', gate.base, 'k:' .. holder)
end
if ARGV[3] == '' then
  redis.call('ZREM', gate.line, holder)
  if redis.call('ZREM', gate.tickets, holder) == 1 then
    -- Places after the last one that is waited for are free again.
    local tail = tonumber(redis.call('HGET', gate.base, 'tail'))
    local last = redis.call('ZREVRANGE', gate.tickets, 0, 0, 'WITHSCORES')[2]
    if not last then redis.call('HDEL', gate.base, 'tat', 'late')
    elseif tail then redis.call('HSET', gate.base, 'tat', number(tonumber(last) + tail)) end
  end
end
local limit = tonumber(redis.call('HGET', gate.base, 'max') or '0')
move(gate, limit, tonumber(ARGV[4]), '')
return called
`;

/**
 * KEYS: four for each gate. ARGV: 1 the time, 2 how long a place in time is remembered after it. Returns for each gate how
 * many are inside (a place that is kept for one who was called, or who waits for a rate, has no token) and how many wait.
 */
export const occupancyScript: string = `${shared}
local counts = {}
for index = 1, #KEYS / 4 do
  local gate = gateAt(index)
  local inside = 0
  for _, holder in ipairs(redis.call('ZRANGEBYSCORE', gate.leases, '(' .. number(now), '+inf')) do
    inside = inside + redis.call('HEXISTS', gate.base, 'k:' .. holder)
  end
  table.insert(counts, inside)
  local since = '(' .. number(now - tonumber(ARGV[2]))
  table.insert(counts, redis.call('ZCARD', gate.line) + redis.call('ZCOUNT', gate.tickets, since, '+inf'))
end
return counts
`;

/** KEYS: 1 the pause. ARGV: 1 the time, 2 for how long. Returns until when; an earlier, longer pause stays. */
export const pauseScript: string = `${shared}
local till = math.max(math.ceil(now + tonumber(ARGV[2])), tonumber(redis.call('GET', KEYS[1]) or '0'))
if till > now then redis.call('SET', KEYS[1], number(till), 'PX', math.ceil(till - now) + 1) end
return {number(till)}
`;

/** KEYS: 1 the breaker, stored as "<version> <JSON>". ARGV: 1 the version expected, 2 what to store or "", 3 for how long. */
export const swapBreakerScript: string = `
local stored = redis.call('GET', KEYS[1])
local version = stored and string.match(stored, '^%d+') or '0'
if version ~= ARGV[1] then return {0} end
if ARGV[2] == '' then redis.call('DEL', KEYS[1]) else redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3]) end
return {1}
`;
