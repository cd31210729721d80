/** Says what comes again and again once in a while, with the number of times that it was not said. */
export type Rarely = (kind: string, say: (repeats: { repeats?: number }) => void) => void;

const everyMs = 10_000;
/** Kinds hold text of errors: their number must have a bound. */
const mostKinds = 100;

/** @param now in ms, of any clock: one that steps is no harm */
export function createRarely(now: () => number): Rarely {
  const kinds = new Map<string, { at: number; repeats: number }>();
  return (kind, say) => {
    const at = now();
    const known = kinds.get(kind);
    if (known && Math.abs(at - known.at) < everyMs) {
      known.repeats += 1;
      return;
    }
    if (!known && kinds.size >= mostKinds) kinds.clear();
    kinds.set(kind, { at, repeats: 0 });
    say(known?.repeats ? { repeats: known.repeats } : {});
  };
}
