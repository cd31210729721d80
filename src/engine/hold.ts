import { holdOf } from "../core/owed.ts";
import type { Hold, Run } from "../core/run.ts";
import type { StepOutcome } from "../ports.ts";
import type { EngineDeps } from "./deps.ts";
import { afterReport, type RunStepDeps, type StepContext } from "./step.ts";

const firstHoldMs = 500;
const longestHoldMs = 15_000;
const firstPassMs = 20;
const longestPassMs = 500;

/**
 * Parks a step whose agent, or of a known agent whose tool, no worker here knows. It is looked at again after a wait that
 * grows to 15 s, and costs no worker slot meanwhile (invariant 7). Where another worker is there that knows the agent, the
 * step is only passed on: it lies in the queue again soon, until that one gets it.
 *
 * @param tool the tool that is not known; undefined: it is the agent.
 */
export async function holdUnknown(
  deps: RunStepDeps,
  run: Run,
  context: StepContext,
  tool?: string,
): Promise<StepOutcome> {
  if (tool === undefined && (await deps.elsewhere?.(run.agent, context.step))) return passedOn(deps, context);
  const what = tool === undefined ? `the agent "${run.agent}"` : `the tool "${tool}" of agent "${run.agent}"`;
  const why: Pick<Hold, "reason" | "detail"> = {
    reason: tool === undefined ? "unknown_agent" : "unknown_tool",
    detail: `No worker here knows ${what}. Start a worker with it; the run goes on by itself.`,
  };
  const before = holdOf(run, context.step)?.count ?? 0;
  const until = deps.clock.now() + Math.min(firstHoldMs * 2 ** Math.min(before, 10), longestHoldMs);
  return (await park(deps, run, context, { hold: why, until })).outcome;
}

/** Workers that do not know the agent, and those that do but are busy, get it again and again: with growing waits. */
function passedOn({ ids }: Pick<RunStepDeps, "ids">, { delivery }: StepContext): StepOutcome {
  const waitMs = Math.min(firstPassMs * 2 ** Math.min(delivery.deliveries, 10), longestPassMs);
  return { type: "again", delayMs: waitMs * (0.5 + ids.random() / 2), why: "another worker knows its agent" };
}

/**
 * Parks a step: it owes nothing until then, and costs no worker slot meanwhile.
 *
 * @returns the run as it is parked; null if the step was not owed any more.
 */
export async function park(
  deps: Pick<EngineDeps, "advance" | "store" | "queue" | "logger">,
  run: Run,
  context: StepContext,
  { hold, until }: { hold: Omit<Hold, "count">; until: number },
): Promise<{ outcome: StepOutcome; run: Run | null }> {
  const { step } = context;
  const count = (holdOf(run, step)?.count ?? 0) + 1;
  const event = { type: "step_held" as const, step, hold: { ...hold, count }, until };
  const result = await deps.advance(run.runId, event, { head: run, pipeline: true });
  return { outcome: await afterReport(deps, result, context), run: result.change ? result.run : null };
}
