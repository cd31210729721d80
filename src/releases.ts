/** Undoes one thing. */
export type Release = () => unknown;

/** One that does not end holds up no other for longer, in ms. */
const releaseMs = 30_000;

/**
 * Does `work`, and undoes after it whatever it said is to be undone, the last first: each, whether those before it failed
 * or not.
 *
 * @throws what `work` threw, or else what the first release that failed did
 */
export async function withReleases<T>(work: (later: (release: Release) => void) => Promise<T>): Promise<T> {
  const releases: Release[] = [];
  const outcome = await work((release) => void releases.push(release)).then(
    (value) => ({ value }),
    (error: unknown) => ({ error }),
  );
  const failures: unknown[] = [];
  for (const release of releases.reverse()) await inTime(release).catch((error: unknown) => failures.push(error));
  if ("error" in outcome) throw outcome.error;
  if (failures.length > 0) throw failures[0];
  return outcome.value;
}

async function inTime(release: Release): Promise<void> {
  const { promise: over, reject } = Promise.withResolvers<never>();
  const timer = setTimeout(() => reject(new Error(`what was to be undone was not after ${releaseMs} ms`)), releaseMs);
  try {
    await Promise.race([release(), over]);
  } finally {
    clearTimeout(timer);
  }
}
