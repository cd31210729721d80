// Server-sent events (WHATWG HTML, 9.2) as a body that makes the next event only when the last one was taken, so that a
// client that does not read holds up its own stream and costs no memory.

export type SseOptions = {
  /** A comment is sent when nothing else was for so long, in ms. */
  heartbeatMs: number;
  /** How long a client should wait before it connects again, in ms; sent first. */
  retryMs?: number | undefined;
  /** Aborts when the server closes: the stream ends after a comment that says so. */
  closing?: AbortSignal | undefined;
  /** Called once when nothing will be read any more. */
  onEnd?: (() => void) | undefined;
};

/** One event. Line ends in `data` make lines of it, as the format wants. */
export function toFrame({ id, event, data }: { id?: string | undefined; event?: string; data: string }): string {
  const lines = data.split(/\r\n|\r|\n/).map((line) => `data: ${line}\n`);
  return `${id === undefined ? "" : `id: ${id}\n`}${event === undefined ? "" : `event: ${event}\n`}${lines.join("")}\n`;
}

export const sseHeaders: Record<string, string> = {
  "Content-Type": "text/event-stream; charset=utf-8",
  "Cache-Control": "no-store",
  // Asks a proxy in front not to collect what is to arrive at once.
  "X-Accel-Buffering": "no",
};

/** The answer that sends these frames, and comments while there are none. Ends when they do, or fail. */
export function answerEvents(frames: AsyncIterator<string>, options: SseOptions): Response {
  const { retryMs, onEnd } = options;
  const encoder = new TextEncoder();
  const source = createSource(frames, options);
  let begun = retryMs === undefined;
  let ended = false;

  function end(): void {
    if (ended) return;
    ended = true;
    source.close();
    onEnd?.();
    // A generator that waits ends once its signal aborts; that is `onEnd`'s to see to.
    void frames.return?.()?.catch(() => {});
  }

  async function pull(controller: ReadableStreamDefaultController<Uint8Array>): Promise<void> {
    if (!begun) {
      begun = true;
      controller.enqueue(encoder.encode(`retry: ${retryMs}\n\n`));
      return;
    }
    const came = await source.next();
    if (ended) return;
    if (came === "quiet") controller.enqueue(encoder.encode(": ping\n\n"));
    else if (came !== "closing" && !came.done) controller.enqueue(encoder.encode(came.value));
    else {
      if (came === "closing") controller.enqueue(encoder.encode(": the server is closing\n\n"));
      end();
      controller.close();
    }
  }

  const body = new ReadableStream({ pull, cancel: end }, { highWaterMark: 0 });
  return new Response(body, { headers: sseHeaders });
}

type Came = IteratorResult<string> | "quiet" | "closing";
type Source = { next(): Promise<Came>; close(): void };

/** What comes first: the next frame, so much time without one, or the end of the server. */
function createSource(frames: AsyncIterator<string>, { heartbeatMs, closing }: SseOptions): Source {
  let waiting: ((came: Came) => void) | undefined;
  /** A frame that came while nobody waited: after a comment. */
  let ready: Came | undefined;
  let asked = false;

  function tell(came: Came): boolean {
    const resolve = waiting;
    waiting = undefined;
    resolve?.(came);
    return resolve !== undefined;
  }

  function take(came: Came): void {
    asked = false;
    if (!tell(came)) ready = came;
  }

  // One timer and one listener for the whole stream, since there are thousands of frames; none before it is read.
  let timer: NodeJS.Timeout | undefined;
  const onClosing = (): void => void tell("closing");

  function arm(): void {
    if (timer) {
      timer.refresh();
      return;
    }
    timer = setTimeout(() => tell("quiet"), heartbeatMs);
    closing?.addEventListener("abort", onClosing);
  }

  return {
    async next() {
      if (closing?.aborted) return "closing";
      if (ready) {
        const came = ready;
        ready = undefined;
        return came;
      }
      const { promise, resolve } = Promise.withResolvers<Came>();
      waiting = resolve;
      arm();
      if (!asked) {
        asked = true;
        frames.next().then(take, () => take({ done: true, value: undefined }));
      }
      return promise;
    },
    close() {
      clearTimeout(timer);
      closing?.removeEventListener("abort", onClosing);
      tell("closing");
    },
  };
}
