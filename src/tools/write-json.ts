// JSON of whatever a tool returned, bounded in length, time and memory: JSON.stringify writes all of it before anything
// can be cut, a list of numbers for each Buffer, and never ends where objects are shared many times.

import { wholeEnd } from "../core/text.ts";
import { reasonOf } from "./messages.ts";

/** What is nested deeper is named, not shown. */
const maxDepth = 1_000;
/** Characters of a text that are escaped at a time. */
const pieceLength = 65_536;

/** `whole`: nothing is missing at its end. */
export type Written = { text: string; whole: boolean };

/** `recent`: what was written since the last of the `pieces`. Lists are joined faster than long texts grow. */
type Writer = {
  pieces: string[];
  recent: string[];
  length: number;
  readonly limit: number;
  readonly above: Set<object>;
};

/**
 * As JSON.stringify, but it ends soon after `limit` characters, and what JSON cannot say is named: bytes, big integers,
 * maps and sets, errors, cycles, properties that throw. Undefined for a function or a symbol.
 */
export function writeJson(value: unknown, limit: number): Written | undefined {
  const writer: Writer = { pieces: [], recent: [], length: 0, limit, above: new Set() };
  const plain = toPlain(value, "");
  if (isNothing(plain)) return undefined;
  write(writer, plain);
  const text = [...writer.pieces, ...writer.recent].join("");
  return { text, whole: text.length <= limit };
}

function add(writer: Writer, text: string): void {
  const { pieces, recent } = writer;
  writer.length += text.length;
  recent.push(text);
  if (recent.length >= 4_096) pieces.push(recent.splice(0).join(""));
}

function isFull({ length, limit }: Writer): boolean {
  return length > limit;
}

function isNothing(value: unknown): boolean {
  return value === undefined || typeof value === "function" || typeof value === "symbol";
}

/** What stands for a value in JSON: a text, number, boolean or null, or something to go through. */
function toPlain(value: unknown, key: string): unknown {
  if (typeof value === "bigint") return value.toString();
  if (typeof value !== "object" || value === null) return value;
  if (ArrayBuffer.isView(value) || value instanceof ArrayBuffer) return `[${value.byteLength} bytes of binary data]`;
  if (value instanceof Error) return reasonOf(value);
  const { toJSON } = value as { toJSON?: unknown };
  const shown: unknown = typeof toJSON === "function" ? toJSON.call(value, key) : value;
  if (shown instanceof String || shown instanceof Number || shown instanceof Boolean) return shown.valueOf();
  return shown === value ? shown : toPlainAgain(shown);
}

/** What toJSON gave is not asked again. */
function toPlainAgain(shown: unknown): unknown {
  if (typeof shown === "bigint") return shown.toString();
  return shown instanceof Error ? reasonOf(shown) : shown;
}

function write(writer: Writer, value: unknown): void {
  if (typeof value === "string") writeText(writer, value);
  else if (typeof value === "object" && value !== null) writeInner(writer, value);
  // As JSON has it: null for what is no number.
  else add(writer, typeof value === "number" && !Number.isFinite(value) ? "null" : String(value));
}

function writeText(writer: Writer, text: string): void {
  if (text.length <= pieceLength) return add(writer, JSON.stringify(text));
  add(writer, '"');
  for (let from = 0; from < text.length && !isFull(writer); ) {
    const to = wholeEnd(text, Math.min(text.length, from + pieceLength));
    add(writer, JSON.stringify(text.slice(from, to)).slice(1, -1));
    from = to;
  }
  add(writer, '"');
}

function writeInner(writer: Writer, value: object): void {
  const { above } = writer;
  if (above.has(value)) return writeText(writer, "[the same again: it holds itself]");
  if (above.size >= maxDepth) return writeText(writer, "[nested too deep]");
  above.add(value);
  if (Array.isArray(value)) writeArray(writer, value);
  else if (value instanceof Map || value instanceof Set) writeAll(writer, value);
  else writeObject(writer, value as Record<string, unknown>);
  above.delete(value);
}

function writeArray(writer: Writer, list: readonly unknown[]): void {
  const { length } = list;
  add(writer, "[");
  for (let index = 0; index < length && !isFull(writer); index++) {
    writeItem(writer, read(list, index), index === 0);
  }
  add(writer, "]");
}

function writeAll(writer: Writer, values: Iterable<unknown>): void {
  let isFirst = true;
  add(writer, "[");
  for (const value of values) {
    if (isFull(writer)) break;
    writeItem(writer, read([value], 0), isFirst);
    isFirst = false;
  }
  add(writer, "]");
}

function writeItem(writer: Writer, plain: unknown, isFirst: boolean): void {
  if (!isFirst) add(writer, ",");
  if (isNothing(plain)) add(writer, "null");
  else write(writer, plain);
}

function writeObject(writer: Writer, value: Record<string, unknown>): void {
  let before = "";
  add(writer, "{");
  for (const key of Object.keys(value)) {
    if (isFull(writer)) break;
    const plain = read(value, key);
    if (isNothing(plain)) continue;
    add(writer, before);
    before = ",";
    writeText(writer, key);
    add(writer, ":");
    write(writer, plain);
  }
  add(writer, "}");
}

/** A property may be code that throws. */
function read(holder: object, key: string | number): unknown {
  try {
    const value = (holder as Record<string | number, unknown>)[key];
    return typeof value === "object" || typeof value === "bigint" ? toPlain(value, String(key)) : value;
  } catch (thrown) {
    return `[cannot be read: ${reasonOf(thrown)}]`;
  }
}
