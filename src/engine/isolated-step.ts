import { modelIndex, type Step } from "../core/owed.ts";
import type { OpenCall, Run } from "../core/run.ts";
import type { Delivery, StepOutcome } from "../ports.ts";
import type { AdvanceResult } from "./advance.ts";
import { ofRun } from "./log-fields.ts";
import {
  abortAtDeadline,
  afterAbort,
  afterReport,
  again,
  endDelivery,
  type RunStepDeps,
  type StepContext,
  soon,
} from "./step.ts";

/** A step that lost this many workers runs alone in a child process (invariant 8). */
const defaultIsolateAfter = 3;
/**
 * Begun alone this often without an outcome, it is poison even if nobody saw its child die. Higher than the other: a child
 * whose worker is killed or stopped from outside has reported nothing either. A program that never comes to its step counts,
 * too, but not one that was still starting when its worker died: on a busy machine that takes as long as workers live that are
 * killed often, and befell an innocent step twelve times in a row.
 */
const isolatedStartsAllowed = 12;
/** A child that nothing reaches for so long, beside the time that its tool or check may take, is ended: not even its timeouts end it. */
const keptThreadMs = 60_000;
/**
 * `lane`: of this process, for steps that run alone: one at a time. Each is a program to start; where workers are killed
 * faster than many programs start at once, none would ever be done.
 */
export type LaneDeps = RunStepDeps & { lane: { taken: boolean } };

export function mustRunAlone(
  { isolate, isolateAfter = defaultIsolateAfter }: RunStepDeps,
  { lostWorkers }: Delivery,
): boolean {
  return isolate !== undefined && lostWorkers >= isolateAfter;
}

/**
 * One step alone at a time; another comes again soon, here or at another worker: it waits for seconds, however often it was
 * delivered before.
 */
export async function inLane(deps: LaneDeps, run: Run, context: StepContext): Promise<StepOutcome> {
  const { lane } = deps;
  if (lane.taken) return soon(again(context.delivery, "another step runs alone here"));
  lane.taken = true;
  try {
    return await isolated(deps, run, context);
  } finally {
    lane.taken = false;
  }
}

/** Has a step begun alone. Its child commits that it begins and what it does; here only its death is seen. */
async function isolated(deps: RunStepDeps, run: Run, context: StepContext): Promise<StepOutcome> {
  const { step, delivery, active } = context;
  const starts = isolatedStarts(run, step);
  if (starts >= isolatedStartsAllowed) {
    return poisoned(deps, run, context, `it was begun alone ${starts} times and never reported back`);
  }
  deps.logger.warn(
    { ...ofRun(run), step: step.kind, lostWorkers: delivery.lostWorkers },
    "step runs alone: it lost its worker too often",
  );
  const stopTimer = abortAtDeadline(deps, run, active);
  const silentMs = keptThreadMs + ownMs(deps, run, step);
  const result = await deps.isolate?.(delivery, { silentMs, unwanted: active.signal }).finally(stopTimer);
  if (active.aborted() === "deadline") return afterAbort(deps, run, context);
  if (result?.died) return poisoned(deps, run, context, `it ended the process it ran in (${result.how})`);
  if (result?.neverBegan) await noteIsolatedStart(deps, run, step);
  // The child was stopped with its worker, or put the step off: only the record tells.
  return endDelivery(deps, await deps.store.load(run.runId), context);
}

function isolatedStarts(run: Run, step: Step): number {
  return (step.index === modelIndex ? run.model : callOf(run, step))?.isolatedStarts ?? 0;
}

/** Commits that a step begins alone. */
export function noteIsolatedStart({ advance }: RunStepDeps, run: Run, step: Step): Promise<AdvanceResult> {
  return advance(run.runId, { type: "step_isolated", step, count: isolatedStarts(run, step) + 1 }, { head: run });
}

function callOf(run: Run, { callId }: Step): OpenCall | undefined {
  return run.calls.find((call) => call.callId === callId);
}

/** What a tool or a check may take by itself. */
function ownMs({ agents }: RunStepDeps, run: Run, step: Step): number {
  if (step.kind === "verify") return agents.get(run.agent)?.answers.verifyTimeoutMs ?? 0;
  return callOf(run, step)?.timeoutMs ?? 0;
}

const culprits: { [kind in Step["kind"]]?: string } = { model: "A model step", verify: "The agent's check" };

async function poisoned(deps: RunStepDeps, run: Run, context: StepContext, how: string): Promise<StepOutcome> {
  const { step } = context;
  const what = culprits[step.kind] ?? `The tool of ${step.callId}`;
  const error = { code: "poison", message: `${what} was stopped: ${how}. Fix its cause, then retry the run.` };
  const event = { type: "step_crashed" as const, step, count: 1, error, poison: true, nextAt: null };
  return afterReport(deps, await deps.advance(run.runId, event), context);
}
