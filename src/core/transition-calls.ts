// What events do to the calls a run waits for. Split from transition.ts, whose invariants hold here too.

import { baseOf, type Draft, endRun, joinIfSettled, log, replaceCall, settle } from "./change.ts";
import type { PlannedCall, RunEvent, StepRef } from "./event.ts";
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
      attempt: 1,
      owedAt: run.revision,
    };
    if (plan.type !== "ask") return { ...base, state: "ready" };
    const expiresAt = plan.approvalExpiresMs === undefined ? undefined : meta.at + plan.approvalExpiresMs;
    return { ...base, state: "approval", askedAt: meta.at, ...(expiresAt === undefined ? {} : { expiresAt }) };
  });
  planned.forEach(({ plan }, index) => {
    const call = run.calls[index] as OpenCall;
    if (plan.type === "settle") settle(draft, call, { content: plan.content, outcome: plan.outcome ?? "failed" });
    else if (plan.type === "ask") log(draft, { type: "approval_asked", ...named(call), why: "policy" });
  });
  joinIfSettled(draft);
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
    settle(draft, call, { content: event.content, outcome: event.outcome });
    joinIfSettled(draft);
  } else if (event.type === "tool_failed") {
    const { error, nextAt } = event;
    log(draft, { type: "tool_failed", ...named(call), attempt: call.attempt, error, nextAt });
    makeReady(draft, call, nextAt);
  } else {
    unknown(draft, call, event.error.message);
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
function unknown(draft: Draft, call: OpenCall, message: string): void {
  if (call.onUnknown === "ask") {
    const { revision } = draft.run;
    replaceCall(draft, { ...baseOf(call), owedAt: revision, state: "asking", askedAt: draft.meta.at });
    log(draft, { type: "approval_asked", ...named(call), why: "unknown_outcome" });
    return;
  }
  settle(draft, call, { content: unknownText(call.tool, message), outcome: "unknown" });
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
  if (call?.state !== "approval" && call?.state !== "asking") return false;
  if (event.type === "approved") {
    log(draft, { type: "approved", ...named(call), by: event.by });
    makeReady(draft, call.state === "approval" ? { ...call, attempt: call.attempt - 1 } : call);
    return true;
  }
  const { by, reason } = event;
  log(draft, { type: "denied", ...named(call), by, reason });
  const told =
    call.state === "approval"
      ? { content: `Not executed: ${by} denied this call. Reason: ${reason}`, outcome: "denied" as const }
      : {
          content: unknownText(call.tool, `${by} decided not to run it again: ${reason}`),
          outcome: "unknown" as const,
        };
  settle(draft, call, told);
  joinIfSettled(draft);
  return true;
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
    } else if (call.state === "approval" && call.expiresAt !== undefined && call.expiresAt <= meta.at) {
      settle(draft, call, { content: "Not executed: nobody approved this call in time.", outcome: "denied" });
      joinIfSettled(draft);
      changed = true;
    }
  }
  return changed;
}
