import type { RunStore } from "../ports.ts";
import type { RedisConnection } from "./connection.ts";
import type { Keys } from "./keys.ts";
import { dropOwingScript } from "./lost-scripts.ts";
import { runScript } from "./read.ts";

type Context = { connection: RedisConnection; keys: Keys };

/** What takes a run whose record is lost out of the way of others. */
export function createLostRecords({ connection, keys }: Context): Pick<RunStore, "dropOwing"> {
  return {
    async dropOwing(runId) {
      const input = { keys: [keys.run(runId).head, keys.owing], args: [runId] };
      const [dropped] = await connection.use((client) => runScript(client, dropOwingScript, input));
      return dropped === 1;
    },
  };
}
