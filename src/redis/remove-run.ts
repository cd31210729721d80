import type { Run } from "../core/run.ts";
import { indexRemovals } from "./commit-plan.ts";
import type { RedisConnection } from "./connection.ts";
import type { Keys } from "./keys.ts";
import { runScript } from "./read.ts";
import { removeScript } from "./scripts.ts";

/** Removes a run with all that is its own, if it is still the one that was read. True if it is gone. */
export async function removeRun(connection: RedisConnection, keys: Keys, run: Run): Promise<boolean> {
  const { head, messages, results, feed, live, outputs } = keys.run(run.runId);
  const indexes = indexRemovals(keys, run);
  const plan = {
    keys: [head, messages, results, feed, live, outputs, keys.owing, ...indexes.map(([key]) => key)],
    args: [run.revision, run.token, run.runId, ...indexes.flatMap(([, ...change]) => change)],
  };
  const [removed] = await connection.use((client) => runScript(client, removeScript, plan));
  return removed === 1;
}
