import type { Worker } from "bullmq";

/**
 * Whether a BullMQ worker takes jobs, as several may wish it: it does while nobody holds it. Jobs in hand go on meanwhile,
 * and so do their locks.
 */
export type Tap = {
  /** Lets it take jobs for the first time, unless somebody holds it. */
  open(): void;
  hold(why: string): void;
  release(why: string): void;
  /** Lets it take none any more, whoever releases it. */
  close(): void;
};

/** @param onLoopEnd told if the worker's loop ended by an error; it is not started anew for that */
export function createTap(worker: Worker, onLoopEnd: (error: unknown) => void): Tap {
  const holds = new Set<string>(["not open"]);
  let closed = false;
  // Resumed after its loop has ended, it runs it by itself and waits for nothing.
  const runLoop = worker.run.bind(worker);
  worker.run = () => runLoop().catch(onLoopEnd);

  function run(): void {
    // Held without a job in hand it has ended its loop.
    if (!closed && holds.size === 0 && !worker.isRunning()) void worker.run();
  }

  function resume(): void {
    if (worker.isPaused()) {
      // It wakes the loop that waits for jobs in hand, or has it run again by itself.
      worker.resume().then(
        // The loop may have been just about to end.
        () => void setImmediate(run),
        onLoopEnd,
      );
    } else run();
  }

  function release(why: string): void {
    if (holds.delete(why) && holds.size === 0 && !closed) resume();
  }

  return {
    open: () => release("not open"),
    hold(why) {
      if (closed || holds.has(why)) return;
      holds.add(why);
      if (worker.isRunning()) worker.pause(true).catch(() => undefined);
    },
    release,
    close() {
      closed = true;
    },
  };
}
