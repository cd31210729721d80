// Secrets that Drover was told of: exact values of its own settings, and patterns that users add.

import { placeholder, type TextFilter } from "./redact-scan.ts";

/** A value that must appear nowhere, such as the configured API key. */
export type KnownSecret = { kind: string; value: string };

/** A pattern of the user, in a form whose search takes time in proportion to the text. Finds the next match from `from`. */
export type PatternMatcher = {
  name: string;
  find(text: string, from: number): { start: number; end: number } | undefined;
};

/** Longest match of a user's pattern that is found for certain, in characters. */
const longestMatch = 256;
const block = 128;
const before = 32;

/** What is short, or a mere word, would be found everywhere. */
const isTelling = (value: string): boolean => value.length >= 16 || (value.length >= 6 && /[0-9]/.test(value));

/** Values as they may also be written: in JSON, and in a URL. */
function formsOf({ kind, value }: KnownSecret): KnownSecret[] {
  if (!isTelling(value)) return [];
  const forms = new Set([value, JSON.stringify(value).slice(1, -1), encodeURIComponent(value.toWellFormed())]);
  return [...forms].map((form) => ({ kind, value: form }));
}

/** Replaces known values. Undefined if there are none worth looking for. */
export function knownFilter(known: readonly KnownSecret[]): (() => TextFilter) | undefined {
  const forms = known.flatMap(formsOf).sort((a, b) => b.value.length - a.value.length);
  if (forms.length === 0) return undefined;
  const kinds = new Map(forms.map(({ value, kind }) => [value, kind]));
  const source = [...kinds.keys()].map((value) => value.replaceAll(/[$()*+./?[\\\]^{|}-]/g, String.raw`\$&`)).join("|");
  const expression = new RegExp(source, "g");
  const longest = Math.max(...forms.map(({ value }) => value.length));
  const stand = (found: string): string => placeholder(kinds.get(found) as string);
  return () => {
    let text = "";
    return {
      push(more) {
        text += more;
        let at = Math.max(0, text.length - longest + 1);
        while (at < text.length && !forms.some(({ value }) => value.startsWith(text.slice(at)))) at += 1;
        let out = "";
        let given = 0;
        for (const match of text.matchAll(expression)) {
          if (match.index >= at) break;
          out += text.slice(given, match.index) + stand(match[0]);
          given = match.index + match[0].length;
        }
        at = Math.max(at, given);
        out += text.slice(given, at);
        text = text.slice(at);
        return out;
      },
      end() {
        const rest = text.replaceAll(expression, stand);
        text = "";
        return rest;
      },
    };
  };
}

/**
 * Replaces what a user's pattern matches. The text is looked at in windows whose places do not depend on how it arrives,
 * so a match longer than `longestMatch` may be cut off.
 */
export function patternFilter({ name, find }: PatternMatcher): TextFilter {
  let text = "";
  // Indexes into `text`: where the next window's block begins, and up to where text was given out.
  let next = 0;
  let given = 0;

  function read(ended: boolean): string {
    let out = "";
    while (ended ? next < text.length : next + block + longestMatch <= text.length) {
      const start = Math.max(0, next - before);
      const window = text.slice(start, next + block + longestMatch);
      for (let from = Math.max(next, given); ; ) {
        const match = find(window, from - start);
        if (!match || start + match.start >= next + block) break;
        out += text.slice(given, start + match.start) + placeholder(name);
        given = start + match.end;
        from = given;
      }
      next += block;
      if (given < next) {
        out += text.slice(given, next);
        given = Math.min(next, text.length);
      }
    }
    const drop = Math.max(0, Math.min(next, given) - before);
    text = text.slice(drop);
    next -= drop;
    given -= drop;
    return out;
  }

  return {
    push(more) {
      text += more;
      return read(false);
    },
    end: () => read(true),
  };
}
