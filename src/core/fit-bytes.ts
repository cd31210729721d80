// Cuts what a tool has brought to the bytes that there is room for. The tool has run, so its result is not refused: the
// model reads that the rest is gone.

import { contentBytes, textBytes } from "./bytes.ts";
import type { Content, ContentPart, FullResult } from "./message.ts";
import { resultTextOf } from "./result.ts";
import type { Run } from "./run.ts";

/**
 * A result as far as there is room for it: of a message, and of what the run may still keep.
 *
 * @param room in bytes
 */
export function fitToBytes(content: Content, room: number): Content {
  if (fits(content, room)) return content;
  if (typeof content === "string") return fitText(content, room);
  const others = othersOf(content);
  const texts = content.filter((part) => !others.includes(part));
  const lost = noteOnLost(others);
  if (contentBytes(texts) + lost.length <= room && others.length > 0) return [...texts, { type: "text", text: lost }];
  return withLost(fitText(resultTextOf(texts), room), others);
}

/** Images and files. */
function othersOf(content: Content): ContentPart[] {
  return typeof content === "string" ? [] : content.filter(({ type }) => type !== "text" && type !== "refusal");
}

function noteOnLost({ length }: ContentPart[]): string {
  return `[${length} part(s) of this result, images or files, are too large to be kept and are left out here]`;
}

function withLost(text: string, others: ContentPart[]): string {
  return others.length === 0 ? text : `${text}\n${noteOnLost(others)}`;
}

function fits(content: Content, room: number): boolean {
  // No character takes more than six bytes, as an escaped one does.
  return (typeof content === "string" && content.length * 6 <= room) || contentBytes(content) <= room;
}

/** @param chars of which the text is the beginning */
function fitText(text: string, room: number, chars: number = text.length): string {
  let length = text.length;
  while (textBytes(text.slice(0, length)) > room) {
    length = Math.floor(length * Math.min(0.9, room / textBytes(text.slice(0, length))));
  }
  if (length === chars) return text;
  if (/[\uD800-\uDBFF]$/.test(text.slice(0, length))) length -= 1;
  const note = `[the rest of this result, ${chars - length} characters, is too large to be kept and is left out here]`;
  return `${text.slice(0, length)}\n${note}`;
}

/** What the notes above take at most, in bytes. */
const notesBytes = 512;

type Result = { content: Content; full?: FullResult | undefined };

/**
 * A result as far as its run may keep it as of now: it was fitted to what was left when its call began, and those of calls
 * beside it have come since.
 *
 * @param maxBytes what the run may hold; undefined: it was not told
 */
export function fitToRun(
  { bytes: held = 0 }: Pick<Run, "bytes">,
  { content, full }: Result,
  maxBytes: number | undefined,
): { content: Content; full?: FullResult } {
  const whole = { content, ...(full ? { full } : {}) };
  if (maxBytes === undefined) return whole;
  const left = Math.max(0, maxBytes - held);
  if (!full) return fits(content, left + notesBytes) ? whole : { content: fitToBytes(content, left) };
  const others = othersOf(content);
  const bytes = full.bytes + (others.length > 0 ? contentBytes(others) : 0);
  if (bytes <= left + notesBytes && fits(content, left + notesBytes)) return whole;
  // What was cut out for the model goes as well, and with it the end: the note on it would tell how to read on.
  const text = fitText(resultTextOf(content).slice(0, full.head), left, full.chars);
  return { content: withLost(text, others) };
}
