import { DroverError } from "../core/errors.ts";
import type { Run } from "../core/run.ts";
import type { DampedWarning, RedisConnection } from "./connection.ts";
import type { Keys } from "./keys.ts";
import { askEach } from "./read.ts";
import { decodeHead } from "./run-codec.ts";

/**
 * Heads in the order of their ids; null: there is none, undefined: it cannot be read here.
 *
 * @param text what is logged of one that cannot be read
 */
export async function readHeads(
  { connection, keys, warn }: { connection: RedisConnection; keys: Keys; warn: DampedWarning },
  runIds: string[],
  text: string,
): Promise<(Run | null | undefined)[]> {
  const heads = runIds.map((runId) => keys.run(runId).head);
  const replies = await askEach(connection, heads, (client, head) => client.hgetall(head));
  return runIds.map((runId, index) => {
    const fields = replies[index] ?? {};
    try {
      if (fields instanceof Error) throw fields;
      return decodeHead(runId, fields);
    } catch (error) {
      const code = error instanceof DroverError ? error.code : "wrong_type";
      warn(code, { runId, code }, text);
      return undefined;
    }
  });
}
