import { z } from "zod";
import { type Part, problemsOfPart } from "./parts.ts";

/** A JSON value. */
export type Json = string | number | boolean | null | Json[] | { [key: string]: Json };

/**
 * One part of a message's content. Kept exactly as it came, fields we do not know included: `text`, `image_url`,
 * `file`, `refusal` and whatever a provider adds (features H2).
 */
const contentPartSchema: z.ZodType<ContentPart> = z.looseObject({ type: z.string().min(1) });
export type ContentPart = Part;

export const contentSchema: z.ZodType<Content> = z.union([z.string(), z.array(contentPartSchema)]);
export type Content = string | ContentPart[];

/** Fields of a provider that we do not know, sent back under the same names. */
export type Extra = Record<string, unknown>;
const extraSchema = z.record(z.string(), z.unknown());

/**
 * A call the assistant asks for.
 * - `callId`: our name for it, from turn and position (`call-3-1`); unique in the run.
 * - `id`: the provider's id, only a field; sent back in the tool message.
 * - `arguments`: JSON text as replayed to the provider.
 */
const toolCallSchema: z.ZodType<ToolCall> = z.object({
  callId: z.string(),
  id: z.string(),
  name: z.string(),
  arguments: z.string(),
  extra: extraSchema.optional(),
});
export type ToolCall = {
  callId: string;
  id: string;
  name: string;
  arguments: string;
  extra?: Extra | undefined;
};

export type SystemMessage = { role: "system" | "developer"; content: Content };
/** `origin`: set on what the run itself tells the model (an answer that did not fit, say); not sent. */
export type UserMessage = { role: "user"; content: Content; name?: string | undefined; origin?: "run" | undefined };
export type AssistantMessage = {
  role: "assistant";
  content: Content | null;
  toolCalls?: ToolCall[] | undefined;
  refusal?: string | undefined;
  extra?: Extra | undefined;
};
/**
 * The only answer to one call. `outcome` says how it was settled:
 * - `ok`: the tool returned; `failed`: it did not, the content says why;
 * - `denied`: a person refused; `cancelled`: the run ended first; `unknown`: it may or may not have happened.
 */
export type ToolMessage = {
  role: "tool";
  callId: string;
  toolCallId: string;
  name: string;
  content: Content;
  outcome: ToolMessageOutcome;
  /** Where the whole of a result is kept that was cut for the model; not sent. */
  full?: FullResult | undefined;
  /** Who let the call run or refused it; not sent. */
  decision?: Decision | undefined;
  /** What the call would have done, where a dry run told of it and did not make it; not sent. */
  described?: string | undefined;
};
/** A person's word on a call. `at`: epoch ms; `id`: as the command named it, so that it is known when sent again. */
export type Decision = { type: "approved" | "denied"; by: string; at: number; id?: string | undefined };
export const decisionSchema: z.ZodType<Decision> = z.looseObject({
  type: z.enum(["approved", "denied"]),
  by: z.string(),
  at: z.number(),
  id: z.string().optional(),
});
/**
 * A result that was cut for the model.
 * - `name`: what the model calls it by; `runId`, `ref`: where the middle that was cut out is kept;
 * - `chars` (UTF-16 code units) and `bytes` (UTF-8): size of the whole text;
 * - `head`, `tail`: how many characters of its beginning and of its end are in the message;
 * - `middle`: what was cut out, if it is short enough to be kept right here; `ref` is empty then.
 */
export type FullResult = {
  name: string;
  runId: string;
  ref: string;
  chars: number;
  bytes: number;
  head: number;
  tail: number;
  middle?: string | undefined;
};
export type ToolMessageOutcome = "ok" | "failed" | "denied" | "cancelled" | "unknown";
export type Message = SystemMessage | UserMessage | AssistantMessage | ToolMessage;

const fullResultSchema = z.looseObject({
  name: z.string(),
  runId: z.string(),
  ref: z.string(),
  chars: z.number(),
  bytes: z.number(),
  head: z.number(),
  tail: z.number(),
  middle: z.string().optional(),
});

export const messageSchema: z.ZodType<Message> = z.discriminatedUnion("role", [
  z.looseObject({ role: z.enum(["system", "developer"]), content: contentSchema }),
  z.looseObject({
    role: z.literal("user"),
    content: contentSchema,
    name: z.string().optional(),
    origin: z.literal("run").optional(),
  }),
  z.looseObject({
    role: z.literal("assistant"),
    content: contentSchema.nullable(),
    toolCalls: z.array(toolCallSchema).optional(),
    refusal: z.string().optional(),
    extra: extraSchema.optional(),
  }),
  z.looseObject({
    role: z.literal("tool"),
    callId: z.string(),
    toolCallId: z.string(),
    name: z.string(),
    content: contentSchema,
    outcome: z.enum(["ok", "failed", "denied", "cancelled", "unknown"]),
    full: fullResultSchema.optional(),
    decision: decisionSchema.optional(),
    described: z.string().optional(),
  }),
]) as unknown as z.ZodType<Message>;

/** What a producer may put into `input`: text, or messages that hold no tool calls. */
export type InputMessage = { role: "system" | "developer" | "user" | "assistant"; content: Content };
/** What a model or a tool brought is kept as it is; what a producer gives is refused if it cannot be meant. */
const inputPartSchema = contentPartSchema.superRefine((part, context) => {
  for (const { path, message } of problemsOfPart(part)) context.addIssue({ code: "custom", path, message });
});
const inputMessageSchema: z.ZodType<InputMessage> = z.strictObject({
  role: z.enum(["system", "developer", "user", "assistant"]),
  content: z.union([z.string(), z.array(inputPartSchema)]),
});
export const inputSchema: z.ZodType<string | InputMessage[]> = z.union([
  z.string().min(1),
  z.array(inputMessageSchema).min(1),
]);

/** The input of a run as transcript messages. */
export function toInputMessages(input: string | InputMessage[]): Message[] {
  return typeof input === "string" ? [{ role: "user", content: input }] : input;
}

/** The text of a content, parts of other kinds left out. */
export function textOf(content: Content | null): string {
  if (content === null) return "";
  if (typeof content === "string") return content;
  return content.map((part) => (part.type === "text" && typeof part.text === "string" ? part.text : "")).join("");
}

/** Our name for a call: turn and position, both from 1. */
export function toCallId(turn: number, position: number): string {
  return `call-${turn}-${position}`;
}
