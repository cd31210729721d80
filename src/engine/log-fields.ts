import type { Run } from "../core/run.ts";

/** What every line about a run says; `docs/operations.md` lists these and all other fields. */
export const ofRun = (run: Run): { runId: string; agent: string; turn: number; traceId: string } => ({
  runId: run.runId,
  agent: run.agent,
  turn: run.turns,
  traceId: run.trace.traceId,
});
