import { randomUUID } from "node:crypto";
import { z } from "zod";
import type { Pause } from "../core/run.ts";
import type { FleetSwitch } from "../ports.ts";
import type { RedisConnection } from "./connection.ts";
import type { Keys } from "./keys.ts";
import { runScript } from "./read.ts";
import { parseStored } from "./run-codec.ts";

const pauseSchema: z.ZodType<Pause> = z.object({ by: z.string(), reason: z.string(), at: z.number() });

/**
 * A full Redis, where a pause is wanted most, lets a script write all it wants once its first write was one that takes no
 * memory, as that of a key which is not there.
 *
 * KEYS: 1 the pause. ARGV: 1 the one that is asked for. Returns the one that is in force.
 */
const pauseScript = `
local held = redis.call('GET', KEYS[1])
if held then return {held} end
redis.call('DEL', KEYS[1])
redis.call('SET', KEYS[1], ARGV[1])
return {ARGV[1]}
`;

/** KEYS: 1 the pause. ARGV: 1 the one that is to end: another one, that came meanwhile, stays. */
const resumeScript = `
if redis.call('GET', KEYS[1]) == ARGV[1] then redis.call('DEL', KEYS[1]) end
return {}
`;

/** The fleet's pause in Redis. Contract: `FleetSwitch`. */
export function createRedisFleetSwitch({ connection, keys }: { connection: RedisConnection; keys: Keys }): FleetSwitch {
  const key = keys.fleetPause;
  const readJson = (): Promise<string | null> => connection.use((client) => client.get(key));
  const parse = (json: string): Pause => parseStored(pauseSchema, json, `the fleet's pause (key ${key})`);

  return {
    async read() {
      const json = await readJson();
      return json === null ? undefined : parse(json);
    },
    async pause(asked) {
      // Sent again after a lost reply it finds itself, and by the token nobody else's.
      const json = JSON.stringify({ ...asked, token: randomUUID() });
      const [held] = await connection.use((client) => runScript(client, pauseScript, { keys: [key], args: [json] }));
      return held === json ? { pause: asked, applied: true } : { pause: parse(String(held)), applied: false };
    },
    async resume() {
      const json = await readJson();
      if (json === null) return false;
      // Also sent again after a lost reply, when it finds nothing: that one is over.
      await connection.use((client) => runScript(client, resumeScript, { keys: [key], args: [json] }));
      return true;
    },
  };
}
