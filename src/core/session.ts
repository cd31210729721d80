// Sessions: runs that share one transcript, one of them active at a time, the others in line behind it.
//
// S1. A run is in its session's line from the commit that puts it there (creation, a retry) to the commit that ends it.
//     The line changes with those commits alone, so it never disagrees with the runs.
// S2. Only the run at the head of the line enters the transcript, and only an active run appends to it.
// S3. Whoever may have made a run the head owes a look at the line until that run was told: a run that has just joined,
//     and every run that has left. So no run waits behind nobody.

import type { Run, SessionPlace } from "./run.ts";

/** Names the transcript of a session among those of runs; no run id holds a colon. */
export function sessionTranscript(session: string): string {
  return `session:${session}`;
}

/** Names the transcript that a run's messages are in: its own, or its session's. */
export function transcriptOf(run: Pick<Run, "runId" | "session" | "baseMessage">): string {
  const shares = run.session !== undefined && run.baseMessage !== undefined;
  return shares ? sessionTranscript(run.session as string) : run.runId;
}

/** A run in a session's line. `round` tells one stay in the line from another: a retried run joins anew. */
export type LineEntry = { runId: string; round: number };

/** The run's entry in its session's line; undefined while it has none. */
export function lineEntryOf({ runId, place }: Run): LineEntry | undefined {
  const inLine = place?.state === "joined" || place?.state === "queued" || place?.state === "active";
  return inLine ? { runId, round: place.round } : undefined;
}

/** Whether the run waits for others of its session, or for the time to join them. */
export function waitsForSession({ place }: Pick<Run, "place">): boolean {
  return place !== undefined && place.state !== "active" && place.state !== "leaving";
}

/** Whether the run owes a look at its session's line. */
export function owesLook(place: SessionPlace | undefined): place is SessionPlace {
  return place?.state === "delayed" || place?.state === "joined" || place?.state === "leaving";
}

/** Where the run's own messages are in its transcript: half-open ranges of indexes, ascending. */
export function ownParts({ baseMessage = 0, messageCount, earlierParts = [] }: Run): [number, number][] {
  return [...earlierParts, [baseMessage, messageCount]];
}

/** Transcript index of the run's goal: the last message of the input it began with; undefined before that is there. */
export function goalOf({ baseMessage = 0, inputCount = 0 }: Run): number | undefined {
  return inputCount > 0 ? baseMessage + inputCount - 1 : undefined;
}
