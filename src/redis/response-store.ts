import { z } from "zod";
import { DroverError } from "../core/errors.ts";
import type { ResponseRecord, ResponseStore } from "../ports.ts";
import type { RedisConnection } from "./connection.ts";
import type { Keys } from "./keys.ts";
import { askEach, runScript } from "./read.ts";
import { parseStored } from "./run-codec.ts";

const recordSchema: z.ZodType<ResponseRecord> = z.looseObject({
  id: z.string(),
  runId: z.string(),
  tenant: z.string().optional(),
  createdAt: z.number(),
  afterSeq: z.number(),
  request: z.record(z.string(), z.unknown()),
});

const mostRead = 1_000;

/**
 * Appends events that go on where the others end. How many there have been is kept beside the record, so that numbers
 * stay given when the events have expired.
 *
 * KEYS: 1 head, 2 events. ARGV: 1 the first one's number, then the events. Returns {1}, {0} if that is not where they
 * end or they have expired, {-1} if there is no such response.
 */
const appendScript = `
local stored = redis.call('HMGET', KEYS[1], 'record', 'events')
if not stored[1] then return {-1} end
local from = tonumber(stored[2] or 0)
if from ~= tonumber(ARGV[1]) or (from > 0 and redis.call('EXISTS', KEYS[2]) == 0) then return {0} end
for i = 2, #ARGV do redis.call('XADD', KEYS[2], string.format('%.0f-0', from + i - 1), 'e', ARGV[i]) end
redis.call('HSET', KEYS[1], 'events', string.format('%.0f', from + #ARGV - 1))
return {1}
`;

/**
 * KEYS: 1 head, 2 all responses. ARGV: 1 the record, 2 when it was made, 3 its id. Returns the record that is kept, which may
 * be one from before.
 */
const createScript = `
redis.call('HSETNX', KEYS[1], 'record', ARGV[1])
redis.call('ZADD', KEYS[2], 'NX', ARGV[2], ARGV[3])
return {redis.call('HGET', KEYS[1], 'record')}
`;

/** KEYS: 1 head, 2 events, 3 all responses. ARGV: 1 id. Returns {1} if there was one. */
const removeScript = `
redis.call('ZREM', KEYS[3], ARGV[1])
redis.call('UNLINK', KEYS[2])
return {redis.call('UNLINK', KEYS[1])}
`;

function decode(key: string, json: string): ResponseRecord {
  return parseStored(recordSchema, json, `a response (key ${key})`);
}

/** Answers of the Responses endpoint, in Redis. Contract: `ResponseStore`. */
export function createRedisResponseStore(options: { connection: RedisConnection; keys: Keys }): ResponseStore {
  const { connection, keys } = options;

  return {
    async create(record) {
      const { head } = keys.response(record.id);
      const input = { keys: [head, keys.responses], args: [JSON.stringify(record), record.createdAt, record.id] };
      const [kept] = await connection.use((client) => runScript(client, createScript, input));
      return decode(head, String(kept));
    },
    async get(id) {
      const { head } = keys.response(id);
      const json = await connection.use((client) => client.hget(head, "record"));
      return json === null ? undefined : decode(head, json);
    },
    async remove(id) {
      const { head, events } = keys.response(id);
      const input = { keys: [head, events, keys.responses], args: [id] };
      const [removed] = await connection.use((client) => runScript(client, removeScript, input));
      return removed === 1;
    },
    async append(id, from, events) {
      const { head, events: stream } = keys.response(id);
      const input = { keys: [head, stream], args: [from, ...events] };
      const [code] = await connection.use((client) => runScript(client, appendScript, input));
      if (code === -1) throw new DroverError("not_found", `There is no response "${id}"; it may have been deleted.`);
      return code === 1;
    },
    async read(id, from, limit) {
      const count = Math.min(limit, mostRead);
      if (count < 1) return [];
      const { events } = keys.response(id);
      const start = `${Math.max(0, Math.trunc(from)) + 1}-0`;
      const rows = await connection.use((client) => client.xrange(events, start, "+", "COUNT", count));
      return rows.map(([, fields]) => fields[1] ?? "");
    },
    async expireEvents(id, ms) {
      await connection.use((client) => client.pexpire(keys.response(id).events, ms));
    },
    ...createDue(options),
  };
}

/** Which records are to be looked at for removal, and when. */
function createDue({
  connection,
  keys,
}: {
  connection: RedisConnection;
  keys: Keys;
}): Pick<ResponseStore, "due" | "postpone"> {
  return {
    async due(before, limit) {
      const range = ["-inf", `(${before}`, "LIMIT", 0, Math.min(limit, mostRead)] as const;
      const ids = await connection.use((client) => client.zrangebyscore(keys.responses, ...range));
      const heads = ids.map((id) => keys.response(id).head);
      const records = await askEach(connection, heads, (client, head) => client.hget(head, "record"));
      return ids.map((id, index) => ({ id, runId: runIdOf(records[index] ?? null) }));
    },
    async postpone(id, at) {
      await connection.use((client) => client.zadd(keys.responses, "XX", at, id));
    },
  };
}

/** Undefined: there is no record; null: it cannot be read. */
function runIdOf(json: string | Error | null): string | null | undefined {
  if (json === null) return undefined;
  try {
    return json instanceof Error ? null : decode("", json).runId;
  } catch {
    return null;
  }
}
