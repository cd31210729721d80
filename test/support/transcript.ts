import { type Message, textOf } from "../../src/core/message.ts";

/** What is wrong with a transcript (invariant 3), in words; empty if nothing. */
export function problemsOf(messages: readonly Message[]): string[] {
  const problems: string[] = [];
  let owed: string[] = [];
  for (const [index, message] of messages.entries()) {
    if (message.role === "tool") {
      const expected = owed.shift();
      if (message.callId !== expected) problems.push(`${index}: result of ${message.callId}, expected ${expected}`);
    } else {
      if (owed.length > 0) problems.push(`${index}: ${message.role} while ${owed.join(", ")} had no result`);
      owed = message.role === "assistant" ? (message.toolCalls ?? []).map((call) => call.callId) : [];
    }
  }
  if (owed.length > 0) problems.push(`at the end ${owed.join(", ")} had no result`);
  return problems;
}

/** The assistant's texts, in order. */
export function textsOf(messages: readonly Message[]): string[] {
  return messages.flatMap((message) => (message.role === "assistant" ? [textOf(message.content)] : []));
}
