import type { Content, ContentPart, Message, ToolCall } from "../core/message.ts";
import { dataOf, isTextFile, maxInlinedBytes } from "../core/parts.ts";
import { wholeEnd } from "../core/text.ts";
import type { TokenCounter } from "../ports.ts";
import { estimateTokens } from "./estimate.ts";

/** Tokens of an image or another part that is no text: what a picture of middling size takes at the large providers. */
export const partTokens = 1_000;
/** What role and separators of a message take. */
const messageOverhead = 4;
/** What a call takes beside its name and arguments: its id and the marks around it. */
const callOverhead = 20;

/**
 * Counts as `model` does: exactly for models of OpenAI, with an estimate for all others. The vocabulary, some 75 MB, is
 * loaded by the first call that needs it.
 */
export async function tokenCounter(model: string): Promise<TokenCounter> {
  const encoding = encodingOf(model);
  const count = encoding === undefined ? estimateTokens : await loadCount(encoding);
  return toCounter(count, encoding !== undefined);
}

export type Encoding = "o200k_base" | "cl100k_base";

/** The vocabulary of a model of OpenAI, whatever a gateway puts before its name; undefined for all others. */
export function encodingOf(model: string): Encoding | undefined {
  const name = model.toLowerCase().split("/").at(-1) ?? "";
  if (/^(?:ft:)?(?:gpt-4o|gpt-4\.|gpt-[5-9]|chatgpt-|o[1-9](?:-|$)|gpt-oss)/.test(name)) return "o200k_base";
  if (/^(?:ft:)?(?:gpt-4|gpt-3\.5|gpt-35)/.test(name)) return "cl100k_base";
  return undefined;
}

type Encode = (text: string, options: { disallowedSpecial: Set<string> }) => number;
const loaded = new Map<Encoding, Promise<(text: string) => number>>();

function loadCount(encoding: Encoding): Promise<(text: string) => number> {
  const known = loaded.get(encoding) ?? importCount(encoding);
  loaded.set(encoding, known);
  return known;
}

async function importCount(encoding: Encoding): Promise<(text: string) => number> {
  const { countTokens, setMergeCacheSize } =
    encoding === "o200k_base"
      ? await import("gpt-tokenizer/encoding/o200k_base")
      : await import("gpt-tokenizer/encoding/cl100k_base");
  setMergeCacheSize(mergeCacheSize);
  return (text) => countInPieces(text, countTokens as Encode);
}

/** Once the tokenizer's cache is full, dropping an entry takes time in proportion to its size, 100,000 by default. */
const mergeCacheSize = 1_000;

/** Text that looks like a special token is text like any other. */
const asText = { disallowedSpecial: new Set<string>() };

/** The tokenizer's time grows with the square of the longest run without a break: longer ones are taken in pieces. */
const longestRun = 512;
const longRuns = new RegExp(`[^\\s]{${longestRun}}|\\s{${longestRun}}`, "gu");

function countInPieces(text: string, count: Encode): number {
  const clean = text.isWellFormed() ? text : text.toWellFormed();
  let tokens = 0;
  let from = 0;
  for (const match of clean.matchAll(longRuns)) {
    const to = match.index + match[0].length;
    tokens += count(clean.slice(from, match.index), asText) + count(match[0], asText);
    from = to;
  }
  return tokens + (from === 0 ? count(clean, asText) : count(clean.slice(from), asText));
}

function toCounter(count: (text: string) => number, exact: boolean): TokenCounter {
  const counter: TokenCounter = {
    exact,
    count,
    countMessage: (message) => countMessage(message, count),
    cut: (text, tokens) => cutText(text, tokens, count),
  };
  return counter;
}

function countMessage(message: Message, count: (text: string) => number): number {
  const content = countContent(message.content, count) + messageOverhead;
  if (message.role !== "assistant") return content;
  const calls = (message.toolCalls ?? []).reduce((sum, call) => sum + countCall(call, count), 0);
  const extra = message.extra ? count(JSON.stringify(message.extra)) : 0;
  return content + calls + extra + count(message.refusal ?? "");
}

function countCall(call: ToolCall, count: (text: string) => number): number {
  const extra = call.extra ? count(JSON.stringify(call.extra)) : 0;
  return count(call.name) + count(call.arguments) + extra + callOverhead;
}

function countContent(content: Content | null, count: (text: string) => number): number {
  if (content === null) return 0;
  if (typeof content === "string") return count(content);
  return content.reduce((sum, part) => sum + countPart(part, count), 0);
}

function countPart(part: ContentPart, count: (text: string) => number): number {
  if (part.type === "text" && typeof part.text === "string") return count(part.text);
  // A file of text is sent as its text; decoding it only to count would cost more than it is worth.
  const bytes = isTextFile(part) ? (dataOf(part)?.bytes ?? 0) : 0;
  return partTokens + Math.ceil(Math.min(bytes, maxInlinedBytes) / bytesPerToken);
}

const bytesPerToken = 3;

/**
 * A prefix of at most so many tokens that never ends inside a character: the longest, to within a few characters and a
 * token or two for each piece that it is measured in.
 */
function cutText(text: string, tokens: number, count: (text: string) => number): string {
  // No token is shorter than a byte, and none longer than this but for runs of one character: no need to look further.
  if (text.length * maxBytesPerUnit <= tokens) return text;
  const end = Math.min(text.length, Math.max(0, tokens) * charsPerToken);
  if (end === text.length && count(text) <= tokens) return text;
  let length = measure(text, end, { tokens, count });
  while (length > 0 && count(prefix(text, length)) > tokens) length = Math.floor(length * 0.998);
  return prefix(text, length);
}

/** How many characters have about so many tokens; counts most of them only once. */
function measure(
  text: string,
  end: number,
  { tokens, count }: { tokens: number; count: (text: string) => number },
): number {
  let low = 0;
  let left = tokens;
  let high = end;
  while (low < end) {
    const piece = prefix(text.slice(low, end), pieceLength);
    const size = count(piece);
    high = low + piece.length;
    if (size > left) break;
    low = high;
    left -= size;
  }
  const start = low;
  while (high - low > precision) {
    const middle = Math.floor((low + high) / 2);
    if (count(prefix(text.slice(start, end), middle - start)) <= left) low = middle;
    else high = middle;
  }
  return low;
}

/** Bytes of UTF-8 that a UTF-16 unit takes at most. */
const maxBytesPerUnit = 3;
const pieceLength = 8_192;
const charsPerToken = 32;
const precision = 2;

function prefix(text: string, length: number): string {
  return text.slice(0, wholeEnd(text, length));
}
