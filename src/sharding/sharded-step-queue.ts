import type { Step } from "../core/owed.ts";
import type { StepQueue } from "../ports.ts";
import type { Placement } from "./placement.ts";

/** Many step queues as one: a step is queued in the shard of its run. Contract: `StepQueue`. */
export function createShardedStepQueue(queues: readonly StepQueue[], placement: Placement): StepQueue {
  /**
   * Does it for the steps of each shard. What this process has just committed it knows the place of, and nothing is
   * awaited before it leaves.
   */
  function each<T>(steps: Step[], act: (queue: StepQueue, own: Step[]) => Promise<T>): Promise<T[]> {
    const isKnown = steps.every(({ runId }) => placement.known(runId) !== undefined);
    return isKnown ? actOn(steps, act) : findAll(steps).then(() => actOn(steps, act));
  }

  function actOn<T>(steps: Step[], act: (queue: StepQueue, own: Step[]) => Promise<T>): Promise<T[]> {
    const byShard = Map.groupBy(steps, ({ runId }) => placement.known(runId) ?? placement.of(runId));
    return Promise.all([...byShard].map(([shard, own]) => act(queues[shard] as StepQueue, own)));
  }

  async function findAll(steps: Step[]): Promise<void> {
    const unknown = new Set(steps.map(({ runId }) => runId).filter((runId) => placement.known(runId) === undefined));
    await Promise.all([...unknown].map((runId) => placement.find(runId)));
  }

  return {
    add: (steps) => each(steps, (queue, own) => queue.add(own)).then(() => undefined),
    repair: async (steps) =>
      (await each(steps, (queue, own) => queue.repair(own))).reduce((sum, count) => sum + count, 0),
    promote: async (step) => (await each([step], (queue) => queue.promote(step)))[0] ?? false,
    remove: (steps) => each(steps, (queue, own) => queue.remove(own)).then(() => undefined),
  };
}
