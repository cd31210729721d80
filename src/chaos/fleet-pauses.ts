import { setTimeout as sleep } from "node:timers/promises";
import type { Backend } from "../backend.ts";
import type { Redactor } from "../core/redact.ts";
import { pauseFleet, resumeFleet } from "../engine/fleet-pause.ts";
import type { Window } from "./evidence.ts";
import { untilAnswered } from "./until-answered.ts";

export type FleetPauses = {
  /** Pauses the fleet for so long, one such pause at a time. Resolves when it goes on; true: every worker had said so. */
  pause(forMs: number): Promise<boolean>;
  /** From when every worker had said that it takes no step; a pause that is not over has no end. */
  windows(): readonly Window[];
};

type Options = Pick<Backend, "fleetSwitch" | "signals" | "presence" | "clock" | "logger"> & {
  redactor: Redactor;
  /** Of the workers there are: of one that was killed nothing will be heard any more. */
  pids: () => readonly number[];
};

/** How long workers are waited for: one that is frozen says nothing. */
const waitMs = 8_000;

/** Pauses over a fleet that is being hurt meanwhile. */
export function createFleetPauses(options: Options, signal: AbortSignal): FleetPauses {
  const { presence } = options;
  let windows: Window[] = [];
  let last = Promise.resolve(false);

  async function allHaveSaid(): Promise<boolean> {
    const until = performance.now() + waitMs;
    while (performance.now() < until && !signal.aborted) {
      const workers = await untilAnswered(() => presence.workers(), signal);
      const alive = options.pids();
      if (workers.every(({ paused, pid }) => paused || !alive.includes(pid))) return true;
      await sleep(50);
    }
    return false;
  }

  async function hold(forMs: number): Promise<boolean> {
    await untilAnswered(() => pauseFleet(options, { by: "ann", reason: "chaos", waitMs: 0 }), signal);
    const haveSaid = await allHaveSaid();
    const window = { from: Date.now(), to: Number.POSITIVE_INFINITY };
    if (haveSaid) windows.push(window);
    await sleep(forMs, undefined, { signal }).catch(() => {});
    window.to = Date.now();
    // A Redis that was killed may have forgotten it; then nothing was promised.
    const held = await untilAnswered(() => resumeFleet(options), signal);
    if (!held) windows = windows.filter((one) => one !== window);
    return held && haveSaid;
  }

  return {
    pause(forMs) {
      last = last
        .then(() => hold(forMs))
        .catch((error: unknown) => {
          if (!signal.aborted) throw error;
          return false;
        });
      return last;
    },
    windows: () => windows,
  };
}
