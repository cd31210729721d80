import { problemsOfOrder } from "../../src/chaos/judge.ts";
import { type Message, textOf } from "../../src/core/message.ts";

/** What is wrong with a transcript (invariant 3), in words; empty if nothing. */
export function problemsOf(messages: readonly Message[]): string[] {
  return problemsOfOrder(messages).map(({ message }) => message);
}

/** The assistant's texts, in order. */
export function textsOf(messages: readonly Message[]): string[] {
  return messages.flatMap((message) => (message.role === "assistant" ? [textOf(message.content)] : []));
}
