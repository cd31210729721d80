// Where a transcript may be cut: never between a call and its results.

import type { Message, SystemMessage } from "./message.ts";

/** A half-open range of transcript indexes that is kept or left out as a whole. */
export type Segment = { from: number; to: number };

export function isSystem(message: Message): message is SystemMessage {
  return message.role === "system" || message.role === "developer";
}

/** Words of somebody else; what the run itself tells the model is none. */
export function isFromUser(message: Message): boolean {
  return message.role === "user" && message.origin !== "run";
}

/**
 * The turns of a transcript from index `from` on: what was said to the model, its answer, and the results of its calls.
 * The last one may still lack its answer. A range that starts between a call and its results starts after them.
 */
export function toSegments(messages: readonly Message[], from: number): Segment[] {
  const segments: Segment[] = [];
  let current: Segment | undefined;
  let answered = false;
  for (let index = from; index < messages.length; index++) {
    const { role } = messages[index] as Message;
    if (role === "tool") {
      if (current) current.to = index + 1;
      continue;
    }
    if (!current || answered) {
      current = { from: index, to: index + 1 };
      segments.push(current);
      answered = false;
    }
    current.to = index + 1;
    answered = role === "assistant";
  }
  return segments;
}
