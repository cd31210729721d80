import { isSameStep, owed } from "../core/owed.ts";
import type { Delivery, RunStore, Signals, StepAddress } from "../ports.ts";

/** Why a step's signal was aborted. */
export type AbortReason = "not_owed" | "handed_back" | "deadline";

export class StepAborted extends Error {
  override readonly name: string = "StepAborted";
  readonly reason: AbortReason;

  constructor(reason: AbortReason) {
    super(`the step was aborted: ${reason}`);
    this.reason = reason;
  }
}

/** A step being executed here. `abort` ends its model or tool call; the first reason stays. */
export type ActiveStep = {
  address: StepAddress;
  signal: AbortSignal;
  abort(reason: AbortReason): void;
  /** Undefined while it goes on. */
  aborted(): AbortReason | undefined;
  end(): void;
};

/** Steps being executed in this process, so that a change from outside reaches the one that holds the run. */
export type ActiveSteps = {
  begin(delivery: Delivery): ActiveStep;
  count(): number;
  close(): void;
};

/**
 * A step registers before it loads its run, so that an announcement can fall between neither. On an announcement, and
 * on every one that may have been missed, the run is read again and steps it does not owe any more are aborted.
 */
export function createActiveSteps({ store, signals }: { store: RunStore; signals: Signals }): ActiveSteps {
  const byRun = new Map<string, Set<ActiveStep>>();

  async function look(runId: string): Promise<void> {
    const run = await store.load(runId).catch(() => undefined);
    if (run === undefined) return;
    for (const step of byRun.get(runId) ?? []) {
      const { owedAt } = step.address;
      const ahead = run !== null && owedAt > run.revision;
      const still = run !== null && owed(run).some((other) => isSameStep(other, step.address));
      if (!still && !ahead) step.abort("not_owed");
    }
  }

  const stopListening = signals.onAnnounced((runId) => {
    if (runId !== null) {
      if (byRun.has(runId)) void look(runId);
      return;
    }
    for (const active of byRun.keys()) void look(active);
  });

  function begin(delivery: Delivery): ActiveStep {
    const controller = new AbortController();
    let why: AbortReason | undefined;
    const abort = (reason: AbortReason): void => {
      if (controller.signal.aborted) return;
      why = reason;
      controller.abort(new StepAborted(reason));
    };
    const handBack = (): void => abort("handed_back");
    if (delivery.signal.aborted) handBack();
    else delivery.signal.addEventListener("abort", handBack, { once: true });
    const { runId } = delivery.step;
    const step: ActiveStep = {
      address: delivery.step,
      signal: controller.signal,
      abort,
      aborted: () => why,
      end: () => {
        delivery.signal.removeEventListener("abort", handBack);
        const steps = byRun.get(runId);
        steps?.delete(step);
        if (steps?.size === 0) byRun.delete(runId);
      },
    };
    const steps = byRun.get(runId) ?? new Set();
    byRun.set(runId, steps.add(step));
    return step;
  }

  return {
    begin,
    count: () => [...byRun.values()].reduce((sum, steps) => sum + steps.size, 0),
    close: stopListening,
  };
}
