import { z } from "zod";
import type { Content, ContentPart } from "../core/message.ts";
import type { ModelReply } from "../core/reply.ts";
import type { Usage } from "../core/run.ts";
import { addCallDelta, type CallSlot } from "./call-slots.ts";
import { errorOf, isRecord, merge, readCallDelta } from "./delta.ts";
import { readUsage } from "./usage.ts";

/** All that a server said in answer to one request. */
export type Accumulated = {
  reply: ModelReply;
  finishReason?: string | undefined;
  usage?: Usage | undefined;
  model?: string | undefined;
  responseId?: string | undefined;
  /** An error object that came instead of, or amid, an answer. */
  error?: unknown;
  /** Whether anything was seen that belongs to an answer. */
  hasChoice: boolean;
  /** Every character received that counts as output, for an estimate. */
  received: string;
};

export type Accumulator = {
  /** Takes the JSON of one event, whatever it is. @returns the text it added. */
  addChunk(chunk: unknown): string;
  /** Takes a completion that came in one piece. @returns its text. */
  addCompletion(body: unknown): string;
  /** Whether the answer's end, or an error, was seen. Cheap. */
  hasEnded(): { finished: boolean; failed: boolean };
  result(): Accumulated;
};

const optionalText = z.string().optional().catch(undefined);
const recordSchema = z.record(z.string(), z.unknown());
const chunkSchema = z.looseObject({
  id: optionalText,
  model: optionalText,
  choices: z.array(z.unknown()).catch([]),
});
const choiceSchema = z.looseObject({
  index: z.number().optional().catch(undefined),
  delta: recordSchema.optional().catch(undefined),
  message: recordSchema.optional().catch(undefined),
  finish_reason: optionalText,
  error: z.unknown().optional(),
});
type State = {
  toolNames: ReadonlySet<string>;
  parts: ContentPart[];
  refusal: string;
  extra: Map<string, unknown>;
  slots: CallSlot[];
  legacy: CallSlot[];
  /** Calls among the parts of the content. */
  inline: CallSlot[];
  choice?: number | undefined;
  out: Omit<Accumulated, "reply" | "received">;
};

/**
 * Puts the pieces of an answer together, tolerant of what servers really send. Pure and without a clock; it never
 * throws, whatever it is given.
 *
 * @param toolNames names that were offered: they tell a name that comes in pieces from the name of another call.
 */
export function createAccumulator(toolNames: ReadonlySet<string> = new Set()): Accumulator {
  const state: State = {
    toolNames,
    parts: [],
    refusal: "",
    extra: new Map(),
    slots: [],
    legacy: [],
    inline: [],
    out: { hasChoice: false },
  };
  return {
    addChunk: (chunk) => addChunk(state, chunk, false),
    addCompletion: (body) => addChunk(state, body, true),
    hasEnded: () => ({ finished: state.out.finishReason !== undefined, failed: state.out.error !== undefined }),
    result: () => toResult(state),
  };
}

function addChunk(state: State, raw: unknown, whole: boolean): string {
  const parsed = chunkSchema.safeParse(Array.isArray(raw) ? raw[0] : raw);
  if (!parsed.success) return "";
  const chunk = parsed.data;
  const { out } = state;
  out.error ??= errorOf(chunk);
  out.responseId ||= chunk.id;
  out.model ||= chunk.model;
  out.usage = readUsage(chunk.usage) ?? readUsage(groqUsage(chunk.x_groq)) ?? out.usage;
  return chunk.choices.map((choice) => addChoice(state, choice, whole)).join("");
}

function addChoice(state: State, raw: unknown, whole: boolean): string {
  const parsed = choiceSchema.safeParse(raw);
  if (!parsed.success) return "";
  const choice = parsed.data;
  const { out } = state;
  state.choice ??= choice.index;
  if (choice.index !== undefined && choice.index !== state.choice) return "";
  out.error ??= choice.error || undefined;
  out.finishReason = choice.finish_reason || out.finishReason;
  out.usage = readUsage(choice.usage) ?? out.usage;
  const message = deltaOf(state, choice);
  if (!message) return "";
  out.hasChoice = true;
  return addMessage(state, message, whole || choice.delta === undefined);
}

function groqUsage(value: unknown): unknown {
  return typeof value === "object" && value !== null ? (value as { usage?: unknown }).usage : undefined;
}

/** Some gateways close a stream with the whole message under `message`; it counts only if no pieces came before. */
function deltaOf(state: State, choice: z.infer<typeof choiceSchema>): Record<string, unknown> | undefined {
  if (choice.delta !== undefined) return choice.delta;
  const isFirst = state.parts.length === 0 && state.slots.length === 0 && state.refusal === "";
  return isFirst ? choice.message : undefined;
}

