import { owed } from "../../src/core/owed.ts";
import type { Run } from "../../src/core/run.ts";
import type { RunStore, StepQueue } from "../../src/ports.ts";
import type { ParsedE2eOptions } from "./e2e-options.ts";

type KillPoint = NonNullable<ParsedE2eOptions["killAt"]>;
type Ports = { store: RunStore; queue: StepQueue };

/**
 * Lets this process die at one exact point, as a power cut would:
 * - `before_commit`: with everything done but the n-th commit (a run's creation is one);
 * - `after_commit`: with that commit made and nothing of what it owes queued;
 * - `after_queue`: with that queued as well, and the step's own job not ended.
 */
export function withKillPoint({ store, queue }: Ports, { point, commit: nth, runId }: KillPoint): Ports {
  let commits = 0;
  let marked: { runId: string; owedAt: number } | undefined;

  async function commit<T>(run: Run, write: () => Promise<T>): Promise<T> {
    if (runId === undefined || run.runId === runId) commits += 1;
    if (commits !== nth || marked) return write();
    if (point === "before_commit") die();
    marked = { runId: run.runId, owedAt: run.revision };
    const result = await write();
    const leadsOn = owed(run).some((step) => step.owedAt === run.revision);
    if (point === "after_commit" || !leadsOn) die();
    return result;
  }

  return {
    store: {
      ...store,
      create: (run, messages, entries) => commit(run, () => store.create(run, messages, entries)),
      commit: (change) => commit(change.run, () => store.commit(change)),
    },
    queue: {
      ...queue,
      async add(steps) {
        const isMarked = steps.some((step) => step.runId === marked?.runId && step.owedAt === marked.owedAt);
        // It leaves along with the commit: without this it would be there although the process died in between.
        if (isMarked && point === "after_commit") return new Promise(() => {});
        await queue.add(steps);
        if (isMarked) die();
      },
    },
  };
}

function die(): never {
  process.kill(process.pid, "SIGKILL");
  throw new Error("this process is dead");
}
