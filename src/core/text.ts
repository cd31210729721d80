/** Where a text may end so that no character is cut in two: `end` or one before it. UTF-16 code units. */
export function wholeEnd(text: string, end: number): number {
  return end < text.length && /[\uD800-\uDBFF]/.test(text.charAt(end - 1)) ? end - 1 : end;
}
