import type { Pause } from "./core/run.ts";
import { watchFleetPause } from "./engine/fleet-pause.ts";
import type { FleetSwitch, Logger, Signals } from "./ports.ts";
import type { StepWorkers } from "./step-workers.ts";

type Deps = { fleetSwitch: FleetSwitch; signals: Signals; logger: Logger };

/** What keeps a worker from taking steps: the pause of the fleet, or its own. */
export type WorkerPause = {
  /** Whether a step that was delivered may begin. */
  mayStart(): true | Promise<boolean>;
  isPaused(): boolean;
  /** From now on it holds this worker back. */
  govern(worker: Pick<StepWorkers, "hold" | "release">): void;
  /** How the fleet learns of each change from now on. */
  tellBy(tell: () => Promise<void>): void;
  /** The worker's own. Resolves once the fleet was told. */
  set(wanted: boolean): Promise<void>;
  stop(): void;
};

/** Resolves once it is known whether the fleet is paused. */
export async function openWorkerPause({ logger, ...deps }: Deps): Promise<WorkerPause> {
  let isOwn = false;
  let tell = async (): Promise<void> => {};
  let apply = async (_why: string, _wanted: boolean): Promise<void> => {};
  const fleet = await watchFleetPause({
    ...deps,
    logger,
    onChange(pause: Pause | undefined) {
      if (pause) logger.warn({ by: pause.by, reason: pause.reason }, "the fleet is paused: no step begins");
      else logger.info({}, "the fleet goes on");
      void apply("fleet", pause !== undefined);
    },
  });
  return {
    mayStart: fleet.mayStart,
    isPaused: () => isOwn || fleet.isPaused(),
    govern(worker) {
      apply = (why, wanted) => {
        if (wanted) worker.hold(why);
        else worker.release(why);
        return tell();
      };
      if (fleet.isPaused()) worker.hold("fleet");
    },
    tellBy(given) {
      tell = given;
    },
    set(wanted) {
      isOwn = wanted;
      return apply("worker", wanted);
    },
    stop: fleet.stop,
  };
}
