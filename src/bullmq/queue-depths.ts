import { z } from "zod";
import { defaultPrefix } from "../core/defaults.ts";
import { toPattern } from "../core/pattern.ts";
import { dueAtOf } from "./scores.ts";
import { queuePrefix, runsQueue, toolQueue } from "./step-job.ts";
import type { QueueConnection } from "./step-queue.ts";

/**
 * How many steps (or starts, in the queue `runs`) lie in a queue. `oldestAgeMs`: how long the one that waits longest could
 * have been taken; undefined if none waits. A delayed one whose time has come and that nobody took counts as well. `paused`:
 * by BullMQ's own pause.
 */
export type QueueDepth = {
  name: string;
  waiting: number;
  active: number;
  delayed: number;
  oldestAgeMs?: number | undefined;
  paused?: boolean | undefined;
};

/** The queues that are always there. */
export const ownQueues: readonly string[] = [runsQueue, "model", toolQueue(undefined)];

const scanCount = 1_000;

/**
 * Depths of queues, all in one round trip, whose cost does not grow with what lies in them.
 *
 * @param names default: the three that are always there and all others under the prefix, which are searched for among
 *   all keys of the server.
 * @param prefix default `{drover}`.
 * @throws DroverError "queue_unavailable"
 */
export async function readQueueDepths(
  connection: QueueConnection,
  prefix: string = defaultPrefix,
  names?: readonly string[],
): Promise<QueueDepth[]> {
  const base = queuePrefix(prefix);
  const queues = names ?? (await listQueues(connection, base));
  const keys = queues.flatMap((name) => states.map((state) => `${base}:${name}:${state}`));
  const reply = await connection.use((client) => client.eval(depthsScript, keys.length, ...keys));
  const [now, rows] = replySchema.parse(reply);
  return rows.map((row, index) => toDepth(queues[index] as string, row, now));
}

/** The depths of queues of one name in several shards, as of one queue; in the order of `names`. */
export function sumDepths(depths: readonly QueueDepth[], names: readonly string[]): QueueDepth[] {
  return names.map((name) => {
    const own = depths.filter((depth) => depth.name === name);
    const sum = (field: "waiting" | "active" | "delayed"): number =>
      own.reduce((total, depth) => total + depth[field], 0);
    const ages = own.flatMap(({ oldestAgeMs }) => oldestAgeMs ?? []);
    return {
      ...{ name, waiting: sum("waiting"), active: sum("active"), delayed: sum("delayed") },
      ...(ages.length === 0 ? {} : { oldestAgeMs: Math.max(...ages) }),
      ...(own.some(({ paused }) => paused) ? { paused: true } : {}),
    };
  });
}

async function listQueues(connection: QueueConnection, prefix: string): Promise<string[]> {
  const names = new Set(ownQueues);
  const pattern = `${toPattern(prefix)}:*:meta`;
  let cursor = "0";
  do {
    const reply = await connection.use((client) =>
      client.eval(scanScript, 1, `${prefix}:${runsQueue}:meta`, cursor, pattern, scanCount),
    );
    const [next, keys] = scanSchema.parse(reply);
    for (const key of keys) names.add(key.slice(prefix.length + 1, -":meta".length));
    cursor = next;
  } while (cursor !== "0");
  return [...names];
}

/** In a script, so that it is done by the node of a cluster that has the keys, and not by any. KEYS: 1 one of them. */
const scanScript = "return redis.call('SCAN', ARGV[1], 'MATCH', ARGV[2], 'COUNT', ARGV[3])";
const scanSchema = z.tuple([z.string(), z.array(z.string())]);

const states = ["wait", "prioritized", "active", "delayed"] as const;

/**
 * KEYS: the four states of each queue. Returns the time, and for each queue how many are in each state, 1 if it is paused, when
 * the first delayed one is due, and timestamp, options and time of the last taking of those that may have waited longest: the
 * first without priority, and the first of a few classes of priority: BullMQ scores a job by its class and, within it,
 * by when it came. The last class is among them, since it waits while others have work.
 */
const depthsScript = `
local time = redis.call('TIME')
local rows = {}
local class = 0x100000000
local function number(value) return string.format('%.0f', value) end
for first = 1, #KEYS, 4 do
  local wait, prioritized, active, delayed = KEYS[first], KEYS[first + 1], KEYS[first + 2], KEYS[first + 3]
  local jobs = string.sub(wait, 1, -5)
  local heads, seen = {}, {}
  local function add(id)
    if not id or seen[id] then return end
    seen[id] = true
    local job = redis.call('HMGET', jobs .. id, 'timestamp', 'opts', 'processedOn')
    table.insert(heads, { job[1] or '', job[2] or '', job[3] or '' })
  end
  local function firstFrom(score)
    return redis.call('ZRANGEBYSCORE', prioritized, score, '+inf', 'WITHSCORES', 'LIMIT', 0, 1)
  end
  add(redis.call('LINDEX', wait, -1))
  local from = '(-inf'
  for _ = 1, 8 do
    local head = firstFrom(from)
    add(head[1])
    if not head[1] then break end
    from = number((math.floor(tonumber(head[2]) / class) + 1) * class)
  end
  local last = redis.call('ZREVRANGE', prioritized, 0, 0, 'WITHSCORES')
  if last[1] then add(firstFrom(number(math.floor(tonumber(last[2]) / class) * class))[1]) end
  local due = redis.call('ZRANGE', delayed, 0, 0, 'WITHSCORES')[2]
  table.insert(rows, {
    redis.call('LLEN', wait) + redis.call('ZCARD', prioritized), redis.call('LLEN', active),
    redis.call('ZCARD', delayed), redis.pcall('HEXISTS', jobs .. 'meta', 'paused') == 1 and 1 or 0, due or '', heads,
  })
end
return { time[1] * 1000 + math.floor(time[2] / 1000), rows }
`;

const count = z.number();
/** Timestamp, options as JSON and time of the last taking of a job; texts of a job that is not there are empty. */
const headSchema = z.tuple([z.string(), z.string(), z.string()]);
type Head = z.output<typeof headSchema>;
const rowSchema = z.tuple([count, count, count, count, z.string(), z.array(headSchema)]);
const replySchema = z.tuple([count, z.array(rowSchema)]);

function toDepth(name: string, row: z.output<typeof rowSchema>, now: number): QueueDepth {
  const [waiting, active, delayed, paused, due, heads] = row;
  const dueAt = due === "" ? Number.POSITIVE_INFINITY : dueAtOf(due);
  const oldest = Math.min(dueAt, ...heads.map((head) => takeableSince(head, now)));
  const isWaiting = waiting > 0 || dueAt <= now;
  const depth = { name, waiting, active, delayed, ...(paused === 1 ? { paused: true } : {}) };
  return isWaiting ? { ...depth, oldestAgeMs: Math.max(0, now - oldest) } : depth;
}

/** Since when a job could be taken: after its delay, and after it was taken last and put back. */
function takeableSince([timestamp, opts, processedOn]: Head, now: number): number {
  const made = Number(timestamp);
  if (timestamp === "" || !Number.isFinite(made)) return now;
  const taken = Number(processedOn);
  return Math.max(made + delayOf(opts), Number.isFinite(taken) ? taken : 0);
}

const optsSchema = z.object({ delay: z.number().min(0).default(0) });

function delayOf(opts: string): number {
  try {
    return optsSchema.parse(JSON.parse(opts)).delay;
  } catch {
    return 0; // made by whatever client: its age is told without it
  }
}
