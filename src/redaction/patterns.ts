import { createRequire } from "node:module";
import { z } from "zod";
import { toError } from "../core/errors.ts";
import type { PatternMatcher } from "../core/redact-words.ts";

/** A pattern that users add; matches are replaced by `[redacted: name]`. `pattern`: an expression, or its source. */
export type RedactPattern = { name: string; pattern: RegExp | string };

const patternsSchema: z.ZodType<RedactPattern[]> = z
  .array(
    z.strictObject({
      name: z.string().regex(/^[A-Za-z0-9 _.-]{1,64}$/, "must be 1 to 64 letters, digits, blanks, '-', '_' or '.'"),
      pattern: z.union(
        [z.instanceof(RegExp), z.string().min(1).max(10_000)],
        "must be a regular expression or its source",
      ),
    }),
  )
  .max(1_000);

export type ParsedPatterns = { ok: true; patterns: PatternMatcher[] } | { ok: false; problems: string[] };

const require = createRequire(import.meta.url);

/** Texts in which an expression that can match nothing does. */
const probes = ["", "a", "a b", "1\n"];

/**
 * Makes users' patterns ready to be looked for. They are executed by RE2's algorithm, which takes time in proportion to
 * the text whatever the pattern, so there is none that could hang a worker; what that algorithm cannot do (looking
 * around, back references) is refused, as is what matches the empty text.
 *
 * @returns all problems at once, in words.
 */
export function parsePatterns(given: unknown): ParsedPatterns {
  const parsed = patternsSchema.safeParse(given);
  if (!parsed.success) {
    const problems = parsed.error.issues.map(({ path, message }) => `${["patterns", ...path].join(".")}: ${message}`);
    return { ok: false, problems };
  }
  const made = parsed.data.map(toMatcher);
  const problems = made.flatMap((item, index) => ("problem" in item ? [`patterns.${index}: ${item.problem}`] : []));
  if (problems.length > 0) return { ok: false, problems };
  return { ok: true, patterns: made.flatMap((item) => ("problem" in item ? [] : [item])) };
}

function toMatcher({ name, pattern }: RedactPattern): PatternMatcher | { problem: string } {
  // Loaded only where there are patterns: it takes 20 ms.
  const { RE2JS }: typeof import("re2js") = require("re2js");
  const { source, flags } = typeof pattern === "string" ? { source: pattern, flags: "" } : pattern;
  const bits =
    (flags.includes("i") ? RE2JS.CASE_INSENSITIVE : 0) |
    (flags.includes("m") ? RE2JS.MULTILINE : 0) |
    (flags.includes("s") ? RE2JS.DOTALL : 0);
  const shown = JSON.stringify(source.slice(0, 100));
  try {
    const compiled = RE2JS.compile(RE2JS.translateRegExp(source), bits);
    if (probes.some((probe) => matchesNothing(compiled, probe))) {
      return { problem: `${shown} matches the empty text, so everything; make it need at least one character` };
    }
    return {
      name,
      find(text, from) {
        const matcher = compiled.matcher(text);
        return matcher.find(from) ? { start: matcher.start(), end: matcher.end() } : undefined;
      },
    };
  } catch (error) {
    return { problem: `${shown} cannot be used: ${explain(source, toError(error).message)}` };
  }
}

function matchesNothing(compiled: import("re2js").RE2JS, text: string): boolean {
  const matcher = compiled.matcher(text);
  while (matcher.find()) if (matcher.start() === matcher.end()) return true;
  return false;
}

function explain(source: string, message: string): string {
  if (/\(\?<?[=!]/.test(source))
    return "it looks ahead or behind, which cannot be done in linear time; match the whole";
  if (/\\[1-9]|\\k</.test(source)) return "it refers back to a group, which cannot be done in linear time";
  return message;
}