/** Fields that are read here, and some that only ever describe an answer and are refused when sent back. */
const ownFields = new Set(["role", "content", "tool_calls", "function_call", "refusal", "annotations", "audio"]);

function addMessage(state: State, message: Record<string, unknown>, whole: boolean): string {
  const text = addContent(state, message.content) + addTranscript(state, message);
  if (typeof message.refusal === "string") state.refusal += message.refusal;
  if (typeof message.tool_calls === "object" && message.tool_calls !== null) addCalls(state, message.tool_calls, whole);
  if (isRecord(message.function_call)) addCall(state, state.legacy, { function: message.function_call }, undefined);
  for (const [key, value] of Object.entries(message)) {
    if (!ownFields.has(key)) state.extra.set(key, merge(state.extra.get(key), value));
  }
  return text;
}

function addContent(state: State, content: unknown): string {
  if (Array.isArray(content)) return content.map((part) => addPart(state, part)).join("");
  return addPart(state, content);
}

/** What was spoken is the answer where nothing was written. */
function addTranscript(state: State, { content, audio }: Record<string, unknown>): string {
  if (content || !isRecord(audio) || typeof audio.transcript !== "string") return "";
  return addText(state, audio.transcript);
}

function addPart(state: State, part: unknown): string {
  if (typeof part === "string") return addText(state, part);
  if (!isRecord(part)) return "";
  const { text, refusal } = part;
  const type = part.type || (typeof text === "string" ? "text" : undefined);
  if (typeof type !== "string") return "";
  if (type === "output_text" && typeof text === "string") return addText(state, text);
  if (type === "refusal" && typeof refusal === "string") state.refusal += refusal;
  // A call among the parts of the text is how Claude's own API has it.
  else if (type === "tool_use") addCall(state, state.inline, part, state.inline.length);
  else return addOther(state, { ...part, type });
  return "";
}

function addOther(state: State, part: ContentPart): string {
  if (isPlainText(part)) return addText(state, part.text);
  state.parts.push(part);
  return part.type === "text" && typeof part.text === "string" ? part.text : "";
}

/** A text part with nothing beside its text: pieces of it can be joined. */
function isPlainText(part: ContentPart | undefined): part is { type: "text"; text: string } {
  return part?.type === "text" && typeof part.text === "string" && Object.keys(part).length === 2;
}

function addText(state: State, text: string): string {
  const last = state.parts.at(-1);
  if (text === "") return "";
  if (isPlainText(last)) last.text += text;
  else state.parts.push({ type: "text", text });
  return text;
}

function addCalls(state: State, given: unknown, whole: boolean): void {
  // One call without the list around it.
  const calls: unknown[] = Array.isArray(given) ? given : [given];
  const unnumbered = calls.length > 1 && calls.every((call) => isRecord(call) && (call.index ?? null) === null);
  for (const [position, call] of calls.entries()) {
    // Calls that stand beside each other in one list are different calls, whatever they lack.
    addCall(state, state.slots, call, whole || unnumbered ? position : undefined);
  }
}

function addCall(state: State, slots: CallSlot[], raw: unknown, position: number | undefined): void {
  const delta = readCallDelta(raw, position);
  if (delta) addCallDelta(slots, delta, state.toolNames);
}

function toResult(state: State): Accumulated {
  const slots = [state.slots, state.inline, state.legacy].find(({ length }) => length > 0) ?? [];
  const toolCalls = slots.map((slot) => ({
    ...(slot.id ? { id: slot.id } : {}),
    name: slot.name ?? "",
    arguments: slot.arguments,
    ...(Object.keys(slot.extra).length > 0 ? { extra: slot.extra } : {}),
  }));
  const extra = [...state.extra].filter(([, value]) => value !== null && value !== undefined);
  const reply: ModelReply = {
    content: toContent(state),
    toolCalls,
    ...(state.refusal ? { refusal: state.refusal } : {}),
    ...(extra.length > 0 ? { extra: Object.fromEntries(extra) } : {}),
  };
  return { ...state.out, reply, received: receivedText(state) };
}

function toContent(state: State): Content | null {
  if (state.parts.length === 0) return null;
  if (state.parts.every(isPlainText)) return state.parts.map((part) => part.text).join("");
  return state.parts.map((part) => ({ ...part }));
}

function receivedText(state: State): string {
  const extra = [...state.extra.values()].filter((value) => typeof value === "string");
  const calls = [...state.slots, ...state.inline, ...state.legacy].map((slot) => `${slot.name ?? ""}${slot.arguments}`);
  const parts = state.parts.map((part) => (typeof part.text === "string" ? part.text : JSON.stringify(part)));
  return [...parts, ...extra, ...calls, state.refusal].join("");
}
