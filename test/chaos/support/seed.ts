import { onTestFailed } from "vitest";
import { createRandom, type Random } from "../../../src/chaos/random.ts";

export { createRandom, type Random } from "../../../src/chaos/random.ts";

/** Whether the full form of each case runs (hundreds of runs, minutes of outage), as `npm run chaos` asks for. */
export const isLong: boolean = process.env.DROVER_CHAOS === "long";

/** Seeded by `DROVER_CHAOS_SEED`, else by the clock; a test that fails says with which. Only inside a test. */
export function seeded(): Random {
  const seed = Number(process.env.DROVER_CHAOS_SEED ?? Date.now() % 1_000_000_000);
  onTestFailed(() => {
    process.stderr.write(`chaos: run again with DROVER_CHAOS_SEED=${seed}\n`);
  });
  return createRandom(seed);
}
