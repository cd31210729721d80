import { z } from "zod";
import type { AgentDefinition } from "../core/agent.ts";
import type { RunStore } from "../ports.ts";
import type { RedisConnection } from "./connection.ts";
import type { Keys } from "./keys.ts";
import { maxPage, runScript } from "./read.ts";
import { streamOf } from "./redis-target.ts";
import { parseStored } from "./run-codec.ts";

/**
 * Each run needs its agent's definition kept. One that Redis has lost meanwhile is put there again after this time, and at once
 * over another connection: what is lost is mostly lost by a restart or a failover.
 */
const putAgainAfterMs = 30_000;

const definitionSchema = z.looseObject({
  name: z.string(),
  instructions: z.string(),
  model: z.string(),
  provider: z.string(),
  tools: z.array(
    z.looseObject({ name: z.string(), description: z.string(), parameters: z.record(z.string(), z.unknown()) }),
  ),
  request: z.record(z.string(), z.unknown()),
  limits: z.record(z.string(), z.unknown()),
  version: z.string().optional(),
}) as unknown as z.ZodType<AgentDefinition>;

/** KEYS: 1 definition, 2 when each was put last. ARGV: 1 its hash, 2 its JSON. */
const putScript = `
redis.call('SET', KEYS[1], ARGV[2], 'NX')
redis.call('ZADD', KEYS[2], redis.call('TIME')[1] .. '000', ARGV[1])
return {}
`;

/**
 * Notes that the definitions were looked at, under a hash that none has. If they were not for long, versions may have been
 * at work that keep no such times, with definitions which stand here as put long ago: all count as put now. Takes no memory
 * first, so that a full Redis lets it write. KEYS: 1 when each was put last. ARGV: 1 for how long it may be left out (ms).
 */
const lookScript = `
local now = redis.call('TIME')[1] .. '000'
local looked = redis.call('ZSCORE', KEYS[1], '')
redis.call('ZREM', KEYS[1], '')
if not looked or now - looked > tonumber(ARGV[1]) then
  for _, hash in ipairs(redis.call('ZRANGE', KEYS[1], 0, -1)) do redis.call('ZADD', KEYS[1], now, hash) end
end
if redis.call('EXISTS', KEYS[1]) == 1 then redis.call('ZADD', KEYS[1], now, '') end
return {}
`;
/** Not longer than what is left to definitions when they are removed, see the engine's retention. */
const unlookedMs = 1_800_000;

/** KEYS: 1 when each was put last, then definitions. ARGV: 1 before when, then their hashes. Returns {how many went}. */
const removeScript = `
local gone = 0
for i = 2, #KEYS do
  local at = redis.call('ZSCORE', KEYS[1], ARGV[i])
  if at and tonumber(at) < tonumber(ARGV[1]) then
    redis.call('ZREM', KEYS[1], ARGV[i])
    redis.call('UNLINK', KEYS[i])
    gone = gone + 1
  end
end
if redis.call('ZCARD', KEYS[1]) == 1 then redis.call('ZREM', KEYS[1], '') end
return {gone}
`;

/** Agent definitions by their hashes. */
export function createDefinitions(
  connection: RedisConnection,
  keys: Keys,
): Pick<RunStore, "putDefinition" | "getDefinition" | "removeDefinitions"> {
  /** When and over which connection this process put each there; it knows no more of them than it has agents. */
  const known = new Map<string, { at: number; over: unknown }>();
  return {
    async putDefinition(hash, definition) {
      const put = known.get(hash);
      if (put && put.over === streamOf(connection.client) && performance.now() - put.at < putAgainAfterMs) return;
      const input = { keys: [keys.definition(hash), keys.definitionsPut], args: [hash, JSON.stringify(definition)] };
      await connection.use((client) => runScript(client, putScript, input));
      known.set(hash, { at: performance.now(), over: streamOf(connection.client) });
    },

    async getDefinition(hash) {
      const json = await connection.use((client) => client.get(keys.definition(hash)));
      return json === null ? null : parseStored(definitionSchema, json, `agent definition ${hash}`);
    },

    async removeDefinitions(before, limit) {
      const count = Math.min(limit, maxPage);
      const put = keys.definitionsPut;
      await connection.use((client) => runScript(client, lookScript, { keys: [put], args: [unlookedMs] }));
      const range = ["-inf", `(${before}`, "LIMIT", 0, count + 1] as const;
      const found = await connection.use((client) => client.zrangebyscore(put, ...range));
      const hashes = found.filter((hash) => hash !== "").slice(0, count);
      if (hashes.length === 0) return 0;
      const input = { keys: [put, ...hashes.map(keys.definition)], args: [before, ...hashes] };
      const [gone] = await connection.use((client) => runScript(client, removeScript, input));
      return Number(gone);
    },
  };
}
