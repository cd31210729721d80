// The one decision about what an event does to a run. Pure: state and event in, change out.
//
// T1. An event that does not apply any more returns null: its step is not owed, its call is settled, the run ended.
//     So applying any event twice equals applying it once (invariant 1).
// T2. A change raises the revision by exactly one and carries the token it was given.
// T3. Every call of the assistant gets one result, appended in call order before the next model step (invariant 3).
// T4. An ended run changes only by late usage, by telling its session, its parent and its children, and, if it failed, by
//     being retried (invariant 9).
// T5. A started call that is not repeatable becomes ready again only by a person's word (invariant 4).

import { messageBytes } from "./bytes.ts";
import { append, type Change, type Draft, endRun, finish, hasRoom, hold, log, makeDraft, oweModel } from "./change.ts";
import type { RunParent } from "./child.ts";
import type { EventMeta, RunEvent } from "./event.ts";
import { deadlineAtBegin } from "./limits.ts";
import type { Message } from "./message.ts";
import { addUsage, isEnded, type Run } from "./run.ts";
import { afterAnswer, checkAnswer } from "./transition-answers.ts";
import * as calls from "./transition-calls.ts";
import { applyToChild, isNextRetry, tellFamily } from "./transition-children.ts";
import { decide, timeCame } from "./transition-decisions.ts";
import { pauseOrResume } from "./transition-pause.ts";
import { joinSession, moveInSession } from "./transition-session.ts";
import { befallStep, limitReached, owedModel } from "./transition-steps.ts";
import { shapeWindow, taskOf } from "./transition-window.ts";

export type { Change } from "./change.ts";

type EventOf<T extends RunEvent["type"]> = Extract<RunEvent, { type: T }>;

/**
 * What `event` does to `run`.
 *
 * @returns the change to commit, or null if the event does not apply and nothing is to be written.
 */
export function transition(run: Run, event: RunEvent, meta: EventMeta): Change | null {
  if (run.status === "rejected") return null;
  const draft = makeDraft(run, meta);
  const applied = isAnytime(event) ? applyAnytime(draft, event) : !isEnded(run) && apply(draft, event);
  return applied ? finish(draft) : null;
}

const anytime = [
  "usage_reported",
  "retry_requested",
  "child_retried",
  "session_passed",
  "parent_told",
  "children_ended",
] as const;
type AnytimeEvent = EventOf<(typeof anytime)[number]>;
type LiveEvent = Exclude<RunEvent, AnytimeEvent>;

function isAnytime(event: RunEvent): event is AnytimeEvent {
  return (anytime as readonly string[]).includes(event.type);
}

/** Applies an event that may also concern an ended run. */
function applyAnytime(draft: Draft, event: AnytimeEvent): boolean {
  switch (event.type) {
    case "usage_reported":
      return usageReported(draft, event);
    case "retry_requested":
      return retryRequested(draft, event);
    case "child_retried":
      return isNextRetry(draft.run, event) && retriedByParent(draft, event);
    case "session_passed":
      return moveInSession(draft, event);
    case "parent_told":
    case "children_ended":
      return tellFamily(draft, event);
  }
}

/** Applies an event to a live run; false if it does not apply. */
function apply(draft: Draft, event: LiveEvent): boolean {
  switch (event.type) {
    case "run_began":
      return runBegan(draft, event);
    case "model_answered":
      return modelAnswered(draft, event);
    case "model_failed":
      return modelFailed(draft, event);
    case "summary_wanted":
    case "summarised":
    case "summary_taken":
    case "window_shrunk":
      return shapeWindow(draft, event);
    case "answer_verified":
    case "answer_refused":
    case "verify_failed":
      return checkAnswer(draft, event);
    case "pause_requested":
    case "resume_requested":
      return pauseOrResume(draft, event);
    case "step_held":
    case "step_admitted":
    case "step_isolated":
    case "step_crashed":
      return befallStep(draft, event);
    case "limit_reached":
      return limitReached(draft, event);
    case "time_came":
      return timeCame(draft);
    case "input_received":
      return inputReceived(draft, event);
    case "session_joined":
    case "session_queued":
    case "session_entered":
    case "session_refused":
      return moveInSession(draft, event);
    case "cancel_requested":
      endRun(draft, {
        status: "cancelled",
        stopReason: "cancelled",
        error: { code: "cancelled", message: event.reason },
        by: event.by,
      });
      return true;
    default:
      return applyToOpenCall(draft, event);
  }
}

type OpenCallEvent = EventOf<
  | Parameters<typeof calls.applyToCall>[1]["type"]
  | Parameters<typeof decide>[1]["type"]
  | Parameters<typeof applyToChild>[1]["type"]
>;

/** Applies an event about one open call; false if it does not apply. */
function applyToOpenCall(draft: Draft, event: OpenCallEvent): boolean {
  switch (event.type) {
    case "tool_started":
    case "tool_finished":
    case "tool_failed":
    case "tool_lost":
    case "tool_unknown":
      return calls.applyToCall(draft, event);
    case "approved":
    case "denied":
    case "answered":
      return decide(draft, event);
    case "child_started":
    case "child_ended":
    case "child_goes_on":
    case "child_lost":
    case "child_finished":
      return applyToChild(draft, event);
  }
}

function runBegan(draft: Draft, event: EventOf<"run_began">): boolean {
  const { run, meta } = draft;
  if (run.startedAt !== undefined) return false;
  run.startedAt = meta.at;
  if (run.model) run.model = { ...run.model, hold: undefined };
  run.agentHash = event.agentHash;
  Object.assign(run, deadlineAtBegin(run, event.deadlineMs));
  log(draft, { type: "run_began", agentHash: event.agentHash });
  return true;
}

