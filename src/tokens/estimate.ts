// Counts tokens without a vocabulary, for models whose tokenizer is not at hand. Rather too many than too few.

/**
 * Tokens by kinds of characters, as byte-pair vocabularies of about 100,000 entries part them: words of Latin letters
 * about four letters a token, digits up to three, white space with the word after it, each sign a token, other scripts
 * by the size of their characters.
 */
export function estimateTokens(text: string): number {
  let tokens = 0;
  for (const [run] of text.matchAll(/[A-Za-z\d+/=_-]{24,}|[A-Za-z]+|\d+| +|\s+|[^\sA-Za-z\d]+/g))
    tokens += estimateRun(run);
  return Math.ceil(tokens);
}

function estimateRun(run: string): number {
  return run.length >= longRun && /^[A-Za-z\d+/=_-]+$/.test(run) ? estimateLongRun(run) : estimatePiece(run);
}

/** Of characters of one kind, however many. */
function estimatePiece(run: string): number {
  const first = run.charCodeAt(0);
  if (isLetter(first)) return estimateWord(run);
  if (first >= 48 && first <= 57) return Math.ceil(run.length / 3) + 0.2;
  if (first === 32) return run.length === 1 ? 0 : 0.5 + run.length / 60;
  if (first < 32) return 0.4 + run.length / 6;
  let tokens = 0;
  for (const char of run) tokens += estimateChar(char.codePointAt(0) ?? 0);
  return tokens;
}

const longRun = 24;

/** Base64 and hashes, or names and words joined by signs. */
function estimateLongRun(run: string): number {
  if (/[a-z]/.test(run) && /[A-Z]/.test(run) && /\d/.test(run)) return run.length / 1.7;
  return /[^A-Za-z]/.test(run)
    ? (run.match(/[A-Za-z]+|\d+|[^A-Za-z\d]/g) ?? []).reduce(addPiece, 0)
    : estimateWord(run);
}

function estimateWord(run: string): number {
  return Math.max(1.1, run.length / 4.5, 0.6 + 0.9 * caseChanges(run));
}

function addPiece(sum: number, run: string): number {
  return sum + estimatePiece(run);
}

function isLetter(code: number): boolean {
  return (code >= 65 && code <= 90) || (code >= 97 && code <= 122);
}

/** How often upper case follows lower case or ends before it: names in camel case, hashes, base64. */
function caseChanges(run: string): number {
  return run.match(/[a-z](?=[A-Z])|[A-Z]{2}(?=[a-z])/g)?.length ?? 0;
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
