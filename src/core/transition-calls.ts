// What events do to the calls a run waits for. Split from transition.ts, whose invariants hold here too.

import { baseOf, type Draft, endRun, joinIfSettled, log, replaceCall, settle } from "./change.ts";
import type { CallPlan, PlannedCall, RunEvent, StepRef, StepTimes } from "./event.ts";
import type { CallBase, OpenCall, Run } from "./run.ts";

type EventOf<T extends RunEvent["type"]> = Extract<RunEvent, { type: T }>;
type CallEvent = EventOf<
  "tool_started" | "tool_finished" | "tool_failed" | "tool_lost" | "tool_unknown" | "approved" | "denied"
>;

/** The open call whose tool step this is: owed, running, or lost while its result may still come. */
export function owedCall(run: Run, step: StepRef): OpenCall | undefined {
  const call = run.calls.find((other) => other.position === step.index && other.owedAt === step.owedAt);
  return call && call.state !== "settled" ? call : undefined;
}

/** Opens the calls of a turn. Those that cannot be executed are settled at once, for the model to read. */
export function openCalls(draft: Draft, planned: PlannedCall[]): void {
  const { run, meta } = draft;
  run.calls = planned.map(({ call, plan }, index) => {
    const runs = plan.type !== "settle";
    const base: CallBase = {
      callId: call.callId,
      toolCallId: call.id,
      turn: run.turns,
      position: index + 1,
      tool: call.name,
      effect: runs ? plan.effect : "read",
      repeatable: runs ? plan.repeatable : true,
      onUnknown: runs ? plan.onUnknown : "tell",
      timeoutMs: runs ? plan.timeoutMs : 0,
      ...(runs && plan.queue ? { queue: plan.queue } : {}),
      ...(runs && plan.question ? { question: plan.question } : {}),
      attempt: 1,
      owedAt: run.revision,
    };
    if (plan.type !== "ask") return { ...base, state: "ready" };
    const expiresAt = plan.approvalExpiresMs === undefined ? undefined : meta.at + plan.approvalExpiresMs;
    return { ...base, state: "approval", askedAt: meta.at, ...(expiresAt === undefined ? {} : { expiresAt }) };
  });
  planned.forEach(({ plan }, index) => {
    const call = run.calls[index] as OpenCall;
    if (plan.type === "ask") {
      logAsked(draft, call, "policy");
      return;
    }
    if (plan.policy) log(draft, { type: "policy_applied", ...named(call), policy: plan.policy });
    if (plan.type === "settle") settlePlanned(draft, call, plan);
  });
  joinIfSettled(draft);
}

function settlePlanned(draft: Draft, call: OpenCall, plan: Extract<CallPlan, { type: "settle" }>): void {
  const { content, outcome = "failed", described } = plan;
  if (described !== undefined) log(draft, { type: "tool_described", ...named(call) });
  settle(draft, call, { content, outcome, ...(described === undefined ? {} : { described }) });
}

function logAsked(draft: Draft, call: OpenCall, why: "policy" | "unknown_outcome"): void {
  const { question } = call;
  log(draft, {
    type: "approval_asked",
    ...named(call),
    why,
    ...hashOf(call),
    ...(why === "policy" && question ? { reason: question.reason } : {}),
    ...(call.state === "approval" && call.expiresAt !== undefined ? { expiresAt: call.expiresAt } : {}),
  });
}

function hashOf({ question }: OpenCall): { argumentsHash?: string } {
  return question ? { argumentsHash: question.argumentsHash } : {};
}

function named(call: OpenCall): { callId: string; tool: string } {
  return { callId: call.callId, tool: call.tool };
}

/** Applies an event about one call; false if it does not apply. */
export function applyToCall(draft: Draft, event: CallEvent): boolean {
  switch (event.type) {
    case "approved":
    case "denied":
      return decided(draft, event);
    case "tool_started":
      return started(draft, event);
    case "tool_lost":
      return lost(draft, event);
    case "tool_finished":
    case "tool_failed":
    case "tool_unknown":
      return ran(draft, event);
  }
}

function started(draft: Draft, event: EventOf<"tool_started">): boolean {
  const call = owedCall(draft.run, event.step);
  if (call?.state !== "ready") return false;
  const { startToken, timeoutAt } = event;
  const { notBefore: _notBefore, hold: _hold, ...base } = call;
  replaceCall(draft, { ...base, state: "started", startToken, timeoutAt });
  log(draft, { type: "tool_started", ...named(call), attempt: call.attempt });
  return true;
}

/** The step was delivered again while another start is recorded: that worker is gone, or no longer holds it. */
function lost(draft: Draft, event: EventOf<"tool_lost">): boolean {
  const call = owedCall(draft.run, event.step);
  if (call?.state !== "started") return false;
  replaceCall(draft, { ...call, state: "lost" });
  log(draft, { type: "tool_lost", ...named(call), attempt: call.attempt, until: call.timeoutAt });
  return true;
}

