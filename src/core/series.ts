// Whole numbers that come at equal distances, in few words. A manifest lists the places of reminders with every turn: written
// out, what a run stores would grow with the square of its turns.

/** Ascending numbers; three or more at equal distances are one entry. Older records hold numbers alone. */
export type Series = (number | [first: number, step: number, count: number])[];

export function packSeries(numbers: readonly number[]): Series {
  const series: Series = [];
  let at = 0;
  while (at < numbers.length) {
    const first = numbers[at] as number;
    const step = (numbers[at + 1] ?? first) - first;
    let count = 1;
    while (at + count < numbers.length && numbers[at + count] === first + count * step) count += 1;
    if (count < 3) count = 1;
    series.push(count === 1 ? first : [first, step, count]);
    at += count;
  }
  return series;
}

export function unpackSeries(series: Series): number[] {
  return series.flatMap((entry) => {
    if (typeof entry === "number") return [entry];
    const [first, step, count] = entry;
    return Array.from({ length: count }, (_, index) => first + index * step);
  });
}
