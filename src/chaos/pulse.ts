/** In which a process did nothing at all, in epoch ms: it was frozen, or a tool kept its thread. */
export type Silence = { from: number; to: number };

const beatMs = 100;
/** Shorter ones are as good as none. */
const silentMs = 300;

/**
 * Tells of every time in which this process could not even have heard of anything, until it ends.
 *
 * @returns to be called before anything is noted: tells of a silence that is only ending now
 */
export function watchPulse(tell: (silence: Silence) => void): () => void {
  let lastAt = Date.now();
  const check = (): void => {
    const to = Date.now();
    if (to - lastAt > silentMs) tell({ from: lastAt, to });
  };
  setInterval(() => {
    check();
    lastAt = Date.now();
  }, beatMs).unref();
  return check;
}
