import type { Pause } from "../core/run.ts";
import type { FleetSwitch } from "../ports.ts";

export type MemoryFleetSwitch = FleetSwitch & { isPaused(): boolean };

/** The fleet's pause in the memory of this process. Contract: `FleetSwitch`. */
export function createMemoryFleetSwitch(): MemoryFleetSwitch {
  let known: Pause | undefined;
  return {
    isPaused: () => known !== undefined,
    read: async () => known,
    async pause(asked) {
      const applied = known === undefined;
      known ??= asked;
      return { pause: known, applied };
    },
    async resume() {
      const applied = known !== undefined;
      known = undefined;
      return applied;
    },
  };
}
