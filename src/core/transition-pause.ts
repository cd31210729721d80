// Pausing a run: whatever is being executed may end, and what it makes owed waits. Split from transition.ts.

import { type Draft, log } from "./change.ts";
import type { RunEvent } from "./event.ts";
import { familyReader } from "./run.ts";
import { needReader } from "./transition-calls.ts";

/**
 * Pauses a live run or lets it go on; false if it is so already. Its state stays as it is: `owed` leaves out what it would
 * do. Its deadline and the time that people have to decide stand: both are times by the clock that others count on.
 */
export function pauseOrResume(
  { run, meta, ...draft }: Draft,
  event: Extract<RunEvent, { type: "pause_requested" | "resume_requested" }>,
): boolean {
  const { by } = event;
  if ((event.type === "pause_requested") === (run.paused !== undefined)) return false;
  if (event.type === "pause_requested") {
    const { reason } = event;
    run.paused = { by, reason, at: meta.at };
    needReader(run, familyReader);
    log({ run, meta, ...draft }, { type: "run_paused", by, reason });
  } else {
    run.paused = undefined;
    log({ run, meta, ...draft }, { type: "run_resumed", by });
  }
  return true;
}
