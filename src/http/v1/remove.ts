import { DroverError } from "../../core/errors.ts";
import { V1Error } from "./errors.ts";
import type { Asking } from "./plan.ts";
import { type Progressed, readProgress } from "./progress.ts";
import type { Kept } from "./record.ts";

/**
 * Removes a response and its events; what goes on for it is cancelled first. Who may delete runs removes its run with it,
 * unless a part of that belongs to another response. What was said stays in its session, for those that go on from there.
 */
export async function removeResponse({ deps, context }: Asking, kept: Kept): Promise<void> {
  const { record, request } = kept;
  const run = context.var.runs.get(record.runId);
  const progress = await readProgress(deps, kept).catch(unlessGone);
  if (progress && goesOn(progress)) await ignoreGone(run.cancel({ reason: "its response was deleted" }));
  await deps.responses.remove(record.id);
  await deps.responses.remove(`next_${record.id}`);
  if (!progress || !context.var.caller.scopes.has("admin")) return;
  const isShared = request.plan.type === "answer" || progress.state.asked.length > 0;
  if (!isShared) await ignoreGone(context.var.runs.delete(record.runId));
}

/** Whether the run works for this response, or waits for its calls; later ones are another response's. */
function goesOn({ run, state: { phase, asked } }: Progressed): boolean {
  return phase !== "ended" || run.calls.some(({ state, callId }) => state === "answer" && asked.includes(callId));
}

function unlessGone(error: unknown): undefined {
  if (!(error instanceof V1Error) || error.status !== 404) throw error;
}

/** The run may be gone, or still have others to tell; it is then left to whoever keeps runs. */
async function ignoreGone(done: Promise<unknown>): Promise<void> {
  await done.catch((error: unknown) => {
    if (!(error instanceof DroverError) || (error.code !== "not_found" && error.code !== "not_allowed")) throw error;
  });
}
