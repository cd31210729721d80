// How a run comes to its turn in a session and hands over. Split from transition.ts; see session.ts for its invariants.

import { type Draft, endRun, log, oweModel } from "./change.ts";
import type { RunEvent } from "./event.ts";
import { waitsForSession } from "./session.ts";

type SessionEvent = Extract<
  RunEvent,
  { type: "session_joined" | "session_queued" | "session_entered" | "session_refused" | "session_passed" }
>;

/** Applies an event about the run's place in its session; false if it is of another stay in the line, or comes late. */
export function moveInSession(draft: Draft, event: SessionEvent): boolean {
  const { run } = draft;
  const { place } = run;
  if (place?.round !== event.round) return false;
  switch (event.type) {
    case "session_joined":
      if (place.state !== "delayed") return false;
      joinSession(draft);
      return true;
    case "session_queued":
      if (place.state !== "joined") return false;
      run.place = { state: "queued", round: place.round, owedAt: place.owedAt };
      log(draft, { type: "session_queued", behind: event.behind });
      return true;
    case "session_entered":
      if (!waitsForSession(run)) return false;
      run.place = { state: "active", round: place.round, owedAt: place.owedAt };
      enter(draft, event);
      return true;
    case "session_refused":
      if (!waitsForSession(run)) return false;
      // Its input stays in the head: a retry gives it another try.
      endRun(draft, { status: "failed", stopReason: "poison", error: event.error });
      return true;
    case "session_passed":
      if (place.state !== "leaving") return false;
      run.place = undefined;
      return true;
  }
}

/** Puts the run at the end of its session's line. */
export function joinSession({ run }: Draft): void {
  run.place = { state: "joined", round: run.revision, owedAt: run.revision };
}

/** The run goes on at the transcript's end. What was said since a retried run left it stands between its parts. */
function enter(draft: Draft, { messageCount, inputAgain }: Extract<RunEvent, { type: "session_entered" }>): void {
  const { run } = draft;
  const isFirst = run.inputCount === undefined;
  if (!isFirst && messageCount === run.messageCount) {
    log(draft, { type: "session_entered", from: messageCount });
    oweModel(draft);
    return;
  }
  if (!isFirst) {
    run.earlierParts = [...(run.earlierParts ?? []), [run.baseMessage as number, run.messageCount]];
    // Others have spoken since: what this run is about is said again.
    run.inputCount = inputAgain.length;
  } else run.inputCount = run.pendingInput.length;
  run.baseMessage = messageCount;
  run.messageCount = messageCount;
  run.repeatsFrom = messageCount;
  log(draft, { type: "session_entered", from: messageCount });
  if (!isFirst) run.pendingInput = [...inputAgain, ...run.pendingInput];
  oweModel(draft);
}
