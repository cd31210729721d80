import { isSameStep, owed, type Step } from "../core/owed.ts";
import type { Run } from "../core/run.ts";
import type { Logger, RunStore, StepQueue } from "../ports.ts";
import { quietly } from "./quietly.ts";

type Deps = { store: Pick<RunStore, "load">; queue: Pick<StepQueue, "add" | "remove">; logger: Logger };

/**
 * Queues steps that a run owed when it was looked at, and takes back those that wait for a time and are not owed any more:
 * another commit may have come between the look and the queueing, found nothing to take back, and what it made obsolete
 * would lie there until it is due, perhaps for months. What is not delayed ends as soon as it is taken.
 */
export async function queueSteps({ store, queue, logger }: Deps, steps: Step[]): Promise<void> {
  await queue.add(steps);
  const delayed = steps.filter(({ notBefore }) => notBefore !== undefined);
  const [first] = delayed;
  if (!first) return;
  const { runId } = first;
  await quietly(
    logger,
    { runId },
    "a step that is not owed any more may lie in its queue until it is due",
    async () => {
      const run = await store.load(runId);
      const obsolete = delayed.filter((step) => !run || !owed(run).some((other) => isSameStep(other, step)));
      if (obsolete.length > 0) await queue.remove(obsolete);
    },
  );
}

/** The same for all that a run owes. */
export function queueOwed(deps: Deps, run: Run): Promise<void> {
  return queueSteps(deps, owed(run));
}
