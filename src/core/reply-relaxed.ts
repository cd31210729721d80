import { toError } from "./errors.ts";
import { deepestNesting } from "./nesting.ts";

/**
 * JSON as models write it when they think of Python, JavaScript or Ruby: single and typographic quotes, keys without
 * quotes, `True`, `None`, `=>`, comments, a trailing comma, raw control characters in strings. All that is accepted has
 * one reading; all that is cut off or doubtful is refused.
 */
export type RelaxedResult = { ok: true; value: unknown } | { ok: false; problem: string };

type Reader = { text: string; at: number; depth: number };

const literals: Record<string, unknown> = {
  true: true,
  True: true,
  false: false,
  False: false,
  null: null,
  None: null,
};
const escapes: Record<string, string> = {
  '"': '"',
  "'": "'",
  "\\": "\\",
  "/": "/",
  b: "\b",
  f: "\f",
  n: "\n",
  r: "\r",
  t: "\t",
};
/** The closing quote of each opening one. */
const quotes: Record<string, string> = { '"': '"', "'": "'", "“": "”", "‘": "’" };

export function parseRelaxed(text: string): RelaxedResult {
  return attempt(text, readValue);
}

/** A call as Python writes it. */
export type KeywordCall = { name: string; arguments: Record<string, unknown> };

/** `[add(a=1), ping()]`, with or without the brackets; undefined if the text is anything else. */
export function parseKeywordCalls(text: string): KeywordCall[] | undefined {
  const result = attempt(text, (reader) => {
    if (peek(reader) === "[") return readItems(reader, "]", readCall);
    const calls: KeywordCall[] = [];
    for (; reader.at < text.length; skipSpace(reader)) calls.push(readCall(reader));
    return calls;
  });
  return result.ok ? (result.value as KeywordCall[]) : undefined;
}

function attempt(text: string, read: (reader: Reader) => unknown): RelaxedResult {
  const reader: Reader = { text, at: 0, depth: 0 };
  try {
    const value = read(reader);
    skipSpace(reader);
    if (reader.at < text.length) refuse(reader, "there is more after the value's end");
    return { ok: true, value };
  } catch (error) {
    return { ok: false, problem: toError(error).message };
  }
}

function refuse(reader: Reader, why: string): never {
  throw new Error(`${why}, at character ${reader.at + 1} of ${reader.text.length}`);
}

/** What matches a sticky pattern here, taken; empty if nothing does. */
function take(reader: Reader, pattern: RegExp): string {
  pattern.lastIndex = reader.at;
  const [found = ""] = pattern.exec(reader.text) ?? [];
  reader.at += found.length;
  return found;
}

/** Space and comments. */
function skipSpace(reader: Reader): void {
  take(reader, /(?:\s|\/\/[^\n]*|#[^\n]*|\/\*[\s\S]*?\*\/)*/y);
}

/** The next character that is no space; refuses at the end of the text. */
function peek(reader: Reader): string {
  skipSpace(reader);
  if (reader.at >= reader.text.length) refuse(reader, "the text ends before the value does");
  return reader.text.charAt(reader.at);
}

function readValue(reader: Reader): unknown {
  const next = peek(reader);
  if (next === "{" || next === "[") {
    reader.depth += 1;
    if (reader.depth > deepestNesting) refuse(reader, "the nesting is too deep");
    const value = next === "{" ? readObject(reader) : readItems(reader, "]", readValue);
    reader.depth -= 1;
    return value;
  }
  return Object.hasOwn(quotes, next) ? readString(reader, next) : readWord(reader);
}

/** Items between brackets, parted by commas; the last may be followed by one. */
function readItems<T>(reader: Reader, close: string, read: (reader: Reader) => T): T[] {
  const items: T[] = [];
  reader.at += 1;
  while (peek(reader) !== close) {
    items.push(read(reader));
    const next = peek(reader);
    if (next === ",") reader.at += 1;
    else if (next !== close) refuse(reader, "a comma or the closing bracket is missing");
  }
  reader.at += 1;
  return items;
}

function readObject(reader: Reader): Record<string, unknown> {
  const entries = readItems(reader, "}", (inner): [string, unknown] => {
    const quote = peek(inner);
    const key = Object.hasOwn(quotes, quote) ? readString(inner, quote) : take(inner, /[A-Za-z_$][\w$]*/y);
    if (key === "" && !Object.hasOwn(quotes, quote)) refuse(inner, "a key is missing");
    skipSpace(inner);
    if (take(inner, /:|=>/y) === "") refuse(inner, "a colon is missing");
    return [key, readValue(inner)];
  });
  return toObject(reader, entries);
}

function toObject(reader: Reader, entries: [string, unknown][]): Record<string, unknown> {
  if (new Set(entries.map(([key]) => key)).size < entries.length) refuse(reader, "a key is given twice");
  return Object.fromEntries(entries);
}

function readCall(reader: Reader): KeywordCall {
  skipSpace(reader);
  const name = take(reader, /[A-Za-z_][\w.-]*/y);
  if (name === "" || reader.text.charAt(reader.at) !== "(") refuse(reader, "a call is missing");
  const entries = readItems(reader, ")", (inner): [string, unknown] => {
    skipSpace(inner);
    const key = take(inner, /[A-Za-z_]\w*(?=\s*=)/y);
    skipSpace(inner);
    if (take(inner, /[=]/y) === "") refuse(inner, "the name of an argument is missing");
    return [key, readValue(inner)];
  });
  return { name, arguments: toObject(reader, entries) };
}

function readString(reader: Reader, open: string): string {
  const close = quotes[open];
  let value = "";
  reader.at += 1;
  for (;;) {
    value += take(reader, /[^\\"'”’]+/y);
    if (reader.at >= reader.text.length) refuse(reader, "the text ends inside a string");
    const char = reader.text.charAt(reader.at);
    reader.at += 1;
    if (char === close) return value;
    value += char === "\\" ? readEscape(reader) : char;
  }
}

function readEscape(reader: Reader): string {
  const hex = take(reader, /u[0-9a-fA-F]{4}/y);
  if (hex !== "") return String.fromCharCode(Number.parseInt(hex.slice(1), 16));
  const char = reader.text.charAt(reader.at);
  reader.at += 1;
  // An unknown escape has two readings (`C:\dir`): refused, not guessed.
  return Object.hasOwn(escapes, char) ? (escapes[char] as string) : refuse(reader, "an unknown escape");
}

function readWord(reader: Reader): unknown {
  const start = reader.at;
  const word = take(reader, /[^\s,:{}[\]"'()]{1,400}/y);
  if (Object.hasOwn(literals, word)) return literals[word];
  reader.at = start;
  // `007` has two readings; a number that is none in JSON (NaN) has none.
  if (!/^[+-]?(?:(?:0|[1-9]\d*)(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?$/.test(word)) refuse(reader, "an unexpected word");
  if (isInexact(word)) refuse(reader, `the number ${word} cannot be held exactly; send it as text`);
  reader.at += word.length;
  return Number(word);
}

/** Whether a number would become another one: a double holds whole numbers of about 16 digits, and none beyond 1e308. */
export function isInexact(number: string): boolean {
  const value = Number(number);
  if (!Number.isFinite(value)) return true;
  return /^[+-]?\d{16,}$/.test(number) && BigInt(number.replace("+", "")) !== BigInt(value);
}
