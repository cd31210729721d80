import { DroverError } from "../core/errors.ts";
import type { Run } from "../core/run.ts";
import type { DampedWarning, RedisConnection } from "./connection.ts";
import type { Keys } from "./keys.ts";
import { unwrap } from "./read.ts";
import { decodeHead } from "./run-codec.ts";

/** Heads in the order of their ids; null: there is none, undefined: it cannot be read here and stays. */
export async function readHeads(
  { connection, keys, warn }: { connection: RedisConnection; keys: Keys; warn: DampedWarning },
  runIds: string[],
): Promise<(Run | null | undefined)[]> {
  if (runIds.length === 0) return [];
  const replies = await connection.use((client) => {
    const pipeline = client.pipeline();
    for (const runId of runIds) pipeline.hgetall(keys.run(runId).head);
    return pipeline.exec();
  });
  return runIds.map((runId, index) => {
    try {
      return decodeHead(runId, unwrap(replies?.[index] ?? [null, {}]) as Record<string, string>);
    } catch (error) {
      const code = error instanceof DroverError ? error.code : "wrong_type";
      warn(code, { runId, code }, "a run is kept beyond its time because its record cannot be read");
      return undefined;
    }
  });
}
