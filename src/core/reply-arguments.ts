import { parseRelaxed } from "./reply-relaxed.ts";

/** `text` is JSON that parses to `value`: the model's own text where that was sound. */
export type ParsedArguments =
  | { ok: true; value: Record<string, unknown>; text: string }
  | { ok: false; problem: string };

/**
 * Reads the arguments of a call. An empty value is `{}`, a double encoding is undone, and what is not JSON is read
 * only where one reading is possible: fences, quotes, literals, trailing commas, raw control characters, an empty
 * object before the real one. What was cut off is never completed.
 */
export function parseArguments(text: string): ParsedArguments {
  const trimmed = text.trim();
  if (trimmed === "") return sound({});
  const strict = tryJson(trimmed);
  if (strict !== undefined) return fromValue(strict.value, trimmed, 0);
  const prefixed = /^\{\s*\}\s*(?=\{)/.exec(trimmed);
  if (prefixed) return parseArguments(trimmed.slice(prefixed[0].length));
  const fenced = /^```[a-zA-Z]*\s*\n(.*?)\n?\s*```$/s.exec(trimmed);
  if (fenced?.[1] !== undefined) return parseArguments(fenced[1]);
  const relaxed = parseRelaxed(trimmed);
  if (relaxed.ok) return fromValue(relaxed.value, undefined, 0);
  return { ok: false, problem: `its arguments are not valid JSON (${relaxed.problem}).` };
}

const maxEncodings = 3;

function fromValue(value: unknown, text: string | undefined, encodings: number): ParsedArguments {
  if (value === null || (Array.isArray(value) && value.length === 0)) return sound({});
  if (typeof value === "string" && encodings < maxEncodings) {
    if (value.trim() === "") return sound({});
    const inner = tryJson(value.trim());
    if (inner !== undefined) return fromValue(inner.value, value.trim(), encodings + 1);
  }
  if (typeof value === "object" && !Array.isArray(value)) {
    const object = value as Record<string, unknown>;
    return text === undefined ? sound(object) : { ok: true, value: object, text };
  }
  const kind = Array.isArray(value) ? "a list" : `a ${typeof value}`;
  return { ok: false, problem: `its arguments are ${kind}, not a JSON object.` };
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
