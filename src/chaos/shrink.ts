/**
 * Delta debugging: leaves out what a failure does not need, larger parts first, until leaving out any one item more
 * makes it pass.
 *
 * @param fails whether these items still fail; an item alone, or none, may be tried too.
 * @param triesAllowed after so many tries the smallest failing list so far is the answer.
 */
export async function shrink<T>(
  items: readonly T[],
  fails: (items: readonly T[]) => Promise<boolean>,
  triesAllowed: number = 400,
): Promise<T[]> {
  let left = [...items];
  let tries = 0;
  let parts = 2;
  while (left.length > 0 && tries < triesAllowed) {
    const size = Math.ceil(left.length / Math.min(parts, left.length));
    let smaller: T[] | undefined;
    for (let from = 0; from < left.length && tries < triesAllowed && !smaller; from += size) {
      const without = left.filter((_, index) => index < from || index >= from + size);
      tries += 1;
      if (await fails(without)) smaller = without;
    }
    if (smaller) {
      left = smaller;
      parts = Math.max(2, parts - 1);
    } else if (size === 1) return left;
    else parts = Math.min(left.length, parts * 2);
  }
  return left;
}
