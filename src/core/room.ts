// Whether a store has room for more runs. It stops taking new ones before it is full, so that those it has can end.

/** Bytes that a store uses, and those it may use. */
export type StoreSize = { usedBytes: number; maxBytes: number };

/** Default share of its memory from which on a store takes no new runs. */
export const defaultMemoryLimitPercent = 90;

/** From how many bytes on a store takes no new runs. */
export function refusesFromBytes(maxBytes: number, limitPercent: number): number {
  return Math.floor((maxBytes * limitPercent) / 100);
}

/** Why a run cannot be started, in words; undefined if it can: the store has room, or no limit. `store`: its address. */
export function refusalForSize(size: StoreSize, limitPercent: number, store: string): string | undefined {
  const { usedBytes, maxBytes } = size;
  if (maxBytes <= 0 || usedBytes < refusesFromBytes(maxBytes, limitPercent)) return undefined;
  const percent = Math.round((usedBytes / maxBytes) * 100);
  return (
    `Redis at ${store} is nearly full: ${megabytes(usedBytes)} of its ${megabytes(maxBytes)} (maxmemory) are used, ${percent} %. ` +
    `From ${limitPercent} % on new runs are refused, so that running ones can end. Raise maxmemory, keep ended runs for a ` +
    "shorter time (DROVER_RETENTION_MS), or delete old ones; then start the run again."
  );
}

function megabytes(bytes: number): string {
  return `${(bytes / 1_048_576).toFixed(1)} MiB`;
}
