// Looks for words in a result that was cut, so that a model need not read all of it.

/** Where the words are, and what is around them, on one line. */
export type Place = { at: number; line: string };

/** Characters that are shown on either side of a place. */
const around = 60;

/**
 * Places in a piece of a result, in order.
 *
 * @param before only places that begin before this index are of this piece; later ones are found in the next.
 */
export function findPlaces(piece: { text: string; from: number }, words: string, before: number): Place[] {
  const { text, from } = piece;
  const places: Place[] = [];
  for (
    let index = text.indexOf(words);
    index !== -1 && index < before;
    index = text.indexOf(words, index + words.length)
  ) {
    const shown = text.slice(Math.max(0, index - around), index + words.length + around);
    const at = from + index;
    places.push({ at, line: `${at}: ${shown.replaceAll(/\s+/g, " ").toWellFormed()}` });
  }
  return places;
}

/**
 * The places as the model reads them, as many as fit, and how to go on.
 *
 * @param isAll whether there are no more than these.
 */
export function placesText(
  { places, isAll, words, chars }: { places: readonly Place[]; isAll: boolean; words: string; chars: number },
  fits: (text: string) => boolean,
): string {
  const named = JSON.stringify(words);
  if (places.length === 0) return `[there is no ${named} from there on in the ${chars} characters]`;
  for (let count = places.length; ; count = Math.ceil(count / 2)) {
    const shown = places.slice(0, count);
    const next = places[count]?.at ?? (places.at(-1) as Place).at + words.length;
    const end = isAll && count === places.length ? "these are all" : `to search on use "from": ${next}`;
    const text = [`[${count} of ${named}, each after its character; ${end}]`, ...shown.map(({ line }) => line)].join(
      "\n",
    );
    if (count === 1 || fits(text)) return text;
  }
}
