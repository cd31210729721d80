import { randomBytes } from "node:crypto";
import type { Ids } from "./ports.ts";

/** Randomness of this process. */
export function createIds(): Ids {
  // 72 bits in the fewest letters and digits: a token stands in every message and feed entry.
  const process = BigInt(`0x${randomBytes(9).toString("hex")}`)
    .toString(36)
    .padStart(14, "0");
  let count = 0;
  return {
    // Random once per process and counted on: as unlike others' as random ones, at a fraction of the cost.
    token: () => `${process}${(count++).toString(36).padStart(5, "0")}`,
    runId: () => `run-${Date.now().toString(36)}-${randomBytes(6).toString("hex")}`,
    random: Math.random,
  };
}
