import type { StepRef } from "./event.ts";
import { type Hold, isEnded, type OpenCall, type Run } from "./run.ts";
import { owesLook } from "./session.ts";

/**
 * A step that a run needs, derived from its state alone (invariant 2).
 * - `notBefore`: epoch ms by Redis's clock; undefined is now;
 * - `priority`: as given at start; lower numbers go first.
 */
export type Step = StepRef & {
  runId: string;
  kind: "model" | "tool" | "verify" | "session" | "wake" | "notify" | "children";
  callId?: string | undefined;
  queue?: string | undefined;
  notBefore?: number | undefined;
  priority?: number | undefined;
};

/** Indexes among the steps that one revision makes owed; calls have their position. */
export const modelIndex = 0;
export const wakeIndex = 1_000_000;
export const sessionIndex = 1_000_001;
const notifyIndex = 1_000_002;
const childrenIndex = 1_000_003;

/**
 * Which steps the run needs now, each perhaps not before a time. Empty if it only waits for somebody outside or for others of its
 * session, or has ended and told everybody whom that concerns: its session, its parent, its children. A paused run owes
 * nothing but a look when time alone would change it.
 */
export function owed(run: Run): Step[] {
  if (!run.paused) return owedUnlessPaused(run);
  const steps = familySteps(run);
  addWakeStep(steps, run);
  return steps;
}

/** What the run owes, or will again once it is resumed: such a step, if it is being executed, may end. */
export function owedUnlessPaused(run: Run): Step[] {
  const { runId, priority, place, model } = run;
  const steps = familySteps(run);
  if (owesLook(place)) {
    const notBefore = beforeDeadline(run, place.notBefore);
    steps.push({ runId, priority, kind: "session", owedAt: place.owedAt, index: sessionIndex, notBefore });
  }
  if (isEnded(run)) return steps;
  if (model) {
    const kind = model.task === "verify" ? "verify" : "model";
    const notBefore = beforeDeadline(run, model.notBefore);
    steps.push({ runId, priority, kind, owedAt: model.owedAt, index: modelIndex, notBefore });
  }
  for (const call of run.calls) {
    if (call.state !== "ready" && call.state !== "started") continue;
    const notBefore = call.state === "ready" ? beforeDeadline(run, call.notBefore) : undefined;
    const { callId, queue, owedAt, position: index } = call;
    steps.push({ runId, priority, kind: "tool", owedAt, index, callId, queue, notBefore });
  }
  addWakeStep(steps, run);
  return steps;
}

function addWakeStep(steps: Step[], run: Run): void {
  const { runId, priority, wakeOwedAt } = run;
  const notBefore = dueAt(run);
  if (notBefore === undefined) return;
  steps.push({ runId, priority, kind: "wake", owedAt: wakeOwedAt, index: wakeIndex, notBefore });
}

/** What a run owes its parent and its children once it has ended. */
function familySteps({ runId, priority, parent, leftChildren }: Run): Step[] {
  const steps: Step[] = [];
  if (parent?.owedAt !== undefined) {
    steps.push({ runId, priority, kind: "notify", owedAt: parent.owedAt, index: notifyIndex });
  }
  if (leftChildren) {
    steps.push({ runId, priority, kind: "children", owedAt: leftChildren.owedAt, index: childrenIndex });
  }
  return steps;
}

/**
 * When time alone changes this run next: an approval or a question expires, a lost call's outcome is given up, a child is to be looked at, or the deadline comes
 * while nothing is owed that would notice. Undefined if never. A run waits on at most this one delayed job (invariant 5).
 */
export function dueAt(run: Run): number | undefined {
  if (isEnded(run)) return undefined;
  let due: number | undefined;
  // A step sees to the deadline itself when it is taken; in a queue of its own that may be never.
  let stepOwed = run.model !== undefined || owesLook(run.place);
  for (const call of run.calls) {
    due = earlier(due, callDueAt(call));
    if ((call.state === "ready" || call.state === "started") && call.queue === undefined) stepOwed = true;
  }
  return !stepOwed || run.paused ? earlier(due, run.deadlineAt) : due;
}

function earlier(a: number | undefined, b: number | undefined): number | undefined {
  return a === undefined || b === undefined ? (a ?? b) : Math.min(a, b);
}

function callDueAt(call: OpenCall): number | undefined {
  if (call.state === "approval" || call.state === "answer") return call.expiresAt;
  if (call.state === "lost") return call.timeoutAt;
  if (call.state === "child") return call.lookAt;
  return undefined;
}

/** A step held back past the deadline is looked at when the deadline comes. */
function beforeDeadline(run: Run, notBefore: number | undefined): number | undefined {
  if (notBefore === undefined || run.deadlineAt === undefined) return notBefore;
  return Math.min(notBefore, run.deadlineAt);
}

export function isSameStep(a: StepRef, b: StepRef): boolean {
  return a.owedAt === b.owedAt && a.index === b.index;
}

/** The step of that name, if the run owes it now. */
export function owedStep(run: Run, name: StepRef): Step | undefined {
  return owed(run).find((step) => isSameStep(step, name));
}

/** Steps of `before` that are not among those owed now, and that may still sit in a queue. */
export function noLongerOwed(before: Run, now: readonly Step[]): Step[] {
  return owed(before).filter((step) => !now.some((other) => isSameStep(step, other)));
}

/** Why a step is held, if it is. */
export function holdOf(run: Run, { callId }: Pick<Step, "callId">): Hold | undefined {
  if (callId === undefined) return run.model?.hold;
  const call = run.calls.find((other) => other.callId === callId);
  return call?.state === "ready" ? call.hold : undefined;
}
