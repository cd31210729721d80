import type { Signals } from "../ports.ts";

/** Signals within one process, with what a memory store tells them. */
export type MemorySignals = Signals & {
  /** Tells the listeners of a run that its feed or live text has grown, and whether it has ended. */
  notifyRun(runId: string, ended?: boolean): void;
  /** Tells every listener that announcements may have been missed, as a connection that comes back does. */
  loseAnnouncements(): void;
};

/** Signals in memory. Listeners are called in a later microtask, never inside the call that tells them. */
export function createMemorySignals(): MemorySignals {
  const runs = createListeners();
  const ends = createListeners();
  const announced = new Set<(runId: string | null) => void>();
  const tell = (runId: string | null): void => {
    for (const listener of announced) queueMicrotask(() => announced.has(listener) && listener(runId));
  };
  return {
    onRun: async (runId, listener) => runs.add(runId, listener),
    onEnd: async (runId, listener) => ends.add(runId, listener),
    async announce(runId) {
      tell(runId);
    },
    onAnnounced(listener) {
      const own = (runId: string | null): void => listener(runId);
      announced.add(own);
      return () => announced.delete(own);
    },
    isHearing: () => true,
    notifyRun(runId, ended = false) {
      runs.tell(runId);
      if (ended) ends.tell(runId);
    },
    loseAnnouncements: () => tell(null),
  };
}

type Listeners = { add(runId: string, listener: () => void): () => void; tell(runId: string): void };

function createListeners(): Listeners {
  const byRun = new Map<string, Set<() => void>>();
  return {
    add(runId, listener) {
      const own = (): void => listener();
      const listeners = byRun.get(runId) ?? new Set();
      byRun.set(runId, listeners.add(own));
      return () => {
        listeners.delete(own);
        if (listeners.size === 0 && byRun.get(runId) === listeners) byRun.delete(runId);
      };
    },
    tell(runId) {
      const listeners = byRun.get(runId);
      for (const listener of listeners ?? []) queueMicrotask(() => listeners?.has(listener) && listener());
    },
  };
}
