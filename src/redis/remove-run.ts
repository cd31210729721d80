import type { Run } from "../core/run.ts";
import { indexRemovals } from "./commit-plan.ts";
import type { RedisConnection } from "./connection.ts";
import type { Keys } from "./keys.ts";
import { runScript } from "./read.ts";
import { removeScript } from "./scripts.ts";

/**
 * Removes a run with all that is its own, if it is still the one that was read. True if it is gone.
 *
 * @param leftAt since when its session has no run, if this is its last one; epoch ms, default now.
 */
export async function removeRun(
  { connection, keys }: { connection: RedisConnection; keys: Keys },
  run: Run,
  leftAt?: number,
): Promise<boolean> {
  const { session } = run;
  const { head, messages, results, feed, live, outputs } = keys.run(run.runId);
  const indexes = indexRemovals(keys, run);
  const plan = {
    keys: [
      ...[head, messages, results, feed, live, outputs, keys.owing],
      ...indexes.map(([key]) => key),
      ...(session === undefined ? [] : [keys.listBySession(session), keys.idleSessions]),
    ],
    args: [
      run.revision,
      run.token,
      run.runId,
      session ?? "",
      leftAt ?? "",
      ...indexes.flatMap(([, ...change]) => change),
    ],
  };
  const [removed] = await connection.use((client) => runScript(client, removeScript, plan));
  return removed === 1;
}
