// What befalls a step itself rather than its work: held back, begun alone, crashed. Split from transition.ts.

import { type Draft, endRun, log, replaceCall } from "./change.ts";
import type { RunEvent, StepRef } from "./event.ts";
import { modelIndex } from "./owed.ts";
import { byteBudgetReader, type ModelStep, type OpenCall, type Run } from "./run.ts";
import { needReader, owedCall } from "./transition-calls.ts";

type EventOf<T extends RunEvent["type"]> = Extract<RunEvent, { type: T }>;

/** The owed model step, if it is this one. */
export function owedModel(run: Run, step: StepRef): ModelStep | undefined {
  return step.index === modelIndex && run.model?.owedAt === step.owedAt ? run.model : undefined;
}

/** Ends the run that may not make another model call; false if it owes none any more. */
export function limitReached(draft: Draft, { step, reason, message }: EventOf<"limit_reached">): boolean {
  if (!owedModel(draft.run, step)) return false;
  // An older reader would take that reason for damage.
  if (reason === "byte_budget") needReader(draft.run, byteBudgetReader);
  endRun(draft, { status: "failed", stopReason: reason, error: { code: reason, message } });
  return true;
}

/** A model or tool step of the run, whichever was named. */
type Target = {
  callId: string | undefined;
  crashes: number;
  isolatedStarts: number;
  held: boolean;
  /** False for a call that was started: it may be running, so it is nobody's to owe anew. */
  movable: boolean;
  update(fields: Partial<ModelStep>): void;
};

function findTarget({ run, ...draft }: Draft, step: StepRef): Target | undefined {
  const model = owedModel(run, step);
  if (model) {
    const update = (fields: Partial<ModelStep>): void => void Object.assign(run, { model: { ...model, ...fields } });
    return { ...counts(model), callId: undefined, held: model.hold !== undefined, movable: true, update };
  }
  const call = owedCall(run, step);
  if (!call) return undefined;
  const update = (fields: Partial<ModelStep>): void =>
    replaceCall({ run, ...draft }, { ...call, ...fields } as OpenCall);
  const movable = call.state === "ready";
  return { ...counts(call), callId: call.callId, held: movable && call.hold !== undefined, movable, update };
}

function counts({ crashes = 0, isolatedStarts = 0 }: ModelStep | OpenCall): Pick<Target, "crashes" | "isolatedStarts"> {
  return { crashes, isolatedStarts };
}

type BefallingEvent = EventOf<"step_held" | "step_admitted" | "step_isolated" | "step_crashed">;

/** Applies an event about a step; false if that step is not owed any more. */
export function befallStep(draft: Draft, event: BefallingEvent): boolean {
  const target = findTarget(draft, event.step);
  if (!target) return false;
  switch (event.type) {
    case "step_held":
      return held(draft, target, event);
    case "step_admitted":
      // As with the start of a call: what would begin now knows of the pause. Once resumed it stands at its gate again.
      if (!target.held || draft.run.paused) return false;
      target.update({ hold: undefined, notBefore: undefined });
      return true;
    case "step_crashed":
      return crashed(draft, target, event);
    case "step_isolated":
      if (event.count !== target.isolatedStarts + 1) return false;
      target.update({ isolatedStarts: event.count });
      return true;
  }
}

function held(draft: Draft, target: Target, { hold, until }: EventOf<"step_held">): boolean {
  if (!target.movable) return false;
  // It reported back, so what was begun alone before does not count against it.
  target.update({ owedAt: draft.run.revision, notBefore: until, hold, isolatedStarts: undefined });
  // Told less and less often: what a run holds does not grow with the time it waits.
  if (Number.isInteger(Math.log2(hold.count))) {
    const { reason, detail, count } = hold;
    log(draft, { type: "step_held", callId: target.callId, reason, detail, count, until });
  }
  return true;
}

function crashed(draft: Draft, target: Target, event: EventOf<"step_crashed">): boolean {
  const { error, poison, nextAt, count } = event;
  if (!poison && count !== target.crashes + 1) return false;
  log(draft, { type: "step_crashed", callId: target.callId, error, nextAt });
  if (poison || nextAt === null) endRun(draft, { status: "failed", stopReason: "poison", error });
  else target.update({ crashes: count, ...(target.movable ? { owedAt: draft.run.revision, notBefore: nextAt } : {}) });
  return true;
}
