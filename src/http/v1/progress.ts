import type { FeedEntry } from "../../core/event.ts";
import type { RunFeedEvent } from "../../core/feed.ts";
import type { Run } from "../../core/run.ts";
import { transcriptOf } from "../../core/session.ts";
import type { HttpDeps } from "../types.ts";
import { V1Error } from "./errors.ts";
import { begin, project } from "./project.ts";
import { type Projection, type Subject, startProjection } from "./projection.ts";
import { type Kept, toSubject } from "./record.ts";
import { toResponse, type WireEvent, type WireResponse } from "./wire.ts";

const entriesRead = 200;

export type Progressed = { run: Run; state: Projection; response: WireResponse };

/** How far a Response is by now, without waiting. @throws V1Error 404 if its run is gone */
export async function readProgress(deps: HttpDeps, kept: Kept): Promise<Progressed> {
  const of = toSubject(kept);
  const run = await deps.store.load(of.runId);
  if (!run) throw unknownResponse(of.id);
  let made = begin(startProjection(of), of);
  let response = lastResponse(made.events) ?? toResponse(of, { status: "queued" });
  for (let after = of.afterSeq; made.state.phase !== "ended"; ) {
    const entries = await deps.store.readFeed(of.runId, after, entriesRead);
    for (const entry of entries) {
      made = project(made.state, of, deps.redactor.value(await expand(deps, run, of, entry)));
      response = lastResponse(made.events) ?? response;
      if (made.state.phase === "ended") break;
    }
    if (entries.length < entriesRead) break;
    after = entries.at(-1)?.seq ?? after;
  }
  return { run, state: made.state, response };
}

/** The Response of the last of these events that has one. */
export function lastResponse(events: readonly WireEvent[]): WireResponse | undefined {
  return events.findLast((event) => "response" in event)?.response as WireResponse | undefined;
}

/** With its answer, where that may be shown. */
async function expand(deps: HttpDeps, run: Run, of: Subject, entry: FeedEntry): Promise<RunFeedEvent> {
  const id = String(entry.seq);
  if (entry.type !== "model_answered") return { ...entry, id };
  if (entry.calls.length > 0 && of.callerTools.size === 0) return { ...entry, id };
  const [answer] = await deps.store.readMessages(transcriptOf(run), entry.message, entry.message + 1);
  return { ...entry, answer, id };
}

export function unknownResponse(id: string): V1Error {
  return new V1Error(404, `Response with id '${id}' not found.`, { param: "response_id" });
}
