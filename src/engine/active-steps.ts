import { isSameStep, owedUnlessPaused } from "../core/owed.ts";
import type { Run } from "../core/run.ts";
import { owedCall } from "../core/transition-calls.ts";
import type { Delivery, DeliveryAbort, RunStore, Signals, StepAddress } from "../ports.ts";

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
  /** From now on a lost lock aborts nothing: what was begun is this process's alone to finish (invariant 4). */
  keepWithoutLock(): void;
  /** Undefined while it goes on. */
  aborted(): AbortReason | undefined;
  end(): void;
};

/** A call given up as lost still takes the result of whoever started it. */
function isLost(run: Run, { address }: ActiveStep): boolean {
  return owedCall(run, address)?.state === "lost";
}

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
      // What was begun before a pause may end.
      const still =
        run !== null && (owedUnlessPaused(run).some((other) => isSameStep(other, step.address)) || isLost(run, step));
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
    const { runId } = delivery.step;
    const step = makeActiveStep(delivery, () => {
      const steps = byRun.get(runId);
      steps?.delete(step);
      if (steps?.size === 0) byRun.delete(runId);
    });
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

function makeActiveStep(delivery: Delivery, onEnd: () => void): ActiveStep {
  const controller = new AbortController();
  let why: AbortReason | undefined;
  let keeps = false;
  const abort = (reason: AbortReason): void => {
    if (controller.signal.aborted) return;
    why = reason;
    controller.abort(new StepAborted(reason));
  };
  const handBack = (): void => {
    const reason: DeliveryAbort = delivery.signal.reason;
    if (!keeps || reason !== "lock_lost") abort("handed_back");
  };
  if (delivery.signal.aborted) handBack();
  else delivery.signal.addEventListener("abort", handBack, { once: true });
  return {
    address: delivery.step,
    signal: controller.signal,
    abort,
    aborted: () => why,
    keepWithoutLock: () => {
      keeps = true;
    },
    end: () => {
      delivery.signal.removeEventListener("abort", handBack);
      onEnd();
    },
  };
}
