import { setTimeout as sleep } from "node:timers/promises";
import { onTestFinished } from "vitest";
import type { E2eOptions } from "../../support/e2e-options.ts";
import type { Exit, WorkerProcess } from "../../support/worker-process.ts";
import type { World } from "../../support/world.ts";
import type { Random } from "./seed.ts";

export type Death = Exit & { pid: number };

/** A number of worker processes; those that end are replaced, as a supervisor does. */
export type Fleet = {
  /** Those that are up, each in its place; undefined while its successor starts. */
  readonly places: readonly (WorkerProcess | undefined)[];
  /** How each worker of the fleet that is gone ended, in order. */
  readonly deaths: readonly Death[];
  /** Kills the worker of that place and resolves when its successor takes steps (without one: when it is dead). */
  kill(place: number): Promise<void>;
  /** Kills workers chosen by `random`, one at once and the next `everyMs` later, until told to stop. Resolves with the number of kills. */
  killAtRandom(random: Random, options: { everyMs: [from: number, to: number]; until: AbortSignal }): Promise<number>;
  /** Ends all by SIGTERM and resolves with how they ended; none is replaced any more. */
  stop(): Promise<Exit[]>;
};

/**
 * Starts `size` workers and resolves when all take steps. Only inside a test.
 *
 * @param options.supervise whether a worker that ended is replaced; default true.
 */
export async function startFleet(
  world: World,
  size: number,
  { supervise = true, ...given }: Partial<E2eOptions> & { supervise?: boolean } = {},
): Promise<Fleet> {
  const places: (WorkerProcess | undefined)[] = Array.from({ length: size }, () => undefined);
  const deaths: Death[] = [];
  const starts: Promise<unknown>[] = [];
  let supervised = supervise;

  async function fill(place: number): Promise<void> {
    const worker = await world.work(given);
    // What is registered last is called first: before any worker's own end, which is not to be made good any more.
    onTestFinished(() => {
      supervised = false;
    });
    places[place] = worker;
    void worker.exit.then((exit) => {
      deaths.push({ ...exit, pid: worker.pid });
      places[place] = undefined;
      if (supervised) starts[place] = fill(place).catch(() => {}); // one that cannot start says why in its output
    });
  }

  async function kill(place: number): Promise<void> {
    await starts[place];
    const worker = places[place];
    if (!worker) return;
    worker.kill9();
    await worker.exit;
    await starts[place];
  }

  await Promise.all(places.map((_, place) => fill(place)));
  return {
    places,
    deaths,
    kill,
    async killAtRandom(random, { everyMs: [from, to], until }) {
      let kills = 0;
      for (;;) {
        if (until.aborted || !supervised) return kills;
        kills += 1;
        await kill(random.between(0, size - 1));
        await sleep(random.between(from, to), undefined, { signal: until }).catch(() => {});
      }
    },
    async stop() {
      supervised = false;
      await Promise.all(starts);
      const alive = places.filter((worker) => worker !== undefined);
      for (const worker of alive) worker.terminate();
      return Promise.all(alive.map((worker) => worker.exit));
    },
  };
}
