import type { Hold, Run } from "../core/run.ts";
import type { StepOutcome } from "../ports.ts";
import { afterReport, type RunStepDeps, type StepContext } from "./step.ts";

const firstHoldMs = 500;
const longestHoldMs = 15_000;

/** Parks a step visibly and looks again after a wait that grows to 15 s; it costs no worker slot meanwhile. */
export async function holdStep(
  deps: RunStepDeps,
  run: Run,
  context: StepContext,
  why: Pick<Hold, "reason" | "detail">,
): Promise<StepOutcome> {
  const { step } = context;
  const held = step.kind === "model" ? run.model?.hold : readyHold(run, step.callId);
  const count = (held?.count ?? 0) + 1;
  const until = deps.clock.now() + Math.min(firstHoldMs * 2 ** Math.min(count - 1, 10), longestHoldMs);
  const event = { type: "step_held" as const, step, hold: { ...why, count }, until };
  return afterReport(deps, await deps.advance(run.runId, event, { head: run, pipeline: true }), context);
}

function readyHold(run: Run, callId: string | undefined): Hold | undefined {
  const call = run.calls.find((other) => other.callId === callId);
  return call?.state === "ready" ? call.hold : undefined;
}
