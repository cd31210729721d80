import { DroverError, unknownRun } from "../core/errors.ts";
import { runIdSchema } from "../core/new-run.ts";
import { owed } from "../core/owed.ts";
import { isEnded, type Run } from "../core/run.ts";
import type { RunStore, Signals } from "../ports.ts";
import { isSameRun } from "./advance.ts";
import type { EngineDeps } from "./deps.ts";
import { quietly } from "./quietly.ts";
import { leaveLine, wakeSessions } from "./session.ts";
import { isWaitedFor } from "./waited-for.ts";

type Deps = Pick<EngineDeps, "store" | "queue" | "advance" | "logger"> & { signals: Signals };

/** `damage`: what was wrong with its record, in words, if no change of it could be made any more. */
export type Deleted = { damage?: string | undefined };

/**
 * Removes a run that has ended. What stands in the way of that does not if its record is damaged: nobody could end the run,
 * or tell others of its end, ever again.
 *
 * @throws DroverError "not_found" "not_allowed"
 */
export async function deleteRun(deps: Deps, runId: string): Promise<Deleted> {
  // What cannot be a run's id could name another one's keys.
  if (!runIdSchema.safeParse(runId).success) throw unknownRun(runId);
  const { store } = deps;
  let meant: Run | undefined;
  for (;;) {
    const run = await loadAnyhow(store, runId);
    // It went meanwhile, and another may have its id: that one is not meant.
    if (meant && !(run instanceof DroverError) && !(run && isSameRun(meant, run))) return {};
    const refusal = run instanceof DroverError ? run : await refusalOf(store, runId, run);
    if (refusal) return removeDamaged(deps, runId, refusal);
    meant = run as Run;
    if (!(await store.remove(meant))) continue;
    await announce(deps, runId);
    return {};
  }
}

/** The error, if the record cannot be read. */
async function loadAnyhow(store: RunStore, runId: string): Promise<Run | null | DroverError> {
  try {
    return await store.load(runId);
  } catch (error) {
    if (error instanceof DroverError && error.code === "invalid") return error;
    throw error;
  }
}

async function refusalOf(store: RunStore, runId: string, run: Run | null): Promise<DroverError | undefined> {
  if (!run) return unknownRun(runId);
  if (!isEnded(run)) {
    return new DroverError("not_allowed", `Run "${runId}" is ${run.status}; cancel it before it is deleted.`);
  }
  if (owed(run).length > 0) {
    return new DroverError(
      "not_allowed",
      `Run "${runId}" has ended but still has others to tell; delete it in a moment.`,
    );
  }
  if (await isWaitedFor(store, run)) {
    const message = `Run "${runId}" has ended, and run "${run.parent?.runId}" still waits for its result; delete it once that has it, or cancel that run.`;
    return new DroverError("not_allowed", message);
  }
  return undefined;
}

async function removeDamaged(deps: Deps, runId: string, refusal: DroverError): Promise<Deleted> {
  const { store, logger } = deps;
  const damage = await store.removeDamaged(runId);
  if (!damage) throw refusal;
  logger.warn({ runId, error: damage.why }, "a run was deleted whose record was damaged");
  await announce(deps, runId);
  const { session } = damage;
  if (session !== null) {
    const what = "the session of a deleted run could not be looked at; its next start looks again";
    await quietly(logger, { runId, session }, what, () =>
      session === undefined ? wakeSessions(deps) : leaveLine(deps, session, runId),
    );
  }
  return { damage: damage.why };
}

/** Whoever remembers it forgets it, before another run takes its id. */
async function announce({ signals, logger }: Deps, runId: string): Promise<void> {
  await quietly(logger, { runId }, "the deletion of a run could not be announced", () => signals.announce(runId));
}
