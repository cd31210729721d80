import type { RunFeedEvent } from "../../core/feed.ts";
import { type AssistantMessage, textOf } from "../../core/message.ts";
import { findJson } from "../../core/output.ts";
import { answerTextOf } from "../../core/reply-text.ts";
import { addUsage } from "../../core/run.ts";
import { toFunctionId, toMessageId, toWireCallId } from "./ids.ts";
import {
  addCall,
  addText,
  closeItem,
  emit,
  type Making,
  openItem,
  type Projection,
  type Subject,
  toWireUsage,
} from "./projection.ts";
import { type FunctionCallItem, type OutputItem, type Progress, toResponse, type WireEvent } from "./wire.ts";

// Makes a Response's events out of its run's feed. Pure: (state, event of the feed) -> state and events with numbers.
//
// P1. The text of a turn streams as it comes. Text that turns out not to count (its attempt was superseded, its turn calls
//     the agent's own tools, its answer was refused) closes its item as `incomplete`, and what follows has the next index.
// P2. The final `output` holds the final message alone, or the calls that the caller has to answer and what was said with
//     them. A Response ends with its run, or when the run waits for the caller and nobody else.

export type Projected = { state: Projection; events: WireEvent[] };

/** The first events, before anything of the feed is known. */
export function begin(state: Projection, of: Subject): Projected {
  return step(state, of, (making) => {
    const goesOn = of.afterSeq > 0;
    const status = !goesOn && of.echo.background ? "queued" : "in_progress";
    emit(making, "response.created", { response: toResponse(of, { status }) });
    making.state.phase = "queued";
    if (status === "queued") emit(making, "response.queued", { response: toResponse(of, { status }) });
    else run(making);
  });
}

/** Takes one event of the feed, secrets and thoughts taken out of it. */
export function project(state: Projection, of: Subject, event: RunFeedEvent): Projected {
  if (state.phase === "ended") return { state, events: [] };
  return step(state, of, (making) => take(making, event));
}

/** Ends a Response whose run is not there to end it. */
export function abandon(state: Projection, of: Subject, at: number): Projected {
  const error = { code: "server_error", message: "The run of this response is gone or ended without it." };
  return step(state, of, (making) => end(making, { status: "failed", error, at }));
}

function step(state: Projection, of: Subject, change: (making: Making) => void): Projected {
  const making: Making = { state: { ...state }, events: [], of };
  change(making);
  return { state: making.state, events: making.events };
}

function take(making: Making, event: RunFeedEvent): void {
  const { state } = making;
  if (event.type === "text") return hear(making, event);
  if (event.type === "text_superseded") return supersede(making, event.execution);
  state.seq = event.seq;
  switch (event.type) {
    case "run_began":
    case "session_entered":
    case "model_failed":
      return run(making);
    case "messages_appended":
      state.upTo = event.messages[1];
      return undefined;
    case "model_answered":
      return answered(making, event);
    case "answer_refused":
      closeItem(making, "incomplete");
      return undefined;
    case "summarised":
    case "usage_reported":
      state.usage = addUsage(state.usage, event.usage);
      return undefined;
    case "run_ended":
      return ended(making, event);
    case "run_rejected":
      return end(making, { status: "failed", error: event.error, at: event.at });
    default:
      return settled(making, event);
  }
}

/** Tells that work has begun, once. */
function run(making: Making): void {
  if (making.state.phase !== "queued") return;
  making.state.phase = "running";
  emit(making, "response.in_progress", { response: toResponse(making.of, { status: "in_progress" }) });
}

type Text = Extract<RunFeedEvent, { type: "text" }>;

function hear(making: Making, { turn, execution, text }: Text): void {
  const { state, of } = making;
  if (state.voided !== undefined && execution <= state.voided) return;
  run(making);
  if (state.open && state.open.execution !== execution) supersede(making, state.open.execution);
  if (!state.open) openItem(making, { id: toMessageId(of.tail, turn, execution), turn, execution, kind: "text" });
  // Whoever goes on from what is kept hears the beginning again.
  const known = Math.max(0, state.text.length - state.heard);
  state.heard += text.length;
  addText(making, text.slice(known));
}

/** All text up to this execution's is void. */
function supersede(making: Making, execution: string): void {
  const { state } = making;
  if (state.open?.execution === execution) closeItem(making, "incomplete");
  state.voided = execution;
}

type Answered = Extract<RunFeedEvent, { type: "model_answered" }>;

function answered(making: Making, event: Answered): void {
  const { state, of } = making;
  run(making);
  // An answer may be another than its own execution said before; what was said has taken the item's first name.
  const isOther = state.voided === event.execution;
  state.voided = undefined;
  state.usage = addUsage(state.usage, event.usage);
  state.upTo = event.message + 1;
  if (state.open && state.open.execution !== event.execution) closeItem(making, "incomplete");
  const answer = event.answer?.role === "assistant" ? event.answer : undefined;
  const toolCalls = answer?.toolCalls ?? [];
  state.pending = event.calls;
  state.asked = [];
  state.calls = toolCalls
    .filter(({ name }) => of.callerTools.has(name))
    .map(({ callId, name, arguments: args }) => ({ callId, name, arguments: args }));
  const isForOthers = event.calls.length > 0 && state.calls.length === 0;
  if (isForOthers || !answer) closeItem(making, "incomplete");
  else say(making, event, { answer, isOther });
}

