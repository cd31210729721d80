import { z } from "zod";
import type { Content, ContentPart, Extra } from "../core/message.ts";
import type { ModelReply } from "../core/reply.ts";
import type { Usage } from "../core/run.ts";
import { addCallDelta, type CallSlot } from "./call-slots.ts";
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
});
const callSchema = z.looseObject({
  index: z.int().optional().catch(undefined),
  id: optionalText,
  function: recordSchema.catch({}),
});

type State = {
  parts: ContentPart[];
  refusal: string;
  extra: Extra;
  slots: CallSlot[];
  legacy: CallSlot[];
  choice?: number | undefined;
  out: Omit<Accumulated, "reply" | "received">;
};

/**
 * Puts the pieces of an answer together, tolerant of what servers really send. Pure and without a clock; it never
 * throws, whatever it is given.
 */
export function createAccumulator(): Accumulator {
  const state: State = {
    parts: [],
    refusal: "",
    extra: {},
    slots: [],
    legacy: [],
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
  out.finishReason = choice.finish_reason || out.finishReason;
  out.usage = readUsage(choice.usage) ?? out.usage;
  const message = deltaOf(state, choice);
  if (!message) return "";
  out.hasChoice = true;
  return addMessage(state, message, whole || choice.delta === undefined);
}

function errorOf(chunk: Record<string, unknown>): unknown {
  if (chunk.error) return chunk.error;
  return chunk.object === "error" || chunk.type === "error" ? chunk : undefined;
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
  const text = addContent(state, message.content);
  if (typeof message.refusal === "string") state.refusal += message.refusal;
  if (Array.isArray(message.tool_calls)) addCalls(state, message.tool_calls, whole);
  if (isRecord(message.function_call)) addCall(state.legacy, { function: message.function_call }, undefined);
  for (const [key, value] of Object.entries(message)) {
    if (!ownFields.has(key)) state.extra[key] = merge(state.extra[key], value);
  }
  return text;
}

function addContent(state: State, content: unknown): string {
  if (Array.isArray(content)) return content.map((part) => addPart(state, part)).join("");
  return typeof content === "string" ? addText(state, content) : "";
}

function addPart(state: State, part: unknown): string {
  if (typeof part === "string") return addText(state, part);
  if (!isRecord(part) || typeof part.type !== "string" || part.type === "") return "";
  const content = part as ContentPart;
  if (isPlainText(content)) return addText(state, content.text);
  state.parts.push(content);
  return content.type === "text" && typeof content.text === "string" ? content.text : "";
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

function addCalls(state: State, calls: unknown[], whole: boolean): void {
  const unnumbered = calls.length > 1 && calls.every((call) => isRecord(call) && typeof call.index !== "number");
  for (const [position, call] of calls.entries()) {
    // Calls that stand beside each other in one list are different calls, whatever they lack.
    addCall(state.slots, call, whole || unnumbered ? position : undefined);
  }
}

function addCall(slots: CallSlot[], raw: unknown, position: number | undefined): void {
  const parsed = callSchema.safeParse(raw);
  if (!parsed.success) return;
  const { index, id, type: _type, function: fn, ...extra } = parsed.data;
  const { name, arguments: args, ...functionExtra } = fn;
  addCallDelta(slots, {
    index: position ?? index,
    id: id || undefined,
    name: typeof name === "string" && name !== "" ? name : undefined,
    arguments: typeof args === "string" ? args : args === undefined || args === null ? "" : JSON.stringify(args),
    extra: Object.keys(functionExtra).length > 0 ? { ...extra, function: functionExtra } : extra,
  });
}

/** Joins pieces of a field that we do not know: text and lists grow, records are filled, nulls change nothing. */
function merge(before: unknown, piece: unknown): unknown {
  if (piece === null || piece === undefined) return before ?? piece;
  if (typeof before === "string" && typeof piece === "string") return before + piece;
  if (Array.isArray(before) && Array.isArray(piece)) return [...before, ...(piece as unknown[])];
  if (isRecord(before) && isRecord(piece)) return { ...before, ...piece };
  return piece;
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function toResult(state: State): Accumulated {
  const slots = state.slots.length > 0 ? state.slots : state.legacy;
  const toolCalls = slots.map((slot) => ({
    ...(slot.id ? { id: slot.id } : {}),
    name: slot.name ?? "",
    arguments: slot.arguments,
    ...(Object.keys(slot.extra).length > 0 ? { extra: slot.extra } : {}),
  }));
  const extra = Object.entries(state.extra).filter(([, value]) => value !== null && value !== undefined);
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
  const extra = Object.values(state.extra).filter((value) => typeof value === "string");
  const calls = [...state.slots, ...state.legacy].map((slot) => `${slot.name ?? ""}${slot.arguments}`);
  const parts = state.parts.map((part) => (typeof part.text === "string" ? part.text : JSON.stringify(part)));
  return [...parts, ...extra, ...calls, state.refusal].join("");
}
