// A run's feed as it may be shown, with ids that a reader can go on from although text is held back.
//
// Text is redacted as one from its execution's beginning, and the last of what has come is held back as long as it may
// be part of a secret. So an id counts the characters of *redacted* text that were given out, and going on from one reads
// the execution's text anew, redacts it as before and leaves out as many characters. To go on in the middle of the text
// would not do: what comes after "password: " is only known for what it is by what stands before it.

import { DroverError } from "../core/errors.ts";
import { type FeedPosition, fromFeedId, type RunFeedEvent, toFeedId } from "../core/feed.ts";
import type { Redactor } from "../core/redact.ts";
import type { FollowOptions } from "../engine/follow.ts";

type Source = (options: FollowOptions) => AsyncGenerator<RunFeedEvent>;
type OpenText = { execution: string; stream: ReturnType<Redactor["stream"]>; given: number; skip: number };
type TextEvent = Extract<RunFeedEvent, { type: "text" }>;

/**
 * @param options.after an id that this function gave out, or the number of an entry.
 * @throws DroverError "invalid" for another `after`; what `events` throws.
 */
export async function* redactedFeed(
  events: Source,
  redactor: Redactor,
  options: FollowOptions = {},
): AsyncGenerator<RunFeedEvent> {
  const after = fromFeedId(options.after ?? 0);
  if (!after) {
    const got = JSON.stringify(options.after);
    throw new DroverError("invalid", `after: expected the id or the number of an event, got ${got}.`);
  }
  const redact = createRedaction(redactor, after);
  for await (const event of events({ ...options, wholeText: true })) yield* redact(event);
}

function createRedaction(redactor: Redactor, after: FeedPosition): (event: RunFeedEvent) => RunFeedEvent[] {
  /** What the reader has of a text that has not begun to come again. */
  let had = after.length > 0 ? after : undefined;
  let open: OpenText | undefined;
  let last: TextEvent | undefined;
  /** The execution whose text was found void last, of the next turn. */
  let passed = had ? undefined : after.execution;
  /** The last entry that was given out. */
  let seq = after.seq;

  const idOf = (): string => {
    if (open && open.given > 0) return toFeedId({ seq, execution: open.execution, length: open.given });
    return toFeedId(had ? { ...had, seq } : { seq, execution: passed, length: 0 });
  };

  /** What of a piece of redacted text the reader has not had. */
  function give(event: TextEvent, text: string): RunFeedEvent[] {
    if (!open) return [];
    const fresh = text.slice(open.skip);
    open.skip = Math.max(0, open.skip - text.length);
    if (fresh === "") return [];
    open.given += fresh.length;
    // What was held back may come after an entry that came after it.
    return [{ ...event, text: fresh, seq, id: idOf() }];
  }

  function takeText(event: TextEvent): RunFeedEvent[] {
    if (open?.execution !== event.execution) {
      const given = had?.execution === event.execution ? had.length : 0;
      open = { execution: event.execution, stream: redactor.stream(), given, skip: given };
      had = undefined;
    }
    last = event;
    return give(event, open.stream.push(event.text));
  }

  function takeEnd(): RunFeedEvent[] {
    const rest = open && last ? give(last, open.stream.end()) : [];
    open = undefined;
    passed = undefined;
    had = undefined;
    return rest;
  }

  return (event) => {
    if (event.type === "text") return takeText(event);
    if (event.type === "text_superseded") {
      open = undefined;
      had = undefined;
      passed = event.execution;
      return [{ ...event, id: idOf() }];
    }
    const rest = event.type === "model_answered" ? takeEnd() : [];
    seq = event.seq;
    return [...rest, { ...redactor.value(event), id: idOf() }];
  };
}
