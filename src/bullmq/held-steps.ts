import type { DeliveryAbort, StepOutcome } from "../ports.ts";

/** A step in the hands of this worker. */
export type HeldStep = {
  controller: AbortController;
  /** Its lock is gone: whatever comes of it is not reported. */
  lost: boolean;
  /** Its lock was found to be lost in another way than by a renewal. */
  loseLock: () => void;
  /** Gives a step that is not waited for any longer its outcome. */
  abandon: (outcome: StepOutcome) => void;
};

/** The steps of one queue that this worker holds, by job id. */
export type HeldSteps = {
  has(jobId: string): boolean;
  begin(jobId: string): HeldStep;
  end(jobId: string): void;
  count(): number;
  /** Aborts steps whose lock is lost, each once. */
  loseLocks(jobIds: string[]): void;
  /** Resolves when none is held. */
  idle(): Promise<void>;
  /** Aborts all; one that has not ended `afterMs` later counts as to be delivered again at once. */
  abandon(afterMs: number): void;
};

/**
 * @param on.lost the locks of these steps are found to be lost.
 * @param on.outlived such a step has ended, and this process lives.
 */
export function createHeldSteps(on: {
  lost: (jobIds: string[]) => void;
  outlived: (jobId: string) => void;
}): HeldSteps {
  const held = new Map<string, HeldStep>();
  let none: PromiseWithResolvers<void> | undefined;
  const loseLocks = (jobIds: string[]): void => {
    const lost: string[] = [];
    for (const jobId of jobIds) {
      const step = held.get(jobId);
      if (!step || step.lost) continue;
      step.lost = true;
      step.controller.abort("lock_lost" satisfies DeliveryAbort);
      lost.push(jobId);
    }
    if (lost.length > 0) on.lost(lost);
  };
  return {
    has: (jobId) => held.has(jobId),
    begin(jobId) {
      const step = {
        controller: new AbortController(),
        lost: false,
        loseLock: () => loseLocks([jobId]),
        abandon: () => {},
      };
      held.set(jobId, step);
      return step;
    },
    end(jobId) {
      const step = held.get(jobId);
      held.delete(jobId);
      if (held.size === 0) {
        none?.resolve();
        none = undefined;
      }
      if (step?.lost) on.outlived(jobId);
    },
    count: () => held.size,
    loseLocks,
    async idle() {
      while (held.size > 0) {
        none ??= Promise.withResolvers<void>();
        await none.promise;
      }
    },
    abandon(afterMs) {
      for (const step of held.values()) {
        step.controller.abort("stopping" satisfies DeliveryAbort);
        setTimeout(() => step.abandon({ type: "again", delayMs: 0, why: "the worker stops" }), afterMs);
      }
    },
  };
}
