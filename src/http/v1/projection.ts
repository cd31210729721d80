import type { Usage } from "../../core/run.ts";
import type { Echo, FunctionCallItem, MessageItem, OutputItem, WireEvent, WireUsage } from "./wire.ts";

// How far a Response has been made out of its run's feed. All but the text of the item that is open is small, is kept
// with the numbered events, and together with them it is all that is needed to go on: on any server, after any kill.

/** The item that text goes into. `complete`: its answer is committed; whether it counts is still to be seen. */
export type OpenItem = {
  id: string;
  index: number;
  turn: number;
  execution: string;
  kind: "text" | "refusal";
  complete: boolean;
};
/** A call of the caller's own tools. */
export type CallerCall = { callId: string; name: string; arguments: string };

export type Checkpoint = {
  phase: "new" | "queued" | "running" | "ended";
  /** Sequence number of the last entry that was taken, and the execution up to which all text after it is void. */
  seq: number;
  voided?: string | undefined;
  /** Output index of the next item. */
  index: number;
  open?: OpenItem | undefined;
  /** Calls of the turn that are not settled, those of them that the caller must answer, and all of the caller's. */
  pending: string[];
  asked: string[];
  calls: CallerCall[];
  usage: Usage;
  /** Of the transcript, so much belongs to the conversation up to here. */
  upTo: number;
};

export type Projection = Checkpoint & {
  /** Number of the next event. */
  next: number;
  /** What the open item says so far. */
  text: string;
  /** Of what the feed says of the open execution, so much was heard in this reading. A reading begins with its whole text. */
  heard: number;
};

/** What a projection is of. `callerTools`: names of tools that the caller executes. */
export type Subject = {
  id: string;
  tail: string;
  runId: string;
  createdAt: number;
  echo: Echo;
  afterSeq: number;
  callerTools: ReadonlySet<string>;
  /** The answer must be a JSON value and nothing else. */
  wantsJson: boolean;
};

export function startProjection({ afterSeq }: Pick<Subject, "afterSeq">): Projection {
  const usage = { inputTokens: 0, outputTokens: 0, cachedTokens: 0 };
  const checkpoint = {
    phase: "new" as const,
    seq: afterSeq,
    index: 0,
    pending: [],
    asked: [],
    calls: [],
    usage,
    upTo: 0,
  };
  return { ...checkpoint, next: 0, text: "", heard: 0 };
}

/** A projection in the making; never seen outside of one step. */
export type Making = { state: Projection; readonly events: WireEvent[]; readonly of: Subject };

export function emit(making: Making, type: string, fields: Record<string, unknown>): void {
  making.events.push({ type, sequence_number: making.state.next, ...fields });
  making.state.next += 1;
}

export function toWireUsage({ inputTokens, outputTokens, cachedTokens }: Usage): WireUsage {
  return {
    input_tokens: inputTokens,
    input_tokens_details: { cached_tokens: cachedTokens, cache_write_tokens: 0 },
    output_tokens: outputTokens,
    output_tokens_details: { reasoning_tokens: 0 },
    total_tokens: inputTokens + outputTokens,
  };
}

type Part = MessageItem["content"][number];

function toPart(kind: OpenItem["kind"], text: string): Part {
  return kind === "text"
    ? { type: "output_text", text, annotations: [], logprobs: [] }
    : { type: "refusal", refusal: text };
}

function toMessage(id: string, status: MessageItem["status"], content: Part[]): MessageItem {
  return { id, type: "message", status, role: "assistant", content };
}

/** Begins an item for an execution's text. */
export function openItem(making: Making, open: Omit<OpenItem, "index" | "complete">): void {
  const { state } = making;
  const index = state.index;
  state.index += 1;
  state.open = { ...open, index, complete: false };
  state.text = "";
  emit(making, "response.output_item.added", { output_index: index, item: toMessage(open.id, "in_progress", []) });
  const place = { item_id: open.id, output_index: index, content_index: 0 };
  emit(making, "response.content_part.added", { ...place, part: toPart(open.kind, "") });
}

export function addText(making: Making, delta: string): void {
  const { open } = making.state;
  if (!open || delta === "") return;
  making.state.text += delta;
  const place = { item_id: open.id, output_index: open.index, content_index: 0 };
  if (open.kind === "text") emit(making, "response.output_text.delta", { ...place, delta, logprobs: [] });
  else emit(making, "response.refusal.delta", { ...place, delta });
}

/** Ends the open item. @returns it, whole; undefined if none was open. */
export function closeItem(making: Making, status: "completed" | "incomplete"): OutputItem | undefined {
  const { state } = making;
  const { open, text } = state;
  if (!open) return undefined;
  const place = { item_id: open.id, output_index: open.index, content_index: 0 };
  const part = toPart(open.kind, text);
  if (open.kind === "text") emit(making, "response.output_text.done", { ...place, text, logprobs: [] });
  else emit(making, "response.refusal.done", { ...place, refusal: text });
  emit(making, "response.content_part.done", { ...place, part });
  const item = toMessage(open.id, status, [part]);
  emit(making, "response.output_item.done", { output_index: open.index, item });
  state.open = undefined;
  state.text = "";
  state.heard = 0;
  return item;
}

/** A whole call of the caller's tool. */
export function addCall(making: Making, call: FunctionCallItem): void {
  const { state } = making;
  const index = state.index;
  state.index += 1;
  const begun = { ...call, status: "in_progress", arguments: "" };
  emit(making, "response.output_item.added", { output_index: index, item: begun });
  const place = { item_id: call.id, output_index: index };
  emit(making, "response.function_call_arguments.delta", { ...place, delta: call.arguments });
  emit(making, "response.function_call_arguments.done", { ...place, name: call.name, arguments: call.arguments });
  emit(making, "response.output_item.done", { output_index: index, item: call });
}
