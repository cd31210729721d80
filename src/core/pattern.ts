/** A text as a pattern of Redis (`SCAN ... MATCH`) that only it matches. */
export function toPattern(text: string): string {
  return text.replace(/[*?[\]\\]/g, "\\$&");
}
