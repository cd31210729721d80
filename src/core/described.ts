import type { Message } from "./message.ts";

/** A call that a dry run told of instead of making it: JSON text of its arguments, and what the tool says it would do. */
export type DescribedCall = { callId: string; tool: string; arguments: string; text: string };

/** The calls of a dry run's transcript that were described and not executed, in order. */
export function describedCalls(messages: readonly Message[]): DescribedCall[] {
  const given = new Map<string, string>();
  return messages.flatMap((message): DescribedCall[] => {
    if (message.role === "assistant") {
      for (const call of message.toolCalls ?? []) given.set(call.callId, call.arguments);
    }
    if (message.role !== "tool" || message.described === undefined) return [];
    const { callId, name: tool, described: text } = message;
    return [{ callId, tool, arguments: given.get(callId) ?? "", text }];
  });
}
