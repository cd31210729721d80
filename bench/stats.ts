/** The value below which `share` (0 to 1) of the values lie. */
export function quantile(values: readonly number[], share: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  const at = (sorted.length - 1) * share;
  const low = sorted[Math.floor(at)] ?? Number.NaN;
  const high = sorted[Math.ceil(at)] ?? Number.NaN;
  return low + (high - low) * (at - Math.floor(at));
}

export function median(values: readonly number[]): number {
  return quantile(values, 0.5);
}

export function mean(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0) / values.length;
}

export type Estimate = { median: number; low: number; high: number };

/** The median with its 95 % interval, by 2,000 resamplings. The seed is fixed: the same values give the same interval. */
export function estimate(values: readonly number[]): Estimate {
  const random = mulberry32(42);
  const medians = Array.from({ length: 2_000 }, () =>
    median(values.map(() => values[Math.floor(random() * values.length)] as number)),
  );
  return { median: median(values), low: quantile(medians, 0.025), high: quantile(medians, 0.975) };
}

/** A small seeded generator (Mulberry32, public domain). */
function mulberry32(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
  };
}
