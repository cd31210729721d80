// Reads text from left to right and replaces the secrets in it. The same code reads a whole text and one that arrives in
// pieces: a place is decided only when all that its decision can look at is there, so pieces make no difference.

import { nameDetectors, nameTrigger } from "./redact-assignments.ts";
import {
  contextMax,
  type Detector,
  type Found,
  headGaps,
  headMax,
  literalDetectors,
  literalTrigger,
  type Tail,
} from "./redact-detectors.ts";

/** Text in, text out, in pieces. `end` gives out what was held back. */
export type TextFilter = { push(text: string): string; end(): string };

/** What stands for a secret. */
export const placeholder = (kind: string): string => `[redacted: ${kind}]`;

/** `word`: what was found there. */
type Finder = { next(from: number): number; word(): string };

// Made once: to compile them costs more than to read most texts. Each search says where it begins.
const literalPattern = new RegExp(literalTrigger, "g");
const namePattern = new RegExp(nameTrigger, "gi");

/** Finds the next place where a trigger stands, looking at each place once. */
function createFinder(trigger: RegExp, text: string): Finder {
  let seen = -1;
  let word = "";
  return {
    next(from) {
      if (seen >= from) return seen;
      trigger.lastIndex = from;
      const match = trigger.exec(text);
      seen = match?.index ?? Number.POSITIVE_INFINITY;
      word = match?.[0] ?? "";
      return seen;
    },
    word: () => word,
  };
}

// A head is ASCII up to its last character, so a decision never looks past one of these scripts' characters.
const farScript = /[\u2E80-\uFFFF]/;

/** Up to where places are decided if more text may come. */
function decidedUpTo(text: string, from: number): number {
  const lowest = Math.max(from, text.length - headMax);
  let gaps = 0;
  for (let at = text.length - 1; at > lowest; at -= 1) {
    const here = text.charAt(at);
    if (farScript.test(here)) return at;
    if (isSpace(here) && !isSpace(text.charAt(at - 1))) gaps += 1;
    if (gaps > headGaps) return at;
  }
  return lowest;
}

const isSpace = (text: string): boolean => /\s/.test(text);

/** Where a secret's tail ends, as far as can be said; `sure`: whether more text would change nothing. */
function pass({ unit, last, ahead }: Tail, text: string, from: number, ended: boolean): { at: number; sure: boolean } {
  let at = from;
  while (ended || text.length - at >= Math.max(ahead, 1)) {
    if (last) {
      last.lastIndex = at;
      if (last.test(text)) return { at: last.lastIndex, sure: true };
    }
    unit.lastIndex = at;
    if (!unit.test(text)) return { at, sure: true };
    at = unit.lastIndex;
  }
  return { at, sure: false };
}

type Place = { index: number; found: Found };

/** Finds the first secret that begins at or after `from` and before `limit`. */
function createSearch(text: string): (from: number, limit: number) => Place | undefined {
  const literals = createFinder(literalPattern, text);
  const names = createFinder(namePattern, text);
  return (from, limit) => {
    for (let at = from; ; ) {
      const literal = literals.next(at);
      const name = names.next(at);
      const index = Math.min(literal, name);
      if (index >= limit) return undefined;
      const byLiteral = literal === index ? (literalDetectors.get(literals.word()) as readonly Detector[]) : [];
      for (const detect of name === index ? [...byLiteral, ...nameDetectors] : byLiteral) {
        const found = detect(text, index);
        if (found) return { index, found };
      }
      at = index + 1;
    }
  };
}

/** The secrets that Drover knows by their looks. */
export function createScanner(): TextFilter {
  // What was given out already, as far as lookbehinds need it, then what was not.
  let text = "";
  let at = 0;
  let inside: Tail | undefined;

  function read(ended: boolean): string {
    let out = "";
    const search = createSearch(text);
    const decided = ended ? text.length : decidedUpTo(text, at);
    for (;;) {
      if (inside) {
        const passed = pass(inside, text, at, ended);
        at = passed.at;
        if (!passed.sure) break;
        inside = undefined;
      }
      const limit = Math.max(at, decided);
      const place = search(at, limit);
      out += text.slice(at, place?.index ?? limit);
      at = place?.found.end ?? limit;
      if (!place) break;
      const { kind, keep, quote = "", tail } = place.found;
      out += keep + quote + placeholder(kind) + quote;
      inside = tail;
    }
    const drop = Math.max(0, at - contextMax);
    text = text.slice(drop);
    at -= drop;
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
