// The Lua of what workers tell of themselves. Who has gone without a word is found out by Redis's clock.

const clock = `
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local function number(value) return string.format('%.0f', value) end
`;

/**
 * Who is there can be told on a full Redis too: it lets a script write all it wants once its first write was one that takes
 * no memory.
 *
 * KEYS: 1 until when workers count as there, 2 what they told, 3 agents. ARGV: 1 for how long, in ms, 2 the worker's id,
 * 3 JSON of what it tells, then name and JSON of each agent.
 */
export const tellScript: string = `${clock}
redis.call('ZREM', KEYS[1], ARGV[2])
redis.call('ZADD', KEYS[1], number(now + ARGV[1]), ARGV[2])
redis.call('HSET', KEYS[2], ARGV[2], ARGV[3])
for i = 4, #ARGV, 2 do redis.call('HSET', KEYS[3], ARGV[i], ARGV[i + 1]) end
for _, gone in ipairs(redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', number(now))) do
  redis.call('ZREM', KEYS[1], gone)
  redis.call('HDEL', KEYS[2], gone)
end
return {}
`;

/** KEYS: 1 and 2 of `tellScript`. ARGV: 1 the worker's id. */
export const leaveScript = `
redis.call('ZREM', KEYS[1], ARGV[1])
redis.call('HDEL', KEYS[2], ARGV[1])
return {}
`;

/** KEYS: 1 and 2 of `tellScript`. Returns id and JSON of each worker that is there. */
export const toldScript: string = `${clock}
local rows = {}
for _, id in ipairs(redis.call('ZRANGEBYSCORE', KEYS[1], '(' .. number(now), '+inf')) do
  local told = redis.call('HGET', KEYS[2], id)
  if told then
    table.insert(rows, id)
    table.insert(rows, told)
  end
end
return rows
`;
