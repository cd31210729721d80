import { DroverError } from "../core/errors.ts";
import type { CommitResult } from "../ports.ts";
import type { CommitInput } from "./commit-plan.ts";
import type { RedisConnection } from "./connection.ts";
import type { Keys } from "./keys.ts";
import { readHead } from "./read.ts";

/**
 * What became of a commit that failed. A large one that was given up may have been made: its way was cut each time, perhaps
 * before the reply. The record tells.
 *
 * @throws the error, if nothing was made
 */
export async function whetherMade(
  { connection, keys }: { connection: RedisConnection; keys: Keys },
  { previous, run }: Pick<CommitInput, "previous" | "run">,
  error: unknown,
): Promise<CommitResult> {
  if (!(error instanceof DroverError && error.code === "too_large")) throw error;
  const head = await readHead(connection, keys, run.runId);
  if (head?.token === run.token) return { committed: true };
  if (head?.token === previous?.token && head?.revision === previous?.revision) throw error;
  return { committed: false, run: head };
}
