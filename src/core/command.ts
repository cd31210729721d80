import { z } from "zod";
import { limitsSchema } from "./agent.ts";
import type { RunEvent } from "./event.ts";
import { givenContentSchema, type InputMessage, inputSchema, type Message } from "./message.ts";
import { problemOfNesting } from "./nesting.ts";

/** What people and programs ask of a run. */
export type Command = Extract<
  RunEvent,
  {
    type:
      | "approved"
      | "denied"
      | "answered"
      | "input_received"
      | "cancel_requested"
      | "retry_requested"
      | "pause_requested"
      | "resume_requested";
  }
>;

const by = z.string().min(1).max(1_000);
const reason = z.string().max(10_000);
const callId = z.string().max(100);
const decisionId = z.string().min(1).max(200).optional();

const commandSchema = z.discriminatedUnion("type", [
  z.object({
    type: z.literal("approved"),
    callId,
    by,
    argumentsHash: z.string().min(1).max(100).optional(),
    decisionId,
  }),
  z.object({ type: z.literal("denied"), callId, by, reason, decisionId }),
  z.object({ type: z.literal("answered"), callId, by, content: givenContentSchema, decisionId }),
  z.object({
    type: z.literal("input_received"),
    inputId: z.string().min(1).max(200),
    messages: inputSchema,
    by: by.optional(),
  }),
  z.object({ type: z.literal("cancel_requested"), by, reason }),
  z.object({ type: z.literal("pause_requested"), by, reason }),
  z.object({ type: z.literal("resume_requested"), by }),
  z.object({
    type: z.literal("retry_requested"),
    by,
    limits: limitsSchema.optional(),
    retryId: z.string().min(1).max(200).optional(),
  }),
]);

/** What is wrong with a command, in words; empty if nothing. What does not fit could not be read again once stored. */
export function problemsOfCommand(command: Command): string[] {
  if (command.type !== "input_received") return problemsOf(commandSchema, command);
  return problemsOf(commandSchema, { ...command, messages: command.messages.map(asGiven) });
}

/** A message as it was given, without what we name its calls by. */
function asGiven(message: Message): unknown {
  if (message.role === "tool") {
    const { callId: _callId, name: _name, outcome: _outcome, ...given } = message;
    return given;
  }
  if (message.role !== "assistant" || !message.toolCalls) return message;
  return { ...message, toolCalls: message.toolCalls.map(({ callId: _callId, ...call }) => call) };
}

/** The same for input that a run is sent. */
export function problemsOfInput(input: string | InputMessage[]): string[] {
  return problemsOf(inputSchema, input);
}

function problemsOf(schema: z.ZodType, value: unknown): string[] {
  const tooDeep = problemOfNesting(value);
  if (tooDeep) return [tooDeep];
  const issues = schema.safeParse(value).error?.issues ?? [];
  return issues.map(({ path, message }) => `${path.join(".") || "input"}: ${message}`);
}
