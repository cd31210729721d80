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
  /** Who gave the result, of a call that was answered from outside; not sent. */
  answered?: Answered | undefined;
};
/** `at`: epoch ms; `id`: as the command named it, so that it is known when sent again. */
export type Answered = { by: string; at: number; id?: string | undefined };
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
    answered: z.looseObject({ by: z.string(), at: z.number(), id: z.string().optional() }).optional(),
  }),
]) as unknown as z.ZodType<Message>;

/** A call that was made before the run, by its name at the provider or the client that made it. */
export type GivenCall = { id: string; name: string; arguments: string };
/**
 * What a producer may put into `input`: text, or messages. An assistant's message may hold calls of earlier turns; right
 * after it come their results, one `tool` message for each call, in call order.
 */
export type InputMessage =
  | { role: "system" | "developer" | "user"; content: Content }
  | { role: "assistant"; content: Content; toolCalls?: GivenCall[] | undefined }
  | { role: "tool"; toolCallId: string; content: Content };
/** What a model or a tool brought is kept as it is; what a producer gives is refused if it cannot be meant. */
const inputPartSchema = contentPartSchema.superRefine((part, context) => {
  for (const { path, message } of problemsOfPart(part)) context.addIssue({ code: "custom", path, message });
});
/** Content as somebody outside gives it. */
export const givenContentSchema: z.ZodType<Content> = z.union([z.string(), z.array(inputPartSchema)]);
const givenCallSchema = z.strictObject({
  id: z.string().min(1).max(256),
  name: z.string().min(1).max(256),
  arguments: z.string(),
});
const roles = ["system", "developer", "user", "assistant", "tool"];
const inputMessageSchema = z.discriminatedUnion(
  "role",
  [
    z.strictObject({ role: z.enum(["system", "developer", "user"]), content: givenContentSchema }),
    z.strictObject({
      role: z.literal("assistant"),
      content: givenContentSchema,
      toolCalls: z.array(givenCallSchema).min(1).optional(),
    }),
    z.strictObject({ role: z.literal("tool"), toolCallId: z.string().min(1).max(256), content: givenContentSchema }),
  ],
  { error: `must be ${roles.map((role) => JSON.stringify(role)).join(" or ")}` },
);
const inputMessagesSchema = z
  .array(inputMessageSchema)
  .min(1)
  .superRefine((messages, context) => {
    for (const { index, message } of misplacedResults(messages)) {
      context.addIssue({ code: "custom", path: [index], message });
    }
  });
export const inputSchema: z.ZodType<string | InputMessage[]> = z.union([z.string().min(1), inputMessagesSchema]);

/** Where calls and results do not follow each other as a transcript has them (invariant 3). */
function misplacedResults(messages: readonly InputMessage[]): { index: number; message: string }[] {
  let open: string[] = [];
  const found: { index: number; message: string }[] = [];
  messages.forEach((given, index) => {
    if (given.role === "tool" && given.toolCallId === open[0]) open = open.slice(1);
    else if (given.role === "tool") found.push({ index, message: "must be the result of the call before it" });
    else if (open.length > 0) found.push({ index, message: `must be the result of call ${open[0]}` });
    if (given.role !== "tool") open = given.role === "assistant" ? (given.toolCalls ?? []).map(({ id }) => id) : [];
  });
  if (open.length > 0)
    found.push({ index: messages.length - 1, message: `must be followed by the result of call ${open[0]}` });
  return found;
}

/** The input of a run as transcript messages. */
export function toInputMessages(input: string | InputMessage[]): Message[] {
  if (typeof input === "string") return [{ role: "user", content: input }];
  let turn = 0;
  let open: ToolCall[] = [];
  return input.map((given): Message => {
    if (given.role === "tool") {
      const [call] = open.splice(0, 1) as [ToolCall];
      return { ...given, callId: call.callId, name: call.name, outcome: "ok" };
    }
    if (given.role !== "assistant" || !given.toolCalls) return given as Message;
    turn += 1;
    open = given.toolCalls.map((call, index) => ({ ...call, callId: `given-${turn}-${index + 1}` }));
    return { ...given, toolCalls: [...open] };
  });
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

export type CutMessage = ToolMessage & { full: FullResult };

/** Whether a message is a result that was cut for its length. */
export function isCut(message: Message): message is CutMessage {
  return message.role === "tool" && message.full !== undefined;
}
