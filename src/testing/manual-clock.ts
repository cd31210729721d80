import type { Clock } from "../ports.ts";

/** A clock that stands still until it is told to go on. */
export type ManualClock = Clock & {
  /** Moves time forward by `ms` and wakes, in the order of their times, whoever's sleep is over. */
  advance(ms: number): void;
  /** How many sleeps are going on. */
  sleeping(): number;
  /** When the next sleep ends, epoch ms; undefined if nobody sleeps. */
  nextAt(): number | undefined;
  /** Resolves as soon as at least `count` (default 1) sleeps are going on. */
  whenSleeping(count?: number): Promise<void>;
};

type Sleep = { until: number; wake: () => void };

/** A clock for tests. Starts at `startAt`, epoch ms; default 1 January 2026. */
export function manualClock(startAt: number = Date.UTC(2026, 0, 1)): ManualClock {
  let now = startAt;
  const sleeps = new Set<Sleep>();
  const watchers = new Set<() => void>();
  const next = (): Sleep | undefined => [...sleeps].sort((a, b) => a.until - b.until)[0];

  return {
    now: () => now,
    sleep(ms, signal) {
      if (ms <= 0 || signal?.aborted) return Promise.resolve();
      return new Promise((resolve) => {
        const sleep: Sleep = {
          until: now + ms,
          wake() {
            sleeps.delete(sleep);
            signal?.removeEventListener("abort", sleep.wake);
            resolve();
          },
        };
        sleeps.add(sleep);
        signal?.addEventListener("abort", sleep.wake);
        for (const check of watchers) check();
      });
    },
    advance(ms) {
      const end = now + ms;
      for (let sleep = next(); sleep && sleep.until <= end; sleep = next()) {
        now = sleep.until;
        sleep.wake();
      }
      now = end;
    },
    sleeping: () => sleeps.size,
    nextAt: () => next()?.until,
    whenSleeping(count = 1) {
      return new Promise((resolve) => {
        const check = (): void => {
          if (sleeps.size < count) return;
          watchers.delete(check);
          resolve();
        };
        watchers.add(check);
        check();
      });
    },
  };
}
