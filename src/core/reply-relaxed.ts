import { toError } from "./errors.ts";

/**
 * JSON as models write it when they think of Python: single quotes, `True`, `False`, `None`, a trailing comma, raw
 * control characters in strings. All that is accepted has one reading; all that is cut off or doubtful is refused.
 */
export type RelaxedResult = { ok: true; value: unknown } | { ok: false; problem: string };

type Reader = { text: string; at: number; depth: number };

const maxDepth = 100;
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

export function parseRelaxed(text: string): RelaxedResult {
  const reader: Reader = { text, at: 0, depth: 0 };
  try {
    const value = readValue(reader);
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

function skipSpace(reader: Reader): void {
  while (reader.at < reader.text.length && /\s/.test(reader.text.charAt(reader.at))) reader.at += 1;
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
    if (reader.depth > maxDepth) refuse(reader, "the nesting is too deep");
    const value = next === "{" ? readObject(reader) : readList(reader);
    reader.depth -= 1;
    return value;
  }
  if (next === '"' || next === "'") return readString(reader, next);
  return readWord(reader);
}

function readObject(reader: Reader): Record<string, unknown> {
  const entries: [string, unknown][] = [];
  reader.at += 1;
  while (peek(reader) !== "}") {
    const quote = peek(reader);
    if (quote !== '"' && quote !== "'") refuse(reader, "a quoted key is missing");
    const key = readString(reader, quote);
    if (peek(reader) !== ":") refuse(reader, "a colon is missing");
    reader.at += 1;
    entries.push([key, readValue(reader)]);
    readSeparator(reader, "}");
  }
  reader.at += 1;
  if (new Set(entries.map(([key]) => key)).size < entries.length) refuse(reader, "a key is given twice");
  return Object.fromEntries(entries);
}

function readList(reader: Reader): unknown[] {
  const values: unknown[] = [];
  reader.at += 1;
  while (peek(reader) !== "]") {
    values.push(readValue(reader));
    readSeparator(reader, "]");
  }
  reader.at += 1;
  return values;
}

function readSeparator(reader: Reader, close: string): void {
  const next = peek(reader);
  if (next === ",") reader.at += 1;
  else if (next !== close) refuse(reader, "a comma or the closing bracket is missing");
}

function readString(reader: Reader, quote: string): string {
  let value = "";
  reader.at += 1;
  for (;;) {
    if (reader.at >= reader.text.length) refuse(reader, "the text ends inside a string");
    const char = reader.text.charAt(reader.at);
    reader.at += 1;
    if (char === quote) return value;
    value += char === "\\" ? readEscape(reader) : char;
  }
}

function readEscape(reader: Reader): string {
  const char = reader.text.charAt(reader.at);
  const hex = /^u([0-9a-fA-F]{4})/.exec(reader.text.slice(reader.at, reader.at + 5))?.[1];
  reader.at += hex === undefined ? 1 : 5;
  if (hex !== undefined) return String.fromCharCode(Number.parseInt(hex, 16));
  // An unknown escape has two readings (`C:\dir`): refused, not guessed.
  return escapes[char] ?? refuse(reader, "an unknown escape");
}

function readWord(reader: Reader): unknown {
  const word = reader.text.slice(reader.at, reader.at + 64).replace(/[\s,:{}[\]"'].*$/s, "");
  if (Object.hasOwn(literals, word)) {
    reader.at += word.length;
    return literals[word];
  }
  if (!/^-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?$/.test(word)) refuse(reader, "an unexpected word");
  reader.at += word.length;
  return Number(word);
}
