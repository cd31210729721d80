import { deepestNesting } from "./nesting.ts";
import { isInexact, parseRelaxed } from "./reply-relaxed.ts";
import { withoutFence } from "./reply-text-json.ts";

/** `text` is JSON that parses to `value`: the model's own text where that was sound. */
export type ParsedArguments =
  | { ok: true; value: Record<string, unknown>; text: string }
  | { ok: false; problem: string };

/** Tokens of a model's template that leak after the end of what it wrote. */
const trailingTokens = /(?:\s|<\|[\w▁｜]{1,40}\|>|<\/s>|<\/tool_call>|<end_of_turn>)+$/;
const maxTrailing = 200;

/**
 * Reads the arguments of a call. An empty value is `{}`, a double encoding is undone, and what is not JSON is read
 * only where one reading is possible: fences, quotes, literals, comments, trailing commas, raw control characters, an
 * empty object before the real one, the same object twice, a list around the one object. What was cut off is never
 * completed, and neither a repeated key nor a number that would become another one is let pass.
 */
export function parseArguments(text: string): ParsedArguments {
  let trimmed = text.trim();
  for (let layer = 0; ; layer += 1) {
    if (trimmed === "") return sound({});
    const strict = tryJson(trimmed);
    if (strict !== undefined) return fromJson(strict.value, trimmed, 0);
    const inner = layer < maxLayers ? unwrap(trimmed) : trimmed;
    if (inner === trimmed) break;
    trimmed = inner;
  }
  const relaxed = parseRelaxed(trimmed);
  return relaxed.ok ? fromValue(relaxed.value, undefined, 0) : refused(relaxed.problem);
}

const maxLayers = 4;

/** Text without the first of the things around it that mean nothing; the same if there are none. */
function unwrap(text: string): string {
  const prefix = /^\{\s*\}\s*(?=\{)/.exec(text)?.[0];
  if (prefix !== undefined) return text.slice(prefix.length);
  const inner = withoutFence(text);
  if (inner !== text) return inner;
  const bare = text.slice(0, -maxTrailing) + text.slice(-maxTrailing).replace(trailingTokens, "");
  return bare === text ? (halfOf(text) ?? text) : bare;
}

function refused(problem: string): ParsedArguments {
  return { ok: false, problem: `its arguments are not valid JSON (${problem}).` };
}

/** One object of two that are the same: a server sent the whole again. */
function halfOf(text: string): string | undefined {
  const half = text.slice(0, text.length / 2).trimEnd();
  const isTwice = half.endsWith("}") && text.endsWith(half) && text.slice(half.length, -half.length).trim() === "";
  return isTwice ? half : undefined;
}

const tokens = /("(?:[^"\\]|\\.)*")(\s*:)?|[[\]{}]|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/g;

/**
 * What speaks against sound JSON: nesting that nothing downstream should have to follow, a key that is given twice, a
 * number that is read as another one. Undefined if nothing does.
 */
function findDoubt(text: string): string | undefined {
  const open: (Set<string> | undefined)[] = [];
  for (const [token, string, colon] of text.matchAll(tokens)) {
    if (string !== undefined) {
      if (colon !== undefined && isRepeated(string, open.at(-1))) return `the key ${shown(string)} is given twice`;
    } else if (/[[{]/.test(token)) {
      open.push(token === "{" ? new Set() : undefined);
      if (open.length > deepestNesting) return "the nesting is too deep";
    } else if (/[\]}]/.test(token)) open.pop();
    else if (isInexact(token)) return `the number ${shown(token)} cannot be held exactly; send it as text`;
  }
  return undefined;
}

function isRepeated(string: string, keys: Set<string> = new Set()): boolean {
  const key = JSON.parse(string) as string;
  const isKnown = keys.has(key);
  keys.add(key);
  return isKnown;
}

function shown(token: string): string {
  return token.length > 60 ? `${token.slice(0, 60)}…` : token;
}

const maxEncodings = 3;

/** `text`: sound JSON that gave this value; undefined for one that was repaired. */
function fromValue(value: unknown, text: string | undefined, encodings: number): ParsedArguments {
  if (isObject(value)) return text === undefined ? sound(value) : { ok: true, value, text };
  if (Array.isArray(value)) return fromList(value);
  if (value === null) return sound({});
  if (typeof value === "string" && encodings < maxEncodings) {
    const inner = value.trim();
    if (inner === "") return sound({});
    const decoded = tryJson(inner);
    if (decoded !== undefined) return fromJson(decoded.value, inner, encodings + 1);
  }
  return notAnObject(`a ${typeof value}`);
}

/** A list around the one object is no more than that. */
function fromList(list: unknown[]): ParsedArguments {
  if (list.length === 0) return sound({});
  return list.length === 1 && isObject(list[0]) ? sound(list[0]) : notAnObject("a list");
}

function notAnObject(kind: string): ParsedArguments {
  return { ok: false, problem: `its arguments are ${kind}, not a JSON object.` };
}

function fromJson(value: unknown, text: string, encodings: number): ParsedArguments {
  const problem = findDoubt(text);
  return problem === undefined ? fromValue(value, text, encodings) : refused(problem);
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function sound(value: Record<string, unknown>): ParsedArguments {
  return { ok: true, value, text: JSON.stringify(value) };
}

/** Wrapped, so that a JSON `null` is told from text that is no JSON. */
function tryJson(text: string): { value: unknown } | undefined {
  try {
    return { value: JSON.parse(text) as unknown };
  } catch {
    return undefined;
  }
}
