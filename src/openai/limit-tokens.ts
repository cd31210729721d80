/** A number as people write it: `8192`, `128,000`, `32 768`, `128k`. Not one with a fraction. */
const number = String.raw`(\d{1,3}(?:[, _]\d{3})+|\d+)(?![.,]?\d) ?(k(?!\w))?`;

/** The ways in which servers tell the length of their context. */
const forms: readonly RegExp[] = [
  `(?:maximum|max|model'?s?) (?:context|input|prompt)(?: length| window| size)?(?: limit)?(?: is| of|:)? (?:only )?${number}`,
  `${number} ?(?:tokens? )?maximum`,
  String.raw`maximum (?:number of )?(?:input )?tokens(?: allowed| count)?(?: is| of|:)? ?\(?${number}`,
  String.raw`context (?:length|window|size)(?: limit)?(?: is| of|:)? ?\(?${number}`,
  String.raw`n_ctx"?\s*[:=]?\s*\(?${number}`,
].map((form) => new RegExp(form, "i"));

/** No model's context is shorter: a smaller number counts something else. */
const leastTokens = 256;

/** The longest request that a server takes, in tokens, as its refusal says it; undefined if it does not. */
export function readLimitTokens(message: string): number | undefined {
  for (const form of forms) {
    const [, digits = "", thousands] = form.exec(message) ?? [];
    const tokens = Number(digits.replace(/\D/g, "")) * (thousands ? 1_000 : 1);
    if (Number.isSafeInteger(tokens) && tokens >= leastTokens) return tokens;
  }
  return undefined;
}
