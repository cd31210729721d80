import type { RetryPolicy } from "./agent.ts";

/** Waits between attempts double up to this; a server's own Retry-After may be longer. */
export const maxDelayMs = 60_000;

export type FailedAttempt = {
  /** From 1. */
  attempt: number;
  /** Asked for by the server or the tool, in ms. */
  retryAfterMs?: number | undefined;
  at: number;
  /** In [0, 1). */
  jitter: number;
};

/**
 * When a transient failure is tried again, as epoch ms; null when the policy's attempts are used up.
 * Full waits double from `policy.delayMs`; jitter takes up to half off, so that many runs do not return together. A
 * server's Retry-After is never undercut.
 */
export function nextAttemptAt(policy: RetryPolicy, failed: FailedAttempt): number | null {
  if (failed.attempt >= policy.attempts) return null;
  return failed.at + Math.max(backoffMs(policy.delayMs, failed.attempt, failed.jitter), failed.retryAfterMs ?? 0);
}

/** A doubling wait in ms, at most `maxDelayMs`, with up to half of it taken off by `jitter` in [0, 1). */
export function backoffMs(firstMs: number, attempt: number, jitter: number): number {
  const full = Math.min(firstMs * 2 ** Math.min(attempt - 1, 30), maxDelayMs);
  return Math.round(full * (1 - jitter / 2));
}
