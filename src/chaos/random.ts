/** Numbers that come again from the same seed, so that what failed can be run again. */
export type Random = {
  readonly seed: number;
  /** In [0, 1). */
  next(): number;
  /** A whole number in [from, to]. */
  between(from: number, to: number): number;
  /** @throws Error for an empty list. */
  pick<T>(of: readonly T[]): T;
  /** True so often, of 1. */
  chance(share: number): boolean;
  shuffled<T>(of: readonly T[]): T[];
};

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
  return {
    seed,
    next,
    between,
    pick<T>(of: readonly T[]): T {
      if (of.length === 0) throw new Error("nothing to choose from");
      return of[between(0, of.length - 1)] as T;
    },
    chance: (share) => next() < share,
    shuffled<T>(of: readonly T[]): T[] {
      const left = [...of];
      return Array.from({ length: left.length }, () => left.splice(between(0, left.length - 1), 1)[0] as T);
    },
  };
}

/** A generator of its own for what is named so: what one run does depends on no other run, nor on the process it is in. */
export function randomFor(seed: number, ...names: (string | number)[]): Random {
  let hash = 0x811c9dc5 ^ seed;
  for (const character of names.join("\n")) {
    hash = Math.imul(hash ^ (character.codePointAt(0) ?? 0), 0x01000193);
  }
  return createRandom(hash >>> 0);
}

/** What a run is called where something is drawn by its name: the end of a child's id differs each time it is played. */
export function stableName(runId: string): string {
  return runId.replace(/(\.call-\d+-\d+)\.[0-9a-z]+/g, "$1");
}
