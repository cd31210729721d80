import type { Random } from "./random.ts";

// Texts that a pattern matches. It knows what patterns of identifiers, codes and dates are made of; whoever asks checks
// what comes, so that a pattern it misreads costs nothing but the try.

/** A text for a regular expression; undefined if it has parts that are not known here (look-around, references). */
export function samplePattern(pattern: string, random: Random): string | undefined {
  const reader: Reader = { pattern, at: 0, random };
  try {
    const text = readChoice(reader);
    return reader.at === pattern.length ? text() : undefined;
  } catch {
    return undefined;
  }
}

type Reader = { pattern: string; at: number; random: Random };
type Make = () => string;

function readChoice(reader: Reader): Make {
  const branches = [readSequence(reader)];
  while (reader.pattern[reader.at] === "|") {
    reader.at += 1;
    branches.push(readSequence(reader));
  }
  return () => reader.random.pick(branches)();
}

function readSequence(reader: Reader): Make {
  const parts: Make[] = [];
  for (;;) {
    const next = reader.pattern[reader.at];
    if (next === undefined || next === "|" || next === ")") return () => parts.map((part) => part()).join("");
    if (next === "^" || next === "$") reader.at += 1;
    else parts.push(readRepeated(reader, readAtom(reader)));
  }
}

const digits = "0123456789";
const lower = "abcdefghijklmnopqrstuvwxyz";
const letters = `${lower}${lower.toUpperCase()}`;
const classes: Record<string, string> = { d: digits, w: `${letters}${digits}_`, s: " " };
const printable = `${letters}${digits}-_.`;

function readAtom(reader: Reader): Make {
  const { pattern, random } = reader;
  const first = pattern[reader.at];
  reader.at += 1;
  if (first === "(") return readGroup(reader);
  if (first === "[") return oneOf(random, readSet(reader));
  if (first === ".") return oneOf(random, printable);
  if (first === "\\") return oneOf(random, readEscape(reader));
  return () => first ?? "";
}

function readGroup(reader: Reader): Make {
  const { pattern } = reader;
  if (pattern.startsWith("?:", reader.at)) reader.at += 2;
  else if (pattern[reader.at] === "?") throw new Error("not known here");
  const inner = readChoice(reader);
  if (pattern[reader.at] !== ")") throw new Error("a group does not end");
  reader.at += 1;
  return inner;
}

function readEscape(reader: Reader): string {
  const named = reader.pattern[reader.at] ?? "";
  reader.at += 1;
  if (/[1-9bBDSWkpPuxc]/.test(named)) throw new Error("not known here");
  return classes[named] ?? named;
}

function readSet(reader: Reader): string {
  const { pattern } = reader;
  const negated = pattern[reader.at] === "^";
  if (negated) reader.at += 1;
  let set = "";
  while (pattern[reader.at] !== "]") {
    if (reader.at >= pattern.length) throw new Error("a set does not end");
    const from = pattern[reader.at] ?? "";
    reader.at += 1;
    if (from === "\\") set += readEscape(reader);
    else if (pattern[reader.at] === "-" && pattern[reader.at + 1] !== "]") {
      set += range(from, pattern[reader.at + 1] ?? from);
      reader.at += 2;
    } else set += from;
  }
  reader.at += 1;
  return negated
    ? Array.from(printable)
        .filter((character) => !set.includes(character))
        .join("")
    : set;
}

function range(from: string, to: string): string {
  const [first, last] = [from.charCodeAt(0), Math.min(to.charCodeAt(0), from.charCodeAt(0) + 100)];
  return Array.from({ length: Math.max(0, last - first + 1) }, (_, index) => String.fromCharCode(first + index)).join(
    "",
  );
}

function oneOf(random: Random, set: string): Make {
  return () => random.pick(Array.from(set));
}

function readRepeated(reader: Reader, atom: Make): Make {
  const { pattern, random } = reader;
  const counted = /^(?:\{(\d+)(,(\d*))?\}|[*+?])\??/.exec(pattern.slice(reader.at));
  if (!counted) return atom;
  reader.at += counted[0].length;
  const [from, to] = boundsOf(counted);
  return () => Array.from({ length: random.between(from, to) }, () => atom()).join("");
}

function boundsOf([sign = "", least, open, most]: RegExpExecArray): [number, number] {
  if (least === undefined) return sign.startsWith("?") ? [0, 1] : [sign.startsWith("+") ? 1 : 0, 4];
  const from = Number(least);
  if (open === undefined) return [from, from];
  return [from, most ? Number(most) : from + 3];
}