/** Whether an outcome may still be taken: from the owed step, or from the holder of the start's token. */
function takes(call: OpenCall, startToken: string | undefined): boolean {
  if (call.state === "ready") return startToken === undefined;
  if (call.state === "started" || call.state === "lost") return startToken === call.startToken;
  return false;
}

function ran(draft: Draft, event: EventOf<"tool_finished" | "tool_failed" | "tool_unknown">): boolean {
  const call = owedCall(draft.run, event.step);
  if (!call || !takes(call, event.startToken)) return false;
  if (event.type === "tool_finished") {
    const { content, outcome, full } = event;
    settle(draft, call, { content, outcome, ...(full ? { full } : {}) }, event.times);
    joinIfSettled(draft);
  } else if (event.type === "tool_failed") {
    const { error, nextAt, times } = event;
    log(draft, { type: "tool_failed", ...named(call), attempt: call.attempt, error, nextAt, ...times });
    makeReady(draft, call, nextAt);
  } else {
    unknown(draft, call, event.error.message, event.times);
  }
  return true;
}

/** Owes the next attempt of a call. */
function makeReady(draft: Draft, call: OpenCall, notBefore?: number): void {
  replaceCall(draft, {
    ...baseOf(call),
    ...(notBefore === undefined ? {} : { notBefore }),
    attempt: call.attempt + 1,
    owedAt: draft.run.revision,
    state: "ready",
  });
}

/** An outcome nobody knows: told to the model, or put to a person (invariant 4). Never started again by itself. */
function unknown(draft: Draft, call: OpenCall, message: string, times?: StepTimes): void {
  if (call.onUnknown === "ask") {
    const { revision } = draft.run;
    const asking: OpenCall = { ...baseOf(call), owedAt: revision, state: "asking", askedAt: draft.meta.at };
    replaceCall(draft, asking);
    logAsked(draft, asking, "unknown_outcome");
    return;
  }
  settle(draft, call, { content: unknownText(call.tool, message), outcome: "unknown" }, times);
  joinIfSettled(draft);
}

/** What the model reads of a call whose outcome is unknown. */
function unknownText(tool: string, message: string): string {
  return (
    `Outcome unknown: "${tool}" was started but did not report back (${message}). ` +
    "It may or may not have taken effect and was not run again. Check before you repeat it."
  );
}

function decided(draft: Draft, event: EventOf<"approved" | "denied">): boolean {
  const call = draft.run.calls.find((other) => other.callId === event.callId);
  if (!call || !isDecidable(call, draft.meta.at)) return false;
  const { by, decisionId: id } = event;
  // Sent again, it must not pass for an answer to the question that came after.
  if (id !== undefined && id === call.decision?.id) return false;
  const decision = { type: event.type, by, at: draft.meta.at, ...(id === undefined ? {} : { id }) };
  if (event.type === "approved") {
    if (event.argumentsHash !== undefined && event.argumentsHash !== call.question?.argumentsHash) return false;
    log(draft, { type: "approved", ...named(call), by, ...hashOf(call) });
    makeReady(draft, { ...call, decision, attempt: call.state === "approval" ? call.attempt - 1 : call.attempt });
    return true;
  }
  log(draft, { type: "denied", ...named(call), by, reason: event.reason, ...hashOf(call) });
  settle(draft, { ...call, decision }, refusalOf(call, event));
  joinIfSettled(draft);
  return true;
}

/** What a call is settled with that a person refused. */
function refusalOf(
  { state, tool }: OpenCall,
  { by, reason }: EventOf<"denied">,
): { content: string; outcome: "denied" | "unknown" } {
  if (state === "approval") return { content: deniedText(by, reason), outcome: "denied" };
  return { content: unknownText(tool, `${by} decided not to run it again: ${reason}`), outcome: "unknown" };
}

/** Whether a person may decide on the call at this time: an approval that expired is over, noticed or not. */
function isDecidable(call: OpenCall, at: number): boolean {
  return call.state === "asking" || (call.state === "approval" && !isExpired(call, at));
}

function isExpired(call: Extract<OpenCall, { state: "approval" }>, at: number): boolean {
  return call.expiresAt !== undefined && call.expiresAt <= at;
}

/** What the model reads of a call that a person refused. */
function deniedText(by: string, reason: string): string {
  const said = reason.trim() === "" ? "no reason given" : reason.trim();
  const end = /[.!?\u2026]$/.test(said) ? "" : ".";
  return (
    `Denied by ${by}: ${said}${end} The call was not executed. Do not call it again with the same arguments; ` +
    "go on without it, try something that the reason allows, or say in your answer what was not done."
  );
}

/** What the model reads of a call that nobody decided on. */
function expiredText({ askedAt, expiresAt = askedAt }: Extract<OpenCall, { state: "approval" }>): string {
  return (
    `Not executed: nobody approved this call within ${(expiresAt - askedAt) / 1_000} s, which counts as a denial. ` +
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
    } else if (call.state === "approval" && isExpired(call, meta.at)) {
      log(draft, { type: "approval_expired", ...named(call), ...hashOf(call) });
      settle(draft, call, { content: expiredText(call), outcome: "denied" });
      joinIfSettled(draft);
      changed = true;
    }
  }
  return changed;
}
