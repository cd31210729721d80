import { setTimeout as sleep } from "node:timers/promises";
import { isOutage } from "../core/errors.ts";

/** Gives a command until Redis answers. */
export async function untilAnswered<T>(command: () => Promise<T>, signal: AbortSignal): Promise<T> {
  for (;;) {
    try {
      return await command();
    } catch (error) {
      if (!isOutage(error) || signal.aborted) throw error;
      await sleep(100, undefined, { signal }).catch(() => {});
    }
  }
}
