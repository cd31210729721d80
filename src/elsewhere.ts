import { queueOf } from "./bullmq/step-job.ts";
import type { Step } from "./core/owed.ts";
import type { Presence, WorkerPresence } from "./ports.ts";

/** How long what was read holds. Workers tell of themselves every few seconds. */
const keptMs = 2_000;

/**
 * Tells whether another worker takes the steps of an agent that this process does not know, as far as the fleet has said.
 * Asked only when such a step comes.
 */
export function createElsewhere(
  presence: Pick<Presence, "workers">,
  now: () => number = () => performance.now(),
): (agent: string, step: Step) => Promise<boolean> {
  let kept: { at: number; workers: Promise<WorkerPresence[]> } | undefined;
  const read = (): Promise<WorkerPresence[]> => {
    if (!kept || now() - kept.at >= keptMs) kept = { at: now(), workers: presence.workers().catch(() => []) };
    return kept.workers;
  };
  return async (agent, step) => {
    const queue = queueOf(step);
    const workers = await read();
    return workers.some(({ agents, queues, paused }) => !paused && agents.includes(agent) && queues.includes(queue));
  };
}
