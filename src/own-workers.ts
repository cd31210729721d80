import { atMost } from "./at-most.ts";
import { DroverError } from "./core/errors.ts";
import type { WorkerHandle } from "./worker.ts";
import { combineHealth, type WorkerHealth } from "./worker-health.ts";

/** The workers of one Drover, also those that are just starting. */
export type OwnWorkers = {
  /** @throws DroverError "stopped" if they were all stopped meanwhile; what `begin` throws */
  start(begin: () => Promise<WorkerHandle>): Promise<WorkerHandle>;
  /** As bad as that of the worst; those that were told to stop do not count. */
  health(): Promise<WorkerHealth>;
  /** Stops all. One that is still starting stops as soon as it has; it is waited for a while. */
  stop(): Promise<void>;
};

/** A Redis that does not answer can hold up a start for ever. */
const startingMs = 2_000;

export function createOwnWorkers(): OwnWorkers {
  /** Until it has stopped; whether it was told to. */
  const workers = new Map<WorkerHandle, { stops: boolean }>();
  const starting = new Set<Promise<unknown>>();
  let stopped = false;

  async function startOne(begin: () => Promise<WorkerHandle>): Promise<WorkerHandle> {
    const worker = await begin();
    if (stopped) {
      await worker.stop();
      throw new DroverError("stopped", "This Drover was closed while its worker was starting.");
    }
    const handle: WorkerHandle = {
      ...worker,
      stop() {
        workers.set(handle, { stops: true });
        return worker.stop().finally(() => workers.delete(handle));
      },
    };
    workers.set(handle, { stops: false });
    return handle;
  }

  return {
    start(begin) {
      const started = startOne(begin);
      const settled = started.then(
        () => undefined,
        () => undefined,
      );
      starting.add(settled);
      void settled.finally(() => starting.delete(settled));
      return started;
    },
    async health() {
      const working = [...workers].filter(([, { stops }]) => !stops);
      return combineHealth(await Promise.all(working.map(([worker]) => worker.health())));
    },
    async stop() {
      stopped = true;
      await Promise.all([
        Promise.allSettled([...workers.keys()].map((worker) => worker.stop())),
        atMost(startingMs, Promise.all(starting)),
      ]);
    },
  };
}
