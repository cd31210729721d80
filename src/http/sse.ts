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
  return new Response(toStream(frames, options), { headers: sseHeaders });
}

function toStream(frames: AsyncIterator<string>, options: SseOptions): ReadableStream<Uint8Array> {
  const { heartbeatMs, retryMs, closing, onEnd } = options;
  const encoder = new TextEncoder();
  let pending: Promise<IteratorResult<string>> | undefined;
  let begun = false;
  let ended = false;

  function end(): void {
    if (ended) return;
    ended = true;
    onEnd?.();
    // A generator that waits ends once its signal aborts; that is `onEnd`'s to see to.
    void frames.return?.()?.catch(() => {});
  }

  async function next(): Promise<string | undefined> {
    pending ??= frames.next();
    const result = await within(pending, heartbeatMs, closing);
    if (result === "closing") return undefined;
    if (result === "quiet") return ": ping\n\n";
    pending = undefined;
    return result.done ? undefined : result.value;
  }

  return new ReadableStream(
    {
      async pull(controller) {
        if (!begun && retryMs !== undefined) {
          begun = true;
          controller.enqueue(encoder.encode(`retry: ${retryMs}\n\n`));
          return;
        }
        begun = true;
        const frame = await next().catch(() => undefined);
        if (ended) return;
        if (frame !== undefined) {
          controller.enqueue(encoder.encode(frame));
          return;
        }
        if (closing?.aborted) controller.enqueue(encoder.encode(": the server is closing\n\n"));
        end();
        controller.close();
      },
      cancel: end,
    },
    { highWaterMark: 0 },
  );
}

/** What comes first: the promise, a time, or the signal. Leaves no timer and no listener behind. */
async function within<T>(promise: Promise<T>, ms: number, signal?: AbortSignal): Promise<T | "quiet" | "closing"> {
  if (signal?.aborted) return "closing";
  const other = Promise.withResolvers<"quiet" | "closing">();
  const onAbort = (): void => other.resolve("closing");
  const timer = setTimeout(() => other.resolve("quiet"), ms);
  signal?.addEventListener("abort", onAbort);
  try {
    return await Promise.race([promise, other.promise]);
  } finally {
    clearTimeout(timer);
    signal?.removeEventListener("abort", onAbort);
  }
}
