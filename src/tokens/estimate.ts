// Counts tokens without a vocabulary, for models whose tokenizer is not at hand. Rather too many than too few.

/**
 * Tokens by kinds of characters, as byte-pair vocabularies of about 100,000 entries part them: words of Latin letters
 * about four letters a token, digits up to three, white space with the word after it, each sign a token, other scripts
 * by the size of their characters.
 */
export function estimateTokens(text: string): number {
  let tokens = 0;
  for (const [run] of text.matchAll(/[A-Za-z]+|\d+| +|\s+|[^\sA-Za-z\d]+/g)) tokens += estimateRun(run);
  return Math.ceil(tokens);
}

function estimateRun(run: string): number {
  const first = run.charCodeAt(0);
  if (isLetter(first)) return run.length <= 6 ? 1.1 : run.length / (isMixed(run) ? 1.7 : 4.5);
  if (first >= 48 && first <= 57) return run.length / 2.2;
  if (first === 32) return run.length === 1 ? 0 : 0.5 + run.length / 60;
  if (first < 32) return 0.4 + run.length / 6;
  let tokens = 0;
  for (const char of run) tokens += estimateChar(char.codePointAt(0) ?? 0);
  return tokens;
}

function isLetter(code: number): boolean {
  return (code >= 65 && code <= 90) || (code >= 97 && code <= 122);
}

/** Letters as in base64 or hashes: upper case in the midst of lower case. */
function isMixed(run: string): boolean {
  return /[a-z][A-Z]+[a-z]+[A-Z]/.test(run) || /[A-Z]{3}[a-z]/.test(run);
}

function estimateChar(code: number): number {
  if (code < 0x80) return 0.75;
  if (code < 0x250) return 0.8;
  if (code < 0x800) return 0.65;
  if (code >= 0x3040 && code <= 0x30ff) return 0.95;
  if (code >= 0x4e00 && code <= 0x9fff) return 1.05;
  if (code < 0x10000) return 1.2;
  return 2.5;
}