function modelAnswered(draft: Draft, event: EventOf<"model_answered">): boolean {
  const { run } = draft;
  const step = owedModel(run, event.step);
  if (!step || step.task !== undefined) return false;
  const toolCalls = event.calls.map(({ call }) => call);
  run.turns += 1;
  run.usage = addUsage(run.usage, event.usage);
  run.agentHash = event.manifest.agentHash;
  run.model = undefined;
  run.structured = event.structured;
  const index = append(draft, { ...event.message, ...(toolCalls.length > 0 ? { toolCalls } : {}) });
  log(draft, {
    type: "model_answered",
    attempt: step.attempt,
    execution: event.execution,
    message: index,
    calls: toolCalls.map((call) => call.callId),
    usage: event.usage,
    finishReason: event.finishReason,
    manifest: event.manifest,
    ...event.times,
  });
  if (toolCalls.length > 0) calls.openCalls(draft, event.calls);
  else afterAnswer(draft, event.next ?? { type: "complete" });
  return true;
}

function modelFailed(draft: Draft, event: EventOf<"model_failed">): boolean {
  const { run } = draft;
  const step = owedModel(run, event.step);
  if (!step || step.task === "verify") return false;
  const { execution, error, nextAt } = event;
  const refused = (step.refused ?? 0) + (event.refused ? 1 : 0);
  run.usage = addUsage(run.usage, event.usage);
  const { inputTokens, outputTokens } = event.usage;
  log(draft, {
    type: "model_failed",
    ...(step.task ? { task: step.task } : {}),
    attempt: step.attempt,
    execution,
    error,
    nextAt,
    ...(inputTokens + outputTokens > 0 ? { usage: event.usage } : {}),
    ...event.times,
  });
  if (nextAt === null) endRun(draft, { status: "failed", stopReason: "model_error", error });
  else {
    const attempt = { attempt: step.attempt + 1, ...(refused > 0 ? { refused } : {}) };
    run.model = { ...taskOf(step), ...attempt, owedAt: run.revision, notBefore: nextAt };
  }
  return true;
}

/** How many ids of past inputs a run remembers; a command is re-sent within seconds, not hundreds of inputs later. */
const inputIdsKept = 32;

function inputReceived(draft: Draft, event: EventOf<"input_received">): boolean {
  const { run } = draft;
  if (run.inputIds.includes(event.inputId) || event.messages.length === 0) return false;
  if (!hasRoom(run, event.messages, event.maxBytes)) return false;
  remember(run, event.inputId);
  run.pendingInput = [...run.pendingInput, ...event.messages];
  for (const message of event.messages) hold(run, messageBytes(message));
  const { by } = event;
  log(draft, { type: "input_received", count: event.messages.length, ...(by === undefined ? {} : { by }) });
  return true;
}

function remember(run: Run, id: string): void {
  run.inputIds = [...run.inputIds, id].slice(-inputIdsKept);
}

/** How a run remembers a retry among the ids of what it has taken. */
export const nameOfRetry = (retryId: string): string => `retry ${retryId}`;

function retryRequested(draft: Draft, event: EventOf<"retry_requested">): boolean {
  const { run, meta } = draft;
  const name = event.retryId === undefined ? undefined : nameOfRetry(event.retryId);
  if (run.status !== "failed" || (name !== undefined && run.inputIds.includes(name))) return false;
  if (name !== undefined) remember(run, name);
  run.status = "running";
  run.stopReason = undefined;
  run.error = undefined;
  run.endedAt = undefined;
  // Whoever retries it by hand means it to go on, also if its parent, which has its own retries counted, waits no longer.
  if (run.parent) run.parent = { ...run.parent, owedAt: undefined, retries: undefined };
  run.reasks = undefined;
  run.verifications = undefined;
  run.repeatsFrom = run.messageCount;
  run.retryLimits = { ...run.retryLimits, ...event.limits };
  run.deadlineMs = event.limits?.deadlineMs ?? run.deadlineMs;
  run.deadlineAt = run.deadlineMs === undefined ? undefined : meta.at + run.deadlineMs;
  log(draft, { type: "run_retried", by: event.by });
  oweAgain(draft);
  return true;
}

function retriedByParent(draft: Draft, { by, retry }: EventOf<"child_retried">): boolean {
  if (!retryRequested(draft, { type: "retry_requested", by })) return false;
  draft.run.parent = { ...(draft.run.parent as RunParent), retries: retry };
  return true;
}

/** Owes what a run that goes on has to do first. */
function oweAgain(draft: Draft): void {
  const { run } = draft;
  const isUnchecked = run.unchecked && run.pendingInput.length === 0;
  run.unchecked = undefined;
  // Others of its session may have been told since that it is their turn.
  if (run.baseMessage !== undefined) {
    // They may have spoken too, so its answer is not the transcript's last word any more.
    if (isUnchecked) run.pendingInput = [answerAgain];
    joinSession(draft);
  } else if (isUnchecked) run.model = { task: "verify", attempt: 1, owedAt: run.revision };
  else oweModel(draft);
}

const answerAgain: Message = {
  role: "user",
  content: "Your last answer could not be checked. Give it again.",
  origin: "run",
};

const lateUsageKept = 64;

/** Tokens that were spent are counted, once per execution, even after the end (architecture, "The loop"). */
function usageReported(draft: Draft, event: EventOf<"usage_reported">): boolean {
  const { run } = draft;
  if (run.lateUsage.includes(event.execution)) return false;
  run.lateUsage = [...run.lateUsage, event.execution].slice(-lateUsageKept);
  run.usage = addUsage(run.usage, event.usage);
  log(draft, { type: "usage_reported", execution: event.execution, usage: event.usage });
  return true;
}