type Given = { answer: AssistantMessage; isOther: boolean };

/** Brings the open item to what the answer says, whatever of it was heard. */
function say(making: Making, { turn, execution, calls }: Answered, { answer, isOther }: Given): void {
  const { state, of } = making;
  const [kind, whole] = saidBy(answer, of.wantsJson && calls.length === 0);
  let id = toMessageId(of.tail, turn, execution, isOther);
  const heard = state.text;
  const isSame = whole.startsWith(heard) || heard.trimEnd() === whole;
  if (state.open && !(kind === "text" && isSame)) {
    closeItem(making, "incomplete");
    id = toMessageId(of.tail, turn, execution, true);
  }
  if (!state.open && whole === "" && calls.length > 0) return;
  if (!state.open) openItem(making, { id, turn, execution, kind });
  addText(making, whole.slice(state.text.length));
  if (state.open) state.open = { ...state.open, complete: true };
}

/** What an answer says to its reader, and as what. */
function saidBy(answer: AssistantMessage, asJson: boolean): ["text" | "refusal", string] {
  const raw = textOf(answer.content);
  const said = answerTextOf(answer);
  if (raw.trim() === "" && answer.refusal) return ["refusal", answer.refusal];
  const found = asJson ? findJson(said) : undefined;
  // A value in a fence: whoever asked for JSON parses all of the text.
  if (found?.found && said.startsWith("`")) return ["text", JSON.stringify(found.value)];
  return ["text", raw.trim() === said ? raw : said];
}

/** Takes what becomes of a call, and ends the Response once the run waits for the caller alone. */
function settled(making: Making, event: RunFeedEvent): void {
  const { state } = making;
  const asked = event.type === "answer_asked" && event.from === "caller" ? event.callId : undefined;
  const callId = asked ?? (event.type === "tool_finished" ? event.callId : undefined);
  if (callId === undefined) return;
  state.asked = asked === undefined ? state.asked.filter((other) => other !== callId) : [...state.asked, callId];
  state.pending = state.pending.filter((other) => other !== callId);
  // The end of a run settles its calls: nobody waits for the others any more.
  const isOver = event.type === "tool_finished" && event.outcome === "cancelled";
  if (state.pending.length > 0 || isOver) return;
  if (state.asked.length > 0) askCaller(making, event.at);
  // All were refused at once, or were others': what was said with them was no final word.
  else closeItem(making, "incomplete");
}

function askCaller(making: Making, at: number): void {
  const { state, of } = making;
  const said = closeItem(making, "completed");
  const calls = state.calls
    .filter(({ callId }) => state.asked.includes(callId))
    .map(
      ({ callId, name, arguments: args }): FunctionCallItem => ({
        id: toFunctionId(of.tail, callId),
        type: "function_call",
        status: "completed",
        call_id: toWireCallId(of.runId, callId),
        name,
        arguments: args,
      }),
    );
  for (const call of calls) addCall(making, call);
  end(making, { status: "completed", output: [...(said ? [said] : []), ...calls], at });
}

type Ended = Extract<RunFeedEvent, { type: "run_ended" }>;

function ended(making: Making, event: Ended): void {
  const { at, status, stopReason } = event;
  const said = closeItem(making, status === "completed" ? "completed" : "incomplete");
  if (status === "completed") return end(making, { status, output: said ? [said] : [], at });
  if (status === "cancelled") return end(making, { status, at });
  const incomplete = incompleteReasons[stopReason];
  if (incomplete) return end(making, { status: "incomplete", incomplete, at });
  const message = event.error?.message ?? `The run ended: ${stopReason}.`;
  return end(making, { status: "failed", error: { code: stopReason, message }, at });
}

/** Limits that were reached: the run may be gone on with. */
const incompleteReasons: Partial<Record<Ended["stopReason"], string>> = {
  max_turns: "max_turns",
  token_budget: "max_output_tokens",
  cost_budget: "cost_budget",
  byte_budget: "byte_budget",
  deadline: "deadline",
};

/** There is no event for a cancelled Response: its stream ends as an incomplete one's, and its status tells. */
function end(making: Making, progress: Progress & { output?: OutputItem[] | undefined }): void {
  const { state, of } = making;
  run(making);
  const type = progress.status === "cancelled" ? "incomplete" : progress.status;
  const response = toResponse(of, { ...progress, usage: toWireUsage(state.usage) });
  emit(making, `response.${type}`, { response });
  state.phase = "ended";
}
