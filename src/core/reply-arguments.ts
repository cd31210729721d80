import { isInexact, parseRelaxed } from "./reply-relaxed.ts";

/** `text` is JSON that parses to `value`: the model's own text where that was sound. */
export type ParsedArguments =
  | { ok: true; value: Record<string, unknown>; text: string }
  | { ok: false; problem: string };

/** Tokens of a model's template that leak after the end of what it wrote. */
const trailingTokens = /(?:\s|<\|[\w▁｜]{1,40}\|>|<\/s>|<\/tool_call>|<end_of_turn>)+$/;

/**
 * Reads the arguments of a call. An empty value is `{}`, a double encoding is undone, and what is not JSON is read
 * only where one reading is possible: fences, quotes, literals, comments, trailing commas, raw control characters, an
 * empty object before the real one, the same object twice, a list around the one object. What was cut off is never
 * completed, and neither a repeated key nor a number that would become another one is let pass.
 */
export function parseArguments(text: string): ParsedArguments {
  const trimmed = text.trim();
  if (trimmed === "") return sound({});
  const strict = tryJson(trimmed);
  if (strict !== undefined) {
    const problem = findDoubt(trimmed);
    return problem === undefined ? fromValue(strict.value, trimmed, 0) : refused(problem);
  }
  const prefixed = /^\{\s*\}\s*(?=\{)/.exec(trimmed);
  if (prefixed) return parseArguments(trimmed.slice(prefixed[0].length));
  const fenced = /^```[a-zA-Z]*\s*([\s\S]*?)\s*```$/.exec(trimmed);
  if (fenced?.[1] !== undefined) return parseArguments(fenced[1]);
  const bare = trimmed.replace(trailingTokens, "");
  if (bare !== trimmed) return parseArguments(bare);
  const once = halfOf(trimmed);
  if (once !== undefined) return parseArguments(once);
  const relaxed = parseRelaxed(trimmed);
  return relaxed.ok ? fromValue(relaxed.value, undefined, 0) : refused(relaxed.problem);
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

const maxDepth = 200;

/**
 * What speaks against sound JSON: nesting that nothing downstream should have to follow, a key that is given twice, a
 * number that is read as another one. Undefined if nothing does.
 */
function findDoubt(text: string): string | undefined {
  const open: (Set<string> | undefined)[] = [];
  const tokens = /("(?:[^"\\]|\\.)*")(\s*:)?|[[\]{}]|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/g;
  for (const [token, string, colon] of text.matchAll(tokens)) {
    if (string !== undefined) {
      const keys = colon === undefined ? undefined : open.at(-1);
      const key = keys ? (JSON.parse(string) as string) : "";
      if (keys?.has(key)) return `the key ${shown(string)} is given twice`;
      keys?.add(key);
    } else if (token === "{" || token === "[") {
      open.push(token === "{" ? new Set() : undefined);
      if (open.length > maxDepth) return "the nesting is too deep";
    } else if (token === "}" || token === "]") open.pop();
    else if (isInexact(token)) return `the number ${shown(token)} has more digits than can be held exactly; send it as text`;
  }
  return undefined;
}

function shown(token: string): string {
  return token.length > 60 ? `${token.slice(0, 60)}…` : token;
}

const maxEncodings = 3;

function fromValue(value: unknown, text: string | undefined, encodings: number): ParsedArguments {
  if (value === null || (Array.isArray(value) && value.length === 0)) return sound({});
  if (typeof value === "string" && encodings < maxEncodings) {
    const inner = value.trim();
    if (inner === "") return sound({});
    const decoded = tryJson(inner);
    if (decoded !== undefined) {
      const problem = findDoubt(inner);
      return problem === undefined ? fromValue(decoded.value, inner, encodings + 1) : refused(problem);
    }
  }
  if (Array.isArray(value) && value.length === 1 && isObject(value[0])) return sound(value[0]);
  if (isObject(value)) return text === undefined ? sound(value) : { ok: true, value, text };
  const kind = Array.isArray(value) ? "a list" : `a ${typeof value}`;
  return { ok: false, problem: `its arguments are ${kind}, not a JSON object.` };
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
