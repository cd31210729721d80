import { atMost } from "../at-most.ts";
import { DroverError, isOutage, unknownRun } from "../core/errors.ts";
import type { Message } from "../core/message.ts";
import { isEnded, type Run } from "../core/run.ts";
import type { Durable, RunStore, Signals } from "../ports.ts";
import { isSameRun } from "./advance.ts";

/** Without an announcement, which can get lost. */
const lookEveryMs = 2_000;
/** Whether an end is safe takes a look at the replicas, also for whoever has no time to wait. */
const leastConfirmMs = 1_000;

/** A run and its last message; that is left out while the run goes on. */
export type Found = { run: Run; last?: Message | undefined };

type Deps = { store: RunStore; signals: Signals; durable?: Durable | undefined };

/**
 * Waits until a run has ended for good.
 *
 * @throws DroverError "timeout", "not_found", "invalid" for a limit that is no number
 */
export async function waitForEnd(
  { store, signals, durable }: Deps,
  runId: string,
  { timeoutMs, signal }: { timeoutMs?: number | undefined; signal?: AbortSignal | undefined },
): Promise<Found> {
  if (Number.isNaN(timeoutMs))
    throw new DroverError("invalid", "timeoutMs: expected a number of milliseconds, received NaN.");
  const until = timeoutMs === undefined ? Number.POSITIVE_INFINITY : performance.now() + timeoutMs;
  let isTold = false;
  let ring: () => void = () => {};
  const unsubscribe = await signals.onEnd(runId, () => {
    isTold = true;
    ring();
  });
  let known: Run | undefined;
  try {
    for (;;) {
      const rung = new Promise<void>((resolve) => {
        ring = resolve;
      });
      const found = await lookAgain(store, runId, { known, isTold });
      known = found?.run ?? known;
      if (found && isEnded(found.run)) {
        const isSafe = confirmed(durable, found.run, { ms: until - performance.now(), signal });
        if (await isSafe) return found;
      }
      const leftMs = until - performance.now();
      if (leftMs <= 0 || signal?.aborted) throw notInTime(runId, known);
      await atMost(Math.min(leftMs, lookEveryMs), rung, signal);
    }
  } finally {
    unsubscribe();
  }
}

function notInTime(runId: string, known: Run | undefined): DroverError {
  const what =
    known && isEnded(known)
      ? "has ended, and Redis could still lose that: it is not where durability asks for it. Ask again later."
      : `is still ${known?.status}; it goes on. Ask again later, or watch it.`;
  return new DroverError("timeout", `Run "${runId}" ${what}`);
}

/** An end that a failover could still take back is waited for like one to come. */
async function confirmed(
  durable: Durable | undefined,
  run: Run,
  { ms, signal }: { ms: number; signal: AbortSignal | undefined },
): Promise<boolean> {
  if (!durable) return true;
  const enough = new AbortController();
  const confirming = durable.confirm(run, enough.signal);
  try {
    // It has a limit of its own, about.
    const longestMs = Math.min(ms, 2 * durable.timeoutMs);
    return (await atMost(Math.max(longestMs, leastConfirmMs), confirming, signal)) !== undefined;
  } catch (error) {
    if (!isOutage(error)) throw error;
    return false;
  } finally {
    enough.abort();
  }
}

/** Once the run was found, Redis going away is waited out like any other time: undefined. */
async function lookAgain(
  store: RunStore,
  runId: string,
  { known, isTold }: { known: Run | undefined; isTold: boolean },
): Promise<Found | undefined> {
  try {
    const found = await look(store, runId, isTold);
    // Deleted while it was waited for; what has its id now may be somebody else's.
    if (!found || (known && !isSameRun(known, found.run))) throw unknownRun(runId);
    return found;
  } catch (error) {
    if (!known || !isOutage(error)) throw error;
    return undefined;
  }
}

/** @param isTold its end was announced, and both are read in one go. */
async function look(store: RunStore, runId: string, isTold: boolean): Promise<Found | null> {
  const run = isTold ? null : await store.load(runId);
  return run && !isEnded(run) ? { run } : store.loadWithLastMessage(runId);
}
