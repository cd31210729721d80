import type { Hold, Run } from "../core/run.ts";
import type { StepOutcome } from "../ports.ts";
import { afterReport, type RunStepDeps, type StepContext } from "./step.ts";

const firstHoldMs = 500;
const longestHoldMs = 15_000;

/**
 * Parks a step whose agent, or of a known agent whose tool, no worker here knows. It is looked at again after a wait that
 * grows to 15 s, and costs no worker slot meanwhile (invariant 7).
 *
 * @param tool the tool that is not known; undefined: it is the agent.
 */
export async function holdUnknown(
  deps: RunStepDeps,
  run: Run,
  context: StepContext,
  tool?: string,
): Promise<StepOutcome> {
  const { step } = context;
  const what = tool === undefined ? `the agent "${run.agent}"` : `the tool "${tool}" of agent "${run.agent}"`;
  const why: Pick<Hold, "reason" | "detail"> = {
    reason: tool === undefined ? "unknown_agent" : "unknown_tool",
    detail: `No worker here knows ${what}. Start a worker with it; the run goes on by itself.`,
  };
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
