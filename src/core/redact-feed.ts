import type { RunFeedEvent } from "./feed.ts";
import type { Redactor } from "./redact.ts";

type TextEvent = Extract<RunFeedEvent, { type: "text" }>;

/**
 * A feed as it may be shown. Live text is held back as far as it may be a part of a secret, and given out at the latest
 * before the next event that is no text.
 */
export function createFeedRedactor(redactor: Redactor): (event: RunFeedEvent) => RunFeedEvent[] {
  let stream = redactor.stream();
  let last: TextEvent | undefined;
  const rest = (): RunFeedEvent[] => {
    const held = stream.end();
    stream = redactor.stream();
    const event = last;
    last = undefined;
    return event && held !== "" ? [{ ...event, text: held }] : [];
  };
  return (event) => {
    if (event.type !== "text") {
      const held = rest();
      // Void text needs no end.
      return [...(event.type === "text_superseded" ? [] : held), redactor.value(event)];
    }
    const before = last && last.execution !== event.execution ? rest() : [];
    last = event;
    const text = stream.push(event.text);
    return text === "" ? before : [...before, { ...event, text }];
  };
}
