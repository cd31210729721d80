import { onTestFailed } from "vitest";

/** Whether the full form of each case runs (hundreds of runs, minutes of outage), as `npm run chaos` asks for. */
export const isLong: boolean = process.env.DROVER_CHAOS === "long";

/** Numbers that come again from the same seed, so that what failed can be run again. */
export type Random = {
  readonly seed: number;
  /** In [0, 1). */
  next(): number;
  /** A whole number in [from, to]. */
  between(from: number, to: number): number;
  pick<T>(of: readonly T[]): T;
};

/** Seeded by `DROVER_CHAOS_SEED`, else by the clock; a test that fails says with which. Only inside a test. */
export function seeded(): Random {
  const seed = Number(process.env.DROVER_CHAOS_SEED ?? Date.now() % 1_000_000_000);
  onTestFailed(() => {
    process.stderr.write(`chaos: run again with DROVER_CHAOS_SEED=${seed}\n`);
  });
  return createRandom(seed);
}

/** The generator mulberry32: small, and even enough to choose faults by. */
export function createRandom(seed: number): Random {
  let state = seed >>> 0;
  const next = (): number => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
  const between = (from: number, to: number): number => from + Math.floor(next() * (to - from + 1));
  const pick = <T>(of: readonly T[]): T => {
    if (of.length === 0) throw new Error("nothing to choose from");
    return of[between(0, of.length - 1)] as T;
  };
  return { seed, next, between, pick };
}
