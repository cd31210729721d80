import { type Content, type ContentPart, type Message, textOf } from "../core/message.ts";
import { describePart, imageUrlOf, isAttachment, kindOf } from "../core/parts.ts";
import type { ModelReply } from "../core/reply.ts";

// Message content in the shapes of the GenAI conventions: `{ role, parts }`. Recorded only when asked for.

type Part = { type: string; [field: string]: unknown };
export type ConventionMessage = { role: string; parts: Part[]; name?: string; finish_reason?: string };

/** Instructions that were given apart from the history. */
export function toInstructions(instructions: string): Part[] {
  return instructions === "" ? [] : [{ type: "text", content: instructions }];
}

export function toInputMessages(messages: Message[]): ConventionMessage[] {
  return messages.map((message) => {
    switch (message.role) {
      case "tool":
        return {
          role: "tool",
          parts: [{ type: "tool_call_response", id: message.toolCallId, response: toResult(message.content) }],
        };
      case "assistant":
        return { role: "assistant", parts: toReplyParts({ ...message, toolCalls: message.toolCalls ?? [] }) };
      case "user":
        return {
          role: "user",
          parts: toParts(message.content),
          ...(message.name === undefined ? {} : { name: message.name }),
        };
      default:
        return { role: "system", parts: toParts(message.content) };
    }
  });
}

export function toOutputMessages(reply: ModelReply, finishReason: string): ConventionMessage[] {
  // Inside a message the convention says `tool_call`; the attribute keeps the provider's word.
  const finish = finishReason === "tool_calls" || finishReason === "function_call" ? "tool_call" : finishReason;
  return [{ role: "assistant", parts: toReplyParts(reply), finish_reason: finish }];
}

/** Arguments as an object where they are one, else the text as the model wrote it. */
export function toArguments(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

/** A tool's result as a value: JSON where it is JSON, else text or parts. */
export function toResult(content: Content): unknown {
  if (typeof content === "string") return toArguments(content);
  return content.every((part) => part.type === "text") ? textOf(content) : toParts(content);
}

function toReplyParts(reply: Omit<ModelReply, "toolCalls"> & { toolCalls: ModelReply["toolCalls"] }): Part[] {
  const reasoning = reply.extra?.reasoning_content ?? reply.extra?.reasoning;
  return [
    ...(typeof reasoning === "string" ? [{ type: "reasoning", content: reasoning }] : []),
    ...(reply.content === null ? [] : toParts(reply.content)),
    ...(reply.refusal === undefined ? [] : [{ type: "refusal", content: reply.refusal }]),
    ...reply.toolCalls.map((call) => ({
      type: "tool_call",
      id: call.id ?? null,
      name: call.name,
      arguments: toArguments(call.arguments),
    })),
  ];
}

function toParts(content: Content): Part[] {
  if (typeof content === "string") return content === "" ? [] : [{ type: "text", content }];
  return content.map(toPart);
}

/** Data of parts never goes into a trace: it is megabytes, and no redaction reads it. */
function toPart(part: ContentPart): Part {
  if (part.type === "text" && typeof part.text === "string") return { type: "text", content: part.text };
  const url = imageUrlOf(part);
  if (url !== undefined && !url.startsWith("data:")) return { type: "uri", modality: "image", uri: url };
  return isAttachment(part) ? { type: kindOf(part), description: describePart(part) } : part;
}
