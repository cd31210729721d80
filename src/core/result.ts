// Cuts a tool's result for the model and says how to read the rest (features H14). What is cut out is kept beside the
// transcript, so that nothing is stored twice: the whole result is the beginning and the end in the message, and the
// middle that was kept.

import { z } from "zod";
import type { Content, ContentPart, FullResult } from "./message.ts";

/** Name of the tool that reads more of a result; offered once a result was cut. */
export const readResultName = "read_result";

/** Counts tokens exactly or about; see `TokenCounter`. */
export type Counting = { count(text: string): number; cut(text: string, tokens: number): string };

/** `name`: what the model calls the result by. `ref`: what its kept middle is stored under. */
export type ResultNames = { name: string; runId: string; ref: string };

export type CutResult = { content: Content; full: FullResult; middle: string };

/** No token has more bytes than this but in runs of one character; a text of more bytes than that is too long uncounted. */
const bytesPerToken = 16;
/** The share of the room that the beginning gets; the end of an output often says how it went. */
const headShare = 0.75;

/** The text of a result: of its parts, all of theirs. */
export function resultTextOf(content: Content): string {
  if (typeof content === "string") return content;
  return content.flatMap((part) => partText(part) ?? []).join("\n");
}

function partText(part: ContentPart): string | undefined {
  const text = part.type === "text" || part.type === "refusal" ? part[part.type] : undefined;
  return typeof text === "string" ? text : undefined;
}

/** Whether a text of so many bytes may have more tokens than that: none has more than bytes. */
export function mayExceed(bytes: number, maxTokens: number): boolean {
  return bytes > maxTokens;
}

/**
 * The result as the model gets it, and what was left out; null if it fits as it is. No more than `maxTokens` of text, but
 * for the note on what is left out, which is always whole. Images and files stay as they are, after the text.
 *
 * @param bytes size of the text in UTF-8.
 */
export function cutResult(
  content: Content,
  { maxTokens, bytes, names, counter }: { maxTokens: number; bytes: number; names: ResultNames; counter: Counting },
): CutResult | null {
  const text = resultTextOf(content);
  if (!mayExceed(bytes, maxTokens)) return null;
  if (bytes <= maxTokens * bytesPerToken && counter.count(text) <= maxTokens) return null;
  const { name, runId, ref } = names;
  const size = { name, runId, ref, chars: text.length, bytes };
  const note = counter.count(noteOf(size, text.length, text.length));
  // Tokens of the parts need not add up to those of the whole, least of all where they are estimated.
  for (let room = Math.max(maxTokens - note - 2, 0); ; room = Math.floor(room * 0.9)) {
    const head = counter.cut(text.slice(0, room * bytesPerToken), Math.ceil(room * headShare));
    const tail = endOf(text.slice(head.length), Math.floor(room * (1 - headShare)), counter);
    const to = text.length - tail.length;
    if (to === head.length) return null;
    const shown = `${head}\n${noteOf(size, head.length, to)}\n${tail}`;
    if (room > 0 && counter.count(shown) > maxTokens) continue;
    const others = typeof content === "string" ? [] : content.filter((part) => partText(part) === undefined);
    return {
      content: others.length === 0 ? shown : [{ type: "text", text: shown }, ...others],
      full: { ...size, head: head.length, tail: tail.length },
      middle: text.slice(head.length, to),
    };
  }
}

function noteOf({ name, chars }: Pick<FullResult, "name" | "chars">, from: number, to: number): string {
  const call = JSON.stringify({ result: name, from });
  return `[cut: characters ${from} to ${to} of ${chars} are left out here. To read on call ${readResultName} with ${call}]`;
}

/** The longest end, about, of at most so many tokens; never begins inside a character. */
function endOf(text: string, tokens: number, { count }: Counting): string {
  let length = Math.min(text.length, tokens * bytesPerToken);
  const last = (): string => text.slice(text.length - length);
  while (count(last()) > tokens) length = Math.floor(length * 0.8);
  const end = last();
  return /^[\uDC00-\uDFFF]/.test(end) ? end.slice(1) : end;
}

/** A piece of a result: characters from `from` up to `to` of all `chars`. */
export type ResultRange = { text: string; from: number; to: number; chars: number };

/** Where a piece lies: `middle` is what of the kept middle must be read for it, half open; empty if nothing. */
export type RangePlan = { from: number; to: number; middle: [from: number, to: number] };

/** Clamps a range to the whole result, and says what to read for it. */
export function planRange({ head, tail, chars }: FullResult, range: { from: number; length: number }): RangePlan {
  const from = Math.min(Math.max(0, Math.trunc(range.from)), chars);
  const to = Math.min(chars, from + Math.max(0, Math.trunc(range.length)));
  const start = Math.max(from, head) - head;
  return { from, to, middle: [start, Math.max(start, Math.min(to, chars - tail) - head)] };
}

/** The piece, put together from the message that shows beginning and end, and from what was read of the middle. */
export function joinRange(content: Content, full: FullResult, plan: RangePlan, middle: string): ResultRange {
  const { head, tail, chars } = full;
  const { from, to } = plan;
  const shown = resultTextOf(content);
  const endAt = chars - tail;
  const end = shown.slice(shown.length - tail);
  const text = `${shown.slice(from, Math.min(to, head))}${middle}${end.slice(Math.max(from, endAt) - endAt, Math.max(to, endAt) - endAt)}`;
  return { text, from, to: from + text.length, chars };
}

/** The piece without the halves of characters that it begins or ends with; servers refuse those. */
export function wholeCharacters(range: ResultRange): ResultRange {
  const from = /^[\uDC00-\uDFFF]/.test(range.text) ? 1 : 0;
  const to = /[\uD800-\uDBFF]$/.test(range.text) ? range.text.length - 1 : range.text.length;
  const text = range.text.slice(from, to);
  return { ...range, text, from: range.from + from, to: range.from + from + text.length };
}

/** What a model may ask of `read_result`. Numbers may come as text. */
export const readResultSchema: z.ZodType<ReadResultArguments> = z.object({
  result: z.string(),
  from: z.coerce.number().int().min(0).default(0),
  length: z.coerce.number().int().min(1).default(Number.MAX_SAFE_INTEGER),
  find: z.string().max(200).optional(),
});
export type ReadResultArguments = { result: string; from: number; length: number; find?: string | undefined };

/** What the model reads of a piece. */
export function rangeText({ text, from, to, chars }: ResultRange): string {
  if (text === "") return `[there is nothing from character ${from} on: the result has ${chars}]`;
  const next = to < chars ? `; to read on use "from": ${to}` : "; this is its end";
  return `[characters ${from} to ${to} of ${chars}${next}]\n${text}`;
}
