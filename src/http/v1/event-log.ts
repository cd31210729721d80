import { toFeedId } from "../../core/feed.ts";
import type { ResponseStore } from "../../ports.ts";
import { type Checkpoint, type Projection, type Subject, startProjection } from "./projection.ts";
import { isTerminal, type WireEvent } from "./wire.ts";

// The numbered events of a Response as they are stored: the event's JSON, and with the last of those that were appended
// together a line break and the checkpoint to go on from. Numbers are given once (f.4 rule 9).

export function toStored(events: WireEvent[], state: Projection): string[] {
  const { next: _next, text: _text, heard: _heard, ...checkpoint } = state;
  const last = events.length - 1;
  return events.map(
    (event, index) => JSON.stringify(event) + (index === last ? `\n${JSON.stringify(checkpoint)}` : ""),
  );
}

/** The event's JSON, on one line. */
export function eventOf(stored: string): string {
  const end = stored.indexOf("\n");
  return end === -1 ? stored : stored.slice(0, end);
}

/** Where to go on in the run's feed: after the last entry that was taken, at the beginning of the open execution's text. */
export function anchorOf({ seq, voided }: Checkpoint): string {
  return toFeedId({ seq, execution: voided, length: 0 });
}

/** Events that are read at once. */
export const pageSize = 200;

/** Reads the log from a state of it on; by default all of it. */
export async function readLog(
  responses: Pick<ResponseStore, "read">,
  of: Subject,
  from: Projection = startProjection(of),
): Promise<Projection> {
  let state = from;
  for (;;) {
    const page = await responses.read(of.id, state.next, pageSize);
    state = withEvents(state, page);
    if (page.length < pageSize) return state;
  }
}

/** The state after these events. Whoever goes on from it hears the open text from its beginning. */
export function withEvents(state: Projection, stored: readonly string[]): Projection {
  const text = stored.reduce((before, line) => textAfter(before, eventOf(line)), state.text);
  const known = { ...state, next: state.next + stored.length, text, heard: 0 };
  const last = stored.findLast((line) => line.includes("\n"));
  if (last === undefined) return known;
  // A field that has no value now is absent there.
  return {
    ...known,
    voided: undefined,
    open: undefined,
    ...(JSON.parse(last.slice(last.indexOf("\n") + 1)) as Checkpoint),
  };
}

/** What the item says to which text was added last. */
function textAfter(text: string, eventJson: string): string {
  if (!/^\{"type":"response\.(?:output_text\.delta|refusal\.delta|output_item\.)/.test(eventJson)) return text;
  const event = JSON.parse(eventJson) as WireEvent;
  return "delta" in event ? text + String(event.delta) : "";
}

/** Whether the last of these events ends the Response. */
export function endsWith(stored: readonly string[]): boolean {
  const last = stored.at(-1);
  return last !== undefined && isTerminal(last);
}
