/**
 * Waits for `work` no longer than `ms`, nor beyond the signal's abort. What comes too late is not stopped, and may fail
 * unheard. Leaves no timer and no listener behind.
 *
 * @returns what came of it in time; undefined: nothing yet
 * @throws what `work` rejects with in time
 */
export async function atMost<T>(ms: number, work: Promise<T>, signal?: AbortSignal): Promise<{ value: T } | undefined> {
  const { promise: over, resolve } = Promise.withResolvers<undefined>();
  const stop = (): void => resolve(undefined);
  const timer = setTimeout(stop, signal?.aborted ? 0 : ms);
  signal?.addEventListener("abort", stop);
  try {
    return await Promise.race([work.then((value) => ({ value })), over]);
  } finally {
    clearTimeout(timer);
    signal?.removeEventListener("abort", stop);
  }
}
