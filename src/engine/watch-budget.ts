/** What may be kept in memory, over all that share it. The oldest goes first. */
export type Budget = {
  /** Keeps something of so many bytes, about. `drop` is called if it has to go, at once if it is larger than all there is. */
  keep(bytes: number, drop: () => void): Kept;
  used(): number;
};

/** Gives the room back, without calling `drop`. */
export type Kept = { release(): void };

export function createBudget(maxBytes: number): Budget {
  const items = new Set<{ bytes: number; drop: () => void }>();
  let used = 0;

  return {
    keep(bytes, drop) {
      const item = { bytes, drop };
      const release = (): void => {
        if (items.delete(item)) used -= bytes;
      };
      items.add(item);
      used += bytes;
      for (const oldest of items) {
        if (used <= maxBytes) break;
        items.delete(oldest);
        used -= oldest.bytes;
        oldest.drop();
      }
      return { release };
    },
    used: () => used,
  };
}
