// What people, callers and time say about open calls: approvals, answers, and that they were not given. Split from
// transition.ts, whose invariants hold here too.

import { canonical } from "./canonical.ts";
import { type Draft, endRun, hasRoom, joinIfSettled, log, settle } from "./change.ts";
import type { RunEvent } from "./event.ts";
import type { OpenCall } from "./run.ts";
import { hashOf, makeReady, named, unknown, unknownText } from "./transition-calls.ts";
import { lookAtChild } from "./transition-children.ts";

type EventOf<T extends RunEvent["type"]> = Extract<RunEvent, { type: T }>;
type WaitingCall = Extract<OpenCall, { state: "approval" | "asking" | "answer" }>;

/** Applies somebody's word on a call; false if the call does not wait for it. */
export function decide(draft: Draft, event: EventOf<"approved" | "denied" | "answered">): boolean {
  const call = draft.run.calls.find((other) => other.callId === event.callId);
  if (!call || !isWaiting(call, draft.meta.at)) return false;
  const { by, decisionId: id } = event;
  // Sent again, it must not pass for an answer to a question that came after.
  if (isNamedBefore(call, event)) return false;
  const said = { by, at: draft.meta.at, ...(id === undefined ? {} : { id }) };
  switch (event.type) {
    case "approved":
      return approved(draft, call, event, { type: event.type, ...said });
    case "denied":
      log(draft, { type: "denied", ...named(call), by, reason: event.reason, ...hashOf(call) });
      settle(draft, { ...call, decision: { type: event.type, ...said } }, refusalOf(call, event));
      joinIfSettled(draft);
      return true;
    case "answered":
      if (call.state !== "answer" || !isCheckedFor(call, event)) return false;
      if (!hasRoom(draft.run, [{ role: "user", content: event.content }], event.maxBytes)) return false;
      log(draft, { type: "answered", ...named(call), by });
      settle(draft, call, { content: event.content, outcome: "ok", answered: said });
      joinIfSettled(draft);
      return true;
  }
}

function approved(
  draft: Draft,
  call: WaitingCall,
  event: EventOf<"approved">,
  decision: OpenCall["decision"],
): boolean {
  if (call.state === "answer") return false;
  if (event.argumentsHash !== undefined && event.argumentsHash !== call.question?.argumentsHash) return false;
  log(draft, { type: "approved", ...named(call), by: event.by, ...hashOf(call) });
  const past = call.decision?.id;
  const approvalIds = past === undefined ? call.approvalIds : [...(call.approvalIds ?? []), past];
  makeReady(draft, {
    ...call,
    approvalIds,
    decision,
    attempt: call.state === "approval" ? call.attempt - 1 : call.attempt,
  });
  return true;
}

/** Whether a call waits for somebody's word at this time: one that expired is over, noticed or not. */
function isWaiting(call: OpenCall, at: number): call is WaitingCall {
  return call.state === "asking" || ((call.state === "approval" || call.state === "answer") && !isExpired(call, at));
}

/** Whether a decision on this call had that id before. */
export function isNamedBefore(
  { decision, approvalIds = [] }: OpenCall,
  event: { decisionId?: string | undefined },
): boolean {
  const { decisionId: id } = event;
  return id !== undefined && (id === decision?.id || approvalIds.includes(id));
}

/** Whether an answer was checked by what the call asks for: it may have been made with an older record in view. */
export function isCheckedFor(
  { answerSchema }: Extract<OpenCall, { state: "answer" }>,
  { checkedBy = {} }: Pick<EventOf<"answered">, "checkedBy">,
): boolean {
  return answerSchema === undefined || canonical(answerSchema) === canonical(checkedBy);
}

type Expiring = Extract<OpenCall, { state: "approval" | "answer" }>;

function isExpired(call: Expiring, at: number): boolean {
  return call.expiresAt !== undefined && call.expiresAt <= at;
}

/** What a call is settled with that somebody refused. */
function refusalOf(
  call: WaitingCall,
  { by, reason }: EventOf<"denied">,
): { content: string; outcome: "denied" | "unknown" } {
  if (call.state === "asking") {
    return { content: unknownText(call.tool, `${by} decided not to run it again: ${reason}`), outcome: "unknown" };
  }
  const isQuestion = call.state === "answer" && call.from === "person";
  return { content: isQuestion ? declinedText(by, reason) : deniedText(by, reason), outcome: "denied" };
}

/** What the model reads of a call that a person refused. */
function deniedText(by: string, reason: string): string {
  return (
    `Denied by ${by}: ${sentence(reason)} The call was not executed. Do not call it again with the same arguments; ` +
    "go on without it, try something that the reason allows, or say in your answer what was not done."
  );
}

/** What the model reads of a question that a person would not answer. */
function declinedText(by: string, reason: string): string {
  return (
    `${by} declined to answer: ${sentence(reason)} Do not ask the same again; ` +
    "go on without the answer, or say in your own what is missing."
  );
}

function sentence(reason: string): string {
  const said = reason.trim() === "" ? "no reason given" : reason.trim();
  return /[.!?\u2026]$/.test(said) ? said : `${said}.`;
}

/** What the model reads of a call about which nobody said anything in time. */
function expiredText(call: Expiring): string {
  const { askedAt, expiresAt = askedAt } = call;
  const within = `within ${(expiresAt - askedAt) / 1_000} s`;
  if (call.state === "answer" && call.from === "person") {
    return `Nobody answered ${within}. Do not ask the same again; go on without the answer, or say in your own what is missing.`;
  }
  const nobody =
    call.state === "answer" ? `its caller gave no result ${within}` : `nobody approved this call ${within}`;
  return (
    `Not executed: ${nobody}, which counts as a denial. ` +
    "Do not call it again with the same arguments; go on without it, or say in your answer what was not done."
  );
}

/** Does whatever has fallen due by `meta.at`; false if nothing has. */
export function timeCame(draft: Draft): boolean {
  const { run, meta } = draft;
  if (run.deadlineAt !== undefined && run.deadlineAt <= meta.at) {
    const message = "The run's deadline passed. Retry it with a longer one.";
    endRun(draft, { status: "failed", stopReason: "deadline", error: { code: "deadline", message } });
    return true;
  }
  let changed = false;
  for (const call of run.calls) {
    if (call.state === "lost" && call.timeoutAt <= meta.at) {
      unknown(draft, call, "its worker was lost");
      changed = true;
    } else if ((call.state === "approval" || call.state === "answer") && isExpired(call, meta.at)) {
      expire(draft, call);
      changed = true;
    } else if (call.state === "child" && call.lookAt <= meta.at) {
      lookAtChild(draft, call, call.child);
      changed = true;
    }
  }
  return changed;
}

function expire(draft: Draft, call: Expiring): void {
  if (call.state === "answer") log(draft, { type: "answer_expired", ...named(call), from: call.from });
  else log(draft, { type: "approval_expired", ...named(call), ...hashOf(call) });
  settle(draft, call, { content: expiredText(call), outcome: "denied" });
  joinIfSettled(draft);
}
