import type { Command } from "../core/command.ts";
import { DroverError } from "../core/errors.ts";
import { toInputMessages } from "../core/message.ts";
import type { StartPayload } from "../core/new-run.ts";
import type { Run } from "../core/run.ts";
import type { RunStore } from "../ports.ts";

type Deps = {
  store: RunStore;
  command: (runId: string, event: Command) => Promise<{ run: Run; applied: boolean }>;
};

/**
 * Gives an input to the active run of its session, if that is one of the same agent and takes it. Which run that is is
 * decided once and kept under the input's id, so that a start sent again neither gives it twice nor starts a run beside.
 *
 * @returns the run that took it; null if the input gets a run of its own.
 * @throws DroverError "conflict" if the id was used for another input.
 */
export async function inject(
  deps: Deps,
  inputId: string,
  inputHash: string,
  payload: StartPayload & { session: string },
): Promise<Run | null> {
  const { store } = deps;
  const { session } = payload;
  let claim = await store.claimInput(session, inputId, inputHash);
  while (claim.runId !== inputId) {
    if (claim.inputHash !== inputHash) {
      throw new DroverError(
        "conflict",
        `Input "${inputId}" was given to session "${session}" with another text before.`,
      );
    }
    const run = claim.taken
      ? await taker(store, claim.runId, session)
      : await give(deps, claim.runId, inputId, payload);
    if (run) {
      if (!claim.taken) await store.confirmInput(session, inputId, claim);
      return run;
    }
    if (claim.taken) throw new DroverError("not_found", `Run "${claim.runId}", which took this input, is gone.`);
    claim = await store.claimInput(session, inputId, inputHash, claim.runId);
  }
  return null;
}

/** The run of the session that took the input; null if it was deleted, whoever has its id now. */
async function taker(store: RunStore, runId: string, session: string): Promise<Run | null> {
  const run = await store.load(runId);
  return run?.session === session ? run : null;
}

/** The run if it takes the input, or has taken it before. */
async function give(
  deps: Deps,
  runId: string,
  inputId: string,
  payload: StartPayload & { session: string },
): Promise<Run | null> {
  const target = await taker(deps.store, runId, payload.session);
  // Nor does a dry run's input reach a run that acts.
  if (target?.agent !== payload.agent || Boolean(target.dryRun) !== Boolean(payload.dryRun)) return null;
  const messages = toInputMessages(payload.input);
  const { by = "unknown" } = payload;
  const { run, applied } = await deps.command(runId, { type: "input_received", inputId, messages, by });
  return applied || run.inputIds.includes(inputId) ? run : null;
}
