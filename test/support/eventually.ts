import { setTimeout as sleep } from "node:timers/promises";

/**
 * Looks until there is something to see: for what another process does and nobody tells.
 *
 * @param look gives the value awaited, or undefined while it is not there.
 */
export async function eventually<T>(
  look: () => Promise<T | undefined> | T | undefined,
  timeoutMs: number = 15_000,
): Promise<T> {
  const until = performance.now() + timeoutMs;
  for (;;) {
    const seen = await look();
    if (seen !== undefined) return seen;
    if (performance.now() > until) throw new Error(`not seen within ${timeoutMs} ms: ${look.toString()}`);
    await sleep(20);
  }
}
