import { html as escaped } from "hono/html";

/** Markup whose values are escaped. */
export type Html = ReturnType<typeof escaped>;

/**
 * Markup as a tagged template. Every text that is put in is escaped, and what could disguise it (control characters,
 * escape sequences of terminals, marks that turn the direction of writing) is shown by its code point.
 */
export function html(strings: TemplateStringsArray, ...values: unknown[]): Html {
  return escaped(strings, ...values.map(toSafe));
}

function toSafe(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(toSafe);
  if (typeof value !== "string") return value;
  return visible(value.length > longest ? `${value.slice(0, longest).toWellFormed()}…` : value);
}

/** No piece of text makes a page larger than by this, in characters, wherever it is put; see also `longText`. */
const longest = 10_000;

// Line feeds and tabs stay; so do the joiners that emoji and some scripts are written with.
const hidden = /(?![\n\t\u200c\u200d])[\p{Cc}\p{Cf}\u2028\u2029]/gu;

/** Text with everything that a reader could not see in it written as `⟨U+202E⟩`; the end of a line from Windows is one. */
export function visible(text: string): string {
  const name = (char: string): string => (char.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, "0");
  return text.replaceAll("\r\n", "\n").replace(hidden, (char) => `⟨U+${name(char)}⟩`);
}

/** The path of a page: parts that came from outside are encoded. */
export function path(strings: TemplateStringsArray, ...parts: (string | number)[]): string {
  return strings.reduce((made, text, index) => {
    const part = parts[index];
    return made + text + (part === undefined ? "" : encodeURIComponent(part));
  }, "");
}

/** A query string with its question mark; what is undefined or empty is left out. */
export function query(fields: Record<string, string | number | undefined>): string {
  const params = new URLSearchParams();
  for (const [name, value] of Object.entries(fields)) {
    if (value !== undefined && value !== "") params.set(name, String(value));
  }
  return params.size === 0 ? "" : `?${params.toString()}`;
}
