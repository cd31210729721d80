// What the model was sent, laid beside the transcript: what was kept as it is, changed, added or left out. Pure.

import { type Message, textOf } from "../../core/message.ts";
import type { RequestView } from "../../core/report.ts";

/**
 * - `same`: as it is in the transcript; - `changed`: cut, or with words added, or several in one;
 * - `added`: the transcript has nothing like it: a summary, a note; - `left_out`: a range that was not sent.
 * `index`: in the transcript; `sent`: among the messages as sent, from 0.
 */
export type WindowRow =
  | { kind: "same"; index: number; sent: number; message: Message }
  | { kind: "changed"; index: number; sent: number; message: Message; was: Message }
  | { kind: "added"; sent: number; message: Message }
  | { kind: "left_out"; from: number; to: number };

/** How far ahead the transcript's side of a message is looked for: rendering moves system text to the front. */
const lookAhead = 200;

/** @param transcript the messages that there were when the request was made; those that were left out may be missing. */
export function diffWindow(
  request: Pick<RequestView, "leftOut" | "messages">,
  transcript: readonly Message[],
): WindowRow[] {
  const { leftOut, messages = [] } = request;
  const waiting = transcript.flatMap((_, index) =>
    leftOut.some(([from, to]) => index >= from && index < to) ? [] : [index],
  );
  const rows: WindowRow[] = [];
  const gaps = leftOut.filter(([from, to]) => to > from);
  let next = 0;
  for (const [sent, message] of messages.entries()) {
    const found = findLike(message, waiting, transcript, next);
    if (found === -1) {
      rows.push({ kind: "added", sent, message });
      continue;
    }
    const index = waiting[found] as number;
    while (gaps[0] && gaps[0][0] < index) pushGap(rows, gaps);
    const was = transcript[index] as Message;
    rows.push(
      isSame(message, was) ? { kind: "same", index, sent, message } : { kind: "changed", index, sent, message, was },
    );
    waiting.splice(found, 1);
    // System text is sent before all else and tells nothing of where the others are; of those, what came before one
    // that was found, and was not found itself, went into another.
    if (isSystem(message)) next -= found < next ? 1 : 0;
    else next = found;
  }
  while (gaps.length > 0) pushGap(rows, gaps);
  return rows;
}

function pushGap(rows: WindowRow[], gaps: [number, number][]): void {
  const [gap] = gaps.splice(0, 1);
  if (gap) rows.push({ kind: "left_out", from: gap[0], to: gap[1] });
}

function findLike(message: Message, waiting: readonly number[], transcript: readonly Message[], next: number): number {
  const start = isSystem(message) ? 0 : next;
  for (let place = start; place < Math.min(waiting.length, start + lookAhead); place++) {
    const other = transcript[waiting[place] as number];
    if (other && isLike(message, other)) return place;
  }
  return -1;
}

const isSystem = ({ role }: Message): boolean => role === "system" || role === "developer";

function isLike(sent: Message, kept: Message): boolean {
  if (sent.role !== kept.role) return false;
  const [name, other] = [nameOf(sent), nameOf(kept)];
  if (name !== undefined || other !== undefined) return name === other;
  const [a, b] = [textOf(sent.content), textOf(kept.content)];
  const beginning = Math.min(a.length, b.length, 40);
  return a === b || (beginning > 0 && (a.slice(0, beginning) === b.slice(0, beginning) || a.includes(b)));
}

/** What tells a message for certain: the call that it settles, or the first that it makes. */
function nameOf(message: Message): string | undefined {
  if (message.role === "tool") return message.callId;
  return message.role === "assistant" ? message.toolCalls?.[0]?.callId : undefined;
}

function isSame(sent: Message, kept: Message): boolean {
  return JSON.stringify(sent.content) === JSON.stringify(kept.content);
}
