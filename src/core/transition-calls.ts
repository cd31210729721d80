// What events do to the calls a run waits for. Split from transition.ts, whose invariants hold here too.

import { baseOf, type Draft, joinIfSettled, log, replaceCall, settle } from "./change.ts";
import { childIdOf } from "./child.ts";
import type { CallPlan, PlannedCall, RunEvent, StepRef, StepTimes } from "./event.ts";
import { fitToRun } from "./fit-bytes.ts";
import { answerReader, type CallBase, familyReader, type OpenCall, type Run, schemaVersion } from "./run.ts";

type EventOf<T extends RunEvent["type"]> = Extract<RunEvent, { type: T }>;
type CallEvent = EventOf<"tool_started" | "tool_finished" | "tool_failed" | "tool_lost" | "tool_unknown">;

/** The open call whose tool step this is: owed, running, or lost while its result may still come. */
export function owedCall(run: Run, step: StepRef): OpenCall | undefined {
  const call = run.calls.find((other) => other.position === step.index && other.owedAt === step.owedAt);
  return call && call.state !== "settled" ? call : undefined;
}

/** Opens the calls of a turn. Those that cannot be executed are settled at once, for the model to read. */
export function openCalls(draft: Draft, planned: PlannedCall[]): void {
  const { run } = draft;
  run.calls = planned.map((one, index) => openCall(draft, one, index + 1));
  if (run.calls.some(({ child }) => child)) needReader(run, familyReader);
  planned.forEach(({ plan }, index) => {
    const call = run.calls[index] as OpenCall;
    if (plan.type === "ask") {
      logAsked(draft, call, "policy");
      return;
    }
    if (plan.policy) log(draft, { type: "policy_applied", ...named(call), policy: plan.policy });
    if (plan.type === "settle") settlePlanned(draft, call, plan);
    if (call.state === "answer") askOutside(draft, call);
  });
  joinIfSettled(draft);
}

/** What holds for a call that no worker executes. */
const notExecuted = { effect: "read", repeatable: true, onUnknown: "tell", timeoutMs: 0 } as const;

function openCall({ run, meta }: Draft, { call, plan }: PlannedCall, position: number): OpenCall {
  const { effect, repeatable, onUnknown, timeoutMs } = "effect" in plan ? plan : notExecuted;
  const base: CallBase = {
    callId: call.callId,
    toolCallId: call.id,
    turn: run.turns,
    position,
    tool: call.name,
    ...{ effect, repeatable, onUnknown, timeoutMs },
    ...("queue" in plan && plan.queue ? { queue: plan.queue } : {}),
    ...("question" in plan && plan.question ? { question: plan.question } : {}),
    ...("child" in plan && plan.child ? { child: { ...plan.child, runId: childIdOf(run, call.callId) } } : {}),
    attempt: 1,
    owedAt: run.revision,
  };
  const askedAt = meta.at;
  if (plan.type === "answer") {
    const { from, expiresMs, answerSchema } = plan;
    const fit = answerSchema ? { answerSchema } : {};
    return { ...base, state: "answer", from, askedAt, ...expiryOf(askedAt, expiresMs), ...fit };
  }
  if (plan.type === "ask") return { ...base, state: "approval", askedAt, ...expiryOf(askedAt, plan.approvalExpiresMs) };
  return { ...base, state: "ready" };
}

function expiryOf(askedAt: number, expiresMs: number | undefined): { expiresAt?: number } {
  return expiresMs === undefined ? {} : { expiresAt: askedAt + expiresMs };
}

/** From here on a reader older than this one must leave the run alone. */
export function needReader(run: Run, reader: number): void {
  run.minReader = Math.max(run.minReader, reader);
  run.schemaVersion = Math.max(run.schemaVersion, schemaVersion);
}

function askOutside(draft: Draft, call: Extract<OpenCall, { state: "answer" }>): void {
  const { run } = draft;
  needReader(run, answerReader);
  const { from, expiresAt } = call;
  log(draft, { type: "answer_asked", ...named(call), from, ...(expiresAt === undefined ? {} : { expiresAt }) });
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

export function hashOf({ question }: OpenCall): { argumentsHash?: string } {
  return question ? { argumentsHash: question.argumentsHash } : {};
}

export function named(call: OpenCall): { callId: string; tool: string } {
  return { callId: call.callId, tool: call.tool };
}

/** Applies an event about one call; false if it does not apply. */
export function applyToCall(draft: Draft, event: CallEvent): boolean {
  switch (event.type) {
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
  // A worker that read the run before it was paused has not begun the call yet: that is what this commit would do.
  if (call?.state !== "ready" || draft.run.paused) return false;
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
export function takesOutcome(call: OpenCall, startToken: string | undefined): boolean {
  if (call.state === "ready") return startToken === undefined;
  if (call.state === "started" || call.state === "lost") return startToken === call.startToken;
  return false;
}

function ran(draft: Draft, event: EventOf<"tool_finished" | "tool_failed" | "tool_unknown">): boolean {
  const call = owedCall(draft.run, event.step);
  if (!call || !takesOutcome(call, event.startToken)) return false;
  if (event.type === "tool_finished") {
    settle(draft, call, { outcome: event.outcome, ...fitToRun(draft.run, event, event.maxBytes) }, event.times);
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
export function makeReady(draft: Draft, call: OpenCall, notBefore?: number): void {
  replaceCall(draft, {
    ...baseOf(call),
    ...(notBefore === undefined ? {} : { notBefore }),
    attempt: call.attempt + 1,
    owedAt: draft.run.revision,
    state: "ready",
  });
}

/** An outcome nobody knows: told to the model, or put to a person (invariant 4). Never started again by itself. */
export function unknown(draft: Draft, call: OpenCall, message: string, times?: StepTimes): void {
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
export function unknownText(tool: string, message: string): string {
  return (
    `Outcome unknown: "${tool}" was started but did not report back (${message}). ` +
    "It may or may not have taken effect and was not run again. Check before you repeat it."
  );
}
