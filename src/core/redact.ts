import { createScanner, type TextFilter } from "./redact-scan.ts";
import { redactValue } from "./redact-values.ts";
import { type KnownSecret, knownFilter, type PatternMatcher, patternFilter } from "./redact-words.ts";

/** Replaces secrets by `[redacted: kind]` and leaves all else as it is. Takes time in proportion to its input. */
export type Redactor = {
  text(text: string): string;
  /** The same JSON value with all its texts redacted, and what is under a name such as `password` or `apiKey`. */
  value<T>(value: T): T;
  /** Text that may be JSON: as `value`, or as `text` if it is none. */
  json(text: string): string;
  /**
   * For text that is still arriving: never gives out a part of a secret, and gives out in all what `text` makes of the
   * whole. Holds back the last few words, with patterns of the user's own the last 400 characters.
   */
  stream(): TextFilter;
};

export type RedactorOptions = {
  /** Exact values to remove wherever they appear. */
  known?: readonly KnownSecret[] | undefined;
  /** Patterns added to those that Drover has. */
  patterns?: readonly PatternMatcher[] | undefined;
};

export function createRedactor(options: RedactorOptions = {}): Redactor {
  const { patterns = [], known = [] } = options;
  const values = knownFilter(known);
  const filters = (): TextFilter[] => [...(values ? [values()] : []), ...patterns.map(patternFilter), createScanner()];
  const text = (given: string): string => filters().reduce((rest, filter) => filter.push(rest) + filter.end(), given);
  const value = <T>(given: T): T => redactValue(text, given);
  return { text, value, json: (given) => redactJson(text, given), stream: () => chain(filters()) };
}

function redactJson(redact: (text: string) => string, text: string): string {
  if (!/^\s*[[{]/.test(text)) return redact(text);
  try {
    const value: unknown = JSON.parse(text);
    const redacted = JSON.stringify(redactValue(redact, value));
    return redacted === JSON.stringify(value) ? text : redacted;
  } catch {
    return redact(text);
  }
}

function chain(filters: TextFilter[]): TextFilter {
  return {
    push: (text) => filters.reduce((rest, filter) => filter.push(rest), text),
    end: () => filters.reduce((rest, filter) => filter.push(rest) + filter.end(), ""),
  };
}

/** Leaves everything as it is. */
export const noRedaction: Redactor = {
  text: (text) => text,
  value: (value) => value,
  json: (text) => text,
  stream: () => ({ push: (text) => text, end: () => "" }),
};
