import type { Signals } from "../ports.ts";

/** Signals within one process, with what a memory store tells them. */
export type MemorySignals = Signals & {
  /** Tells the listeners of a run that its feed or live text has grown. */
  notifyRun(runId: string): void;
  /** Tells every listener that announcements may have been missed, as a connection that comes back does. */
  loseAnnouncements(): void;
};

/** Signals in memory. Listeners are called in a later microtask, never inside the call that tells them. */
export function createMemorySignals(): MemorySignals {
  const runs = new Map<string, Set<() => void>>();
  const announced = new Set<(runId: string | null) => void>();
  const tell = (runId: string | null): void => {
    for (const listener of announced) queueMicrotask(() => announced.has(listener) && listener(runId));
  };
  return {
    async onRun(runId, listener) {
      const own = (): void => listener();
      const listeners = runs.get(runId) ?? new Set();
      runs.set(runId, listeners.add(own));
      return () => {
        listeners.delete(own);
        if (listeners.size === 0 && runs.get(runId) === listeners) runs.delete(runId);
      };
    },
    async announce(runId) {
      tell(runId);
    },
    onAnnounced(listener) {
      const own = (runId: string | null): void => listener(runId);
      announced.add(own);
      return () => announced.delete(own);
    },
    notifyRun(runId) {
      const listeners = runs.get(runId);
      for (const listener of listeners ?? []) queueMicrotask(() => listeners?.has(listener) && listener());
    },
    loseAnnouncements: () => tell(null),
  };
}
