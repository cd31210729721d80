// What events do to calls whose execution is a run of its own, and to such a run. See child.ts for what holds.

import { baseOf, type Draft, endRun, joinIfSettled, log, replaceCall, settle } from "./change.ts";
import { type CallChild, nameOfChildUsage, nextLookAt } from "./child.ts";
import type { RunEvent } from "./event.ts";
import { fitToRun } from "./fit-bytes.ts";
import { addUsage, type OpenCall, type Run } from "./run.ts";
import { named, owedCall } from "./transition-calls.ts";

type EventOf<T extends RunEvent["type"]> = Extract<RunEvent, { type: T }>;
type ChildEvent = EventOf<"child_started" | "child_ended" | "child_goes_on" | "child_lost" | "child_finished">;
type ReadyCall = Extract<OpenCall, { state: "ready" }> & { child: CallChild };

/** Applies an event about the child of a call; false if the call does not wait for that. */
export function applyToChild(draft: Draft, event: ChildEvent): boolean {
  if (event.type === "child_ended") return childEnded(draft, event);
  const call = owedCall(draft.run, event.step);
  if (call?.state !== "ready" || !call.child) return false;
  const ready = { ...call, child: call.child };
  const { since } = ready.child;
  if (event.type === "child_started") return since === undefined && childStarted(draft, ready);
  if (event.type === "child_finished") return childFinished(draft, ready, event);
  if (since === undefined) return false;
  if (event.type === "child_lost") childLost(draft, ready);
  else replaceCall(draft, waiting(ready, { ...ready.child, since }, draft.meta.at));
  return true;
}

function childStarted(draft: Draft, call: ReadyCall): true {
  const { at } = draft.meta;
  replaceCall(draft, waiting(call, { ...call.child, since: at, begunBy: call.owedAt }, at));
  logStarted(draft, call);
  return true;
}

function logStarted(draft: Draft, call: ReadyCall): void {
  const { runId: childId, agent } = call.child;
  log(draft, { type: "child_started", ...named(call), childId, agent });
}

function waiting(call: OpenCall, child: CallChild & { since: number }, at: number): OpenCall {
  return { ...baseOf(call), state: "child", child, lookAt: nextLookAt(child.since, at) };
}

/** A call that is about to look, or to start its child, does so anew: what it has seen may be from before the end. */
function childEnded(draft: Draft, { callId, childId, revision }: EventOf<"child_ended">): boolean {
  const call = draft.run.calls.find((other) => other.callId === callId);
  if (!call || !waitsFor(call, childId)) return false;
  if ((call.child.lookedFor ?? 0) >= revision) return false;
  if (call.child.since === undefined) logStarted(draft, call);
  lookAtChild(draft, call, { begunBy: call.owedAt, since: draft.meta.at, ...call.child, lookedFor: revision });
  return true;
}

function waitsFor(call: OpenCall, childId: string): call is ReadyCall {
  return call.child?.runId === childId && (call.state === "child" || call.state === "ready");
}

/** Whether a call of this run waits for that child's result. */
export function waitsForChild(run: Run, { callId, childId }: { callId: string; childId: string }): boolean {
  return run.calls.some((call) => call.callId === callId && waitsFor(call, childId));
}

/** Owes a look at the child: a step of the call, taken by a worker that knows its tool. */
export function lookAtChild(draft: Draft, call: OpenCall, child: CallChild): void {
  replaceCall(draft, { ...baseOf(call), state: "ready", child, owedAt: draft.run.revision });
}

/** What was there is gone with all that it did; the call begins anew. */
function childLost(draft: Draft, call: ReadyCall): void {
  const { since: _since, begunBy: _begunBy, lookedFor: _lookedFor, lost = 0, ...plan } = call.child;
  log(draft, { type: "child_lost", ...named(call), childId: plan.runId });
  const child = { ...plan, lost: lost + 1 };
  replaceCall(draft, { ...baseOf(call), state: "ready", child, owedAt: draft.run.revision });
}

function childFinished(draft: Draft, call: ReadyCall, event: EventOf<"child_finished">): true {
  const { run } = draft;
  const { outcome, end, usage, fails, times } = event;
  const childId = call.child.runId;
  log(draft, { type: "child_ended", ...named(call), childId, ...end, usage });
  const name = nameOfChildUsage(childId);
  if (!run.lateUsage.includes(name)) run.usage = addUsage(run.usage, usage);
  settle(draft, call, { outcome, ...fitToRun(run, event, event.maxBytes) }, times);
  if (fails) endRun(draft, { status: "failed", stopReason: "child_failed", error: fails });
  else joinIfSettled(draft);
  return true;
}

/** Whether this is the retry by its parent that comes next: sent again it is no second one. */
export function isNextRetry({ parent }: Run, { retry }: EventOf<"child_retried">): boolean {
  return parent !== undefined && (parent.retries ?? 0) === retry - 1;
}

/** Notes that parent or children were told; false if that was of another end. */
export function tellFamily({ run }: Draft, event: EventOf<"parent_told" | "children_ended">): boolean {
  const { parent, leftChildren } = run;
  if (event.type === "parent_told") {
    if (!parent || parent.owedAt !== event.owedAt) return false;
    run.parent = { ...parent, owedAt: undefined };
    return true;
  }
  if (leftChildren?.owedAt !== event.owedAt) return false;
  run.leftChildren = undefined;
  return true;
}
