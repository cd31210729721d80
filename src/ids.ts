import { randomBytes } from "node:crypto";
import type { Ids } from "./ports.ts";

/** Randomness of this process. */
export function createIds(): Ids {
  return {
    token: () => randomBytes(9).toString("hex"),
    runId: () => `run-${Date.now().toString(36)}-${randomBytes(6).toString("hex")}`,
    random: Math.random,
  };
}
