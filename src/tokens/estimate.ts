// Counts tokens without a vocabulary, for models whose tokenizer is not at hand. Rather too many than too few.

/**
 * Tokens by kinds of characters, as byte-pair vocabularies part them: words of Latin letters about four letters a token,
 * digits up to three, white space with the word after it, each sign a token but where it repeats, other scripts by the
 * size of their characters. Never more than the text has bytes.
 */
export function estimateTokens(text: string): number {
  let tokens = 0;
  let from = 0;
  for (const { 0: run, index } of text.matchAll(/[A-Za-z\d+/=_-]{24,}/g)) {
    if (!isRandom(run)) continue;
    tokens += estimatePieces(text.slice(from, index)) + run.length / 1.45;
    from = index + run.length;
  }
  tokens = Math.ceil(tokens + estimatePieces(text.slice(from)));
  return tokens <= text.length ? tokens : Math.min(tokens, new TextEncoder().encode(text).length);
}

/** Whether a long run is base64 or the like: names and paths change less often between kinds of characters. */
function isRandom(run: string): boolean {
  if (!/[a-z]/.test(run) || !/[A-Z]/.test(run) || !/\d/.test(run)) return false;
  const kinds = run.match(/[a-z]+|[A-Z]+|\d+|[+/=_-]+/g) ?? [];
  return kinds.length > 0.35 * run.length;
}

const pieces =
  /(?<word>[A-Za-z\u00c0-\u024f\u1e00-\u1eff]+)|(?<digits>\d+)|(?<space>\s+)|[^\sA-Za-z\d\u00c0-\u024f\u1e00-\u1eff]+/g;

function estimatePieces(text: string): number {
  let tokens = 0;
  for (const { 0: piece, index, groups } of text.matchAll(pieces)) {
    const next = text.charCodeAt(index + piece.length);
    if (groups?.word) tokens += estimateWord(piece);
    else if (groups?.digits) tokens += Math.ceil(piece.length / 3);
    else if (groups?.space) tokens += estimateSpace(piece, next);
    else tokens += estimateSigns(piece) - (isLetter(next) && isAscii(piece.at(-1)) ? joinedToWord : 0);
  }
  return tokens;
}

function estimateWord(word: string): number {
  const accents = word.match(/[^A-Za-z]/g)?.length ?? 0;
  return Math.max(1.1, word.length / 3.8, 0.6 + 0.9 * caseChanges(word)) + 0.6 * accents;
}

/** How often upper case follows lower case or ends before it: names in camel case, hashes. */
function caseChanges(run: string): number {
  return run.match(/[a-z](?=[A-Z])|[A-Z]{2}(?=[a-z])/g)?.length ?? 0;
}

/** A single space belongs to the word after it; no number takes one. */
function estimateSpace(space: string, next: number): number {
  if (space === " ") return isDigit(next) ? 0.9 : 0;
  return space.startsWith(" ") ? 0.5 + space.length / 60 : 0.4 + space.length / 6;
}

/** What a sign costs less before a word: often the two have a token in common. */
const joinedToWord = 0.35;

function estimateSigns(signs: string): number {
  let tokens = 0;
  let before = -1;
  for (const char of signs) {
    const code = char.codePointAt(0) as number;
    tokens += code === before ? Math.min(estimateChar(code), repeatedTokens(char, code)) : estimateChar(code);
    before = code;
  }
  return tokens;
}

/** Of a sign after its like: lines are drawn with some, which have long tokens of their own. */
function repeatedTokens(char: string, code: number): number {
  if ("=-*#_./~+%".includes(char)) return 0.07;
  if (code < 0x80) return 0.5;
  return code >= 0x2500 && code < 0x2580 ? 0.3 : Number.POSITIVE_INFINITY;
}

function isAscii(char: string | undefined): boolean {
  return char !== undefined && char < "\u0080";
}

function isDigit(code: number): boolean {
  return code >= 48 && code <= 57;
}

function isLetter(code: number): boolean {
  return (code >= 65 && code <= 90) || (code >= 97 && code <= 122);
}

function estimateChar(code: number): number {
  if (code < 0x80) return 0.95;
  if (code < 0x250) return 0.8;
  if (code < 0x530) return 0.38;
  if (code < 0x800) return 0.65;
  if (code >= 0x3040 && code <= 0x30ff) return 0.95;
  if (code >= 0x4e00 && code <= 0x9fff) return 1.05;
  if (code < 0x10000) return 1.2;
  return 2.5;
}
