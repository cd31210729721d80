import type { Redaction } from "../core/redact-event.ts";
import type { LiveDelta, Logger, RunStore } from "../ports.ts";

/** Pieces of text closer together than this are published as one. */
const flushMs = 40;

export type LiveText = {
  push(text: string): void;
  /** Resolves when all that was pushed can be read, so that text never trails the commit of its answer. */
  flush(): Promise<void>;
};

/** Publishes a model's text while it arrives. Live text is best effort: trouble with it never disturbs the step. */
export function createLiveText(deps: {
  store: RunStore;
  logger: Logger;
  redaction: Redaction;
  runId: string;
  place: Omit<LiveDelta, "text">;
}): LiveText {
  const { store, logger, runId, place } = deps;
  // What is stored of the answer is redacted as a whole; its pieces join to the same text.
  const filter = deps.redaction.stored ? deps.redaction.redactor.stream() : undefined;
  let waiting = "";
  let timer: NodeJS.Timeout | undefined;
  let sending: Promise<void> = Promise.resolve();

  function send(): Promise<void> {
    clearTimeout(timer);
    timer = undefined;
    if (waiting === "") return sending;
    const text = waiting;
    waiting = "";
    sending = sending
      .then(() => store.publishLive(runId, [{ ...place, text }]))
      .catch((error: unknown) => logger.debug({ runId, error: String(error) }, "live text was not published"));
    return sending;
  }

  return {
    push(text) {
      waiting += filter ? filter.push(text) : text;
      timer ??= setTimeout(() => void send(), flushMs);
    },
    flush() {
      waiting += filter ? filter.end() : "";
      return send();
    },
  };
}
