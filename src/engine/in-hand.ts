import { isOutage } from "../core/errors.ts";
import { backoffMs } from "../core/retry.ts";
import type { Clock, Ids } from "../ports.ts";
import type { ActiveStep } from "./active-steps.ts";
import { NotQueued } from "./advance.ts";

const firstWaitMs = 100;
const longestWaitMs = 5_000;
/** A step that cannot be ended for so long is left to be delivered again: the queue has been without it for long. */
const atMostMs = 120_000;

type Deps = { clock: Clock; ids: Pick<Ids, "random"> };

/**
 * Does what ends a step whose outcome is in hand. A Redis that refuses it for a while (its memory is full, say) is waited
 * for, as long as the step is this process's: delivered again, a model would be asked anew, and the result of a tool that may
 * not run again would never be known.
 *
 * @param work may be done again: it compares before it writes.
 */
export async function withOutcomeInHand<T>(
  { clock, ids }: Deps,
  active: Pick<ActiveStep, "aborted" | "signal">,
  work: () => Promise<T>,
): Promise<T> {
  const until = clock.now() + atMostMs;
  for (let tries = 1; ; tries += 1) {
    try {
      return await work();
    } catch (error) {
      const isTrouble = isOutage(error) && !(error instanceof NotQueued);
      if (!isTrouble || active.aborted() !== undefined || clock.now() >= until) throw error;
      await clock.sleep(Math.min(backoffMs(firstWaitMs, tries, ids.random()), longestWaitMs), active.signal);
    }
  }
}
