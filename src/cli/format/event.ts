import type { RunFeedEvent } from "../../core/feed.ts";
import type { Message } from "../../core/message.ts";
import { shownText } from "../../core/parts.ts";
import type { Output } from "../output.ts";
import { count, toDuration, toOneLine } from "./text.ts";

type Told = { mark: Output["mark"]; event: RunFeedEvent };

/** One line for people about what happened; undefined for what nobody watching needs, and for text itself. */
export function toEventLine(event: RunFeedEvent, mark: Output["mark"]): string | undefined {
  // A call of a tool that is not there bears whatever name the model made up.
  const named = "tool" in event ? ({ ...event, tool: toOneLine(event.tool, 128) } as RunFeedEvent) : event;
  const told = describe({ event: named, mark });
  return told === undefined ? undefined : `${mark("dim", `[${event.turn}]`)} ${told}`;
}

function describe({ event, mark }: Told): string | undefined {
  switch (event.type) {
    case "run_created":
      return event.dryRun ? "queued, as a dry run" : "queued";
    case "run_began":
      return "began";
    case "model_answered":
      return modelAnswered(event);
    case "summarised":
      return mark("dim", `the first ${count(event.upTo, "message")} are sent as a summary from here on`);
    case "answer_verified":
      return mark("green", "the answer passed its check");
    case "answer_refused":
      return mark("yellow", `the answer ${refused[event.why]}, so the model is told`);
    case "tool_started":
      return `${event.tool} ${event.callId} started`;
    case "tool_finished":
      return toolFinished(event, mark);
    case "approval_asked":
      return mark("yellow", `${event.tool} ${event.callId} ${asked[event.why]}${because(event.reason)}`);
    case "approved":
      return `${event.tool} ${event.callId} approved by ${toOneLine(event.by, 80)}`;
    case "denied":
      return `${event.tool} ${event.callId} denied by ${toOneLine(event.by, 80)}: ${toOneLine(event.reason, 200)}`;
    case "approval_expired":
      return mark("yellow", `${event.tool} ${event.callId}: nobody decided in time`);
    case "answer_asked":
      return mark("yellow", `${event.tool} ${event.callId} waits for an answer of ${answerers[event.from]}`);
    case "answered":
      return `${event.tool} ${event.callId} answered by ${toOneLine(event.by, 80)}`;
    case "answer_expired":
      return mark("yellow", `${event.tool} ${event.callId}: nobody answered in time`);
    case "child_started":
      return `${event.tool} ${event.callId} is worked on by run ${event.childId} of ${toOneLine(event.agent, 64)}`;
    case "child_ended":
      return mark(event.status === "completed" ? "green" : "red", `run ${event.childId} ${childEnd(event)}`);
    case "child_lost":
      return mark("yellow", `run ${event.childId} is lost; it is started anew`);
    case "run_paused":
      return mark("yellow", `paused by ${toOneLine(event.by, 80)}: ${toOneLine(event.reason, 200)}`);
    case "run_resumed":
      return `goes on, by ${toOneLine(event.by, 80)}`;
    case "tool_described":
      return mark("cyan", `${event.tool} ${event.callId} not executed, only described`);
    case "policy_applied":
      return mark("dim", `${event.tool} ${event.callId}${because(event.policy)}`);
    case "session_queued":
      return `waits for run ${event.behind} of its session`;
    case "input_received":
      return `${count(event.count, "message")} received`;
    case "run_retried":
      return `retried by ${toOneLine(event.by, 80)}`;
    case "run_ended":
      return runEnded(event, mark);
    default:
      return describeTrouble(event, mark);
  }
}

function childEnd({ status, stopReason }: Extract<RunFeedEvent, { type: "child_ended" }>): string {
  if (status === "gone") return "is gone";
  return stopReason === undefined || stopReason === "answered" || stopReason === status
    ? status
    : `${status} (${stopReason})`;
}

const because = (reason: string | undefined): string => (reason === undefined ? "" : ` (${toOneLine(reason, 200)})`);

const refused = { output: "does not fit the output", verify: "did not pass its check" };

const answerers = { person: "a person", caller: "the program that started the run" };

const asked = { policy: "waits for approval", unknown_outcome: "has an unknown outcome and waits for a decision" };

/** Trouble that Drover deals with itself, and what is no news. */
function describeTrouble(event: RunFeedEvent, mark: Output["mark"]): string | undefined {
  const at = "at" in event ? event.at : 0;
  switch (event.type) {
    case "run_rejected":
      return mark("red", `rejected: ${toOneLine(event.error.message, 300)}`);
    case "model_failed":
      return mark("yellow", `model call failed: ${toOneLine(event.error.message, 300)}${nextTry(event.nextAt, at)}`);
    case "window_shrunk":
      return mark(
        "yellow",
        `too long for the model; at most ${count(event.budgetTokens, "token")} are sent from here on`,
      );
    case "verify_failed":
      return mark("red", `the check failed: ${toOneLine(event.error.message, 300)}${nextTry(event.nextAt, at)}`);
    case "tool_failed":
      return mark(
        "yellow",
        `${event.tool} ${event.callId} failed: ${toOneLine(event.error.message, 300)}${nextTry(event.nextAt, at)}`,
      );
    case "tool_lost":
      return mark("yellow", `${event.tool} ${event.callId}: its worker was lost`);
    case "step_held":
      return mark("yellow", `held back: ${toOneLine(event.detail, 300)}`);
    case "step_crashed":
      return mark("red", `a step crashed: ${toOneLine(event.error.message, 300)}${nextTry(event.nextAt, at)}`);
    default:
      return undefined;
  }
}

function nextTry(nextAt: number | null, at: number): string {
  return nextAt === null ? "" : `; next attempt in ${toDuration(nextAt - at)}`;
}

function modelAnswered(event: Extract<RunFeedEvent, { type: "model_answered" }>): string {
  const calls = event.answer?.role === "assistant" ? (event.answer.toolCalls ?? []) : [];
  if (event.calls.length === 0) return "model answered";
  const list = calls.map((call) => `${toOneLine(call.name, 64)} ${toOneLine(call.arguments, 80)}`).join(", ");
  return `model asks for ${count(event.calls.length, "call")}${list === "" ? "" : `: ${list}`}`;
}

function toolFinished(event: Extract<RunFeedEvent, { type: "tool_finished" }>, mark: Output["mark"]): string {
  const answer: Message | undefined = event.answer;
  const result = answer ? toOneLine(shownText(answer.content), 120) : "";
  const outcome = event.outcome === "ok" ? mark("green", "ok") : mark("red", event.outcome);
  return `${event.tool} ${event.callId} ${outcome}${result === "" ? "" : ` → ${result}`}`;
}

function runEnded(event: Extract<RunFeedEvent, { type: "run_ended" }>, mark: Output["mark"]): string {
  const by = event.by ? ` by ${toOneLine(event.by, 80)}` : "";
  const why = event.error ? `: ${toOneLine(event.error.message, 500)}` : "";
  const told = event.stopReason === "answered" || event.stopReason === event.status;
  const reason = told ? "" : ` (${event.stopReason})`;
  return mark(event.status === "completed" ? "green" : "red", `${event.status}${reason}${by}${why}`);
}
