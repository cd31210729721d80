import { z } from "zod";
import type { Pause } from "../core/run.ts";
import type { FleetSwitch } from "../ports.ts";
import type { RedisConnection } from "./connection.ts";
import type { Keys } from "./keys.ts";
import { parseStored } from "./run-codec.ts";

const pauseSchema: z.ZodType<Pause> = z.object({ by: z.string(), reason: z.string(), at: z.number() });

/** The fleet's pause in Redis. Contract: `FleetSwitch`. */
export function createRedisFleetSwitch({ connection, keys }: { connection: RedisConnection; keys: Keys }): FleetSwitch {
  const key = keys.fleetPause;

  async function read(): Promise<Pause | undefined> {
    const json = await connection.use((client) => client.get(key));
    return json === null ? undefined : parseStored(pauseSchema, json, `the fleet's pause (key ${key})`);
  }

  return {
    read,
    async pause(asked) {
      // Sent again after a lost reply it finds itself.
      const set = await connection.use((client) => client.set(key, JSON.stringify(asked), "NX"));
      const pause = set === null ? ((await read()) ?? asked) : asked;
      return { pause, applied: set !== null || isSame(pause, asked) };
    },
    async resume() {
      return (await connection.use((client) => client.del(key))) > 0;
    },
  };
}

function isSame(a: Pause, b: Pause): boolean {
  return a.at === b.at && a.by === b.by && a.reason === b.reason;
}
