import { isOutage } from "../core/errors.ts";
import type { Rarely } from "../core/rarely.ts";
import { backoffMs } from "../core/retry.ts";
import type { Run } from "../core/run.ts";
import type { Clock, Ids, Logger } from "../ports.ts";
import type { ActiveStep } from "./active-steps.ts";
import { NotQueued } from "./advance.ts";
import { ofRun } from "./log-fields.ts";

const firstWaitMs = 100;
const longestWaitMs = 5_000;
/** A step that cannot be ended for so long is left to be delivered again: the queue has been without it for long. */
const atMostMs = 120_000;

type Deps = { clock: Clock; ids: Pick<Ids, "random">; logger: Logger; rarely: Rarely };
type Held = { run: Run; active: Pick<ActiveStep, "aborted" | "signal"> };

const waits = "the outcome of a step could not be committed; it is kept in hand and tried again";
const wentOn = "the outcome of a step that had waited in hand was committed";

/**
 * Does what ends a step whose outcome is in hand. A Redis that refuses it for a while (its memory is full, say) is waited
 * for, as long as the step is this process's: delivered again, a model would be asked anew, and the result of a tool that may
 * not run again would never be known. The log says so, once in a while: it may befall every step at once.
 *
 * @param work may be done again: it compares before it writes.
 */
export async function withOutcomeInHand<T>(
  { clock, ids, logger, rarely }: Deps,
  { run, active }: Held,
  work: () => Promise<T>,
): Promise<T> {
  const since = clock.now();
  const until = since + atMostMs;
  for (let tries = 1; ; tries += 1) {
    try {
      const result = await work();
      if (tries > 1) {
        const fields = { ...ofRun(run), waitedMs: clock.now() - since };
        rarely("outcome went on", (repeats) => logger.info({ ...fields, ...repeats }, wentOn));
      }
      return result;
    } catch (error) {
      const isTrouble = isOutage(error) && !(error instanceof NotQueued);
      if (!isTrouble || active.aborted() !== undefined || clock.now() >= until) throw error;
      const { code, message } = error;
      if (tries === 1)
        rarely(`outcome waits: ${message}`, (repeats) =>
          logger.warn({ ...ofRun(run), code, error: message, ...repeats }, waits),
        );
      await clock.sleep(Math.min(backoffMs(firstWaitMs, tries, ids.random()), longestWaitMs), active.signal);
    }
  }
}
