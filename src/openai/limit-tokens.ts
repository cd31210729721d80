/** The ways in which servers tell the length of their context, each with the number in its first group. */
const forms: readonly RegExp[] = [
  /(?:maximum|max|model'?s?) (?:context|input|prompt)(?: length| window| size)?(?: limit)?(?: is| of|:)? (?:only )?(\d[\d,]*)/i,
  /(\d[\d,]*) (?:tokens? )?maximum/i,
  /maximum (?:number of )?(?:input )?tokens(?: allowed| count)?(?: is| of|:)? ?\(?(\d[\d,]*)/i,
  /context (?:length|window|size)(?: limit)?(?: is| of|:)? ?\(?(\d[\d,]*)/i,
  /n_ctx"?\s*[:=]?\s*\(?(\d[\d,]*)/i,
];

/** The longest request that a server takes, in tokens, as its refusal says it; undefined if it does not. */
export function readLimitTokens(message: string): number | undefined {
  for (const form of forms) {
    const tokens = Number(form.exec(message)?.[1]?.replaceAll(",", ""));
    if (Number.isSafeInteger(tokens) && tokens > 0) return tokens;
  }
  return undefined;
}
