import type { HttpContext } from "../types.ts";

/** A stream is looked at again this often; a key that was removed is noticed by then, give or take the keyring's second. */
const lookEveryMs = 2_000;

/**
 * Lets a stream of events go on only while its reader may still ask: it may outlive by days the key it was asked with.
 *
 * @param isGood asked now and then; while it cannot tell (Redis is away), the stream goes on.
 */
export function endWithAccess(context: HttpContext, isGood: () => Promise<boolean>): void {
  const { res } = context;
  const { body } = res;
  if (!body || !/^text\/event-stream\b/.test(res.headers.get("content-type") ?? "")) return;
  const reader = body.getReader();
  const timer = setInterval(() => {
    isGood().then(
      // What is being read ends as if the stream had.
      (good) => (good ? undefined : reader.cancel()),
      () => {},
    );
  }, lookEveryMs);
  timer.unref();
  const stop = (): void => clearInterval(timer);
  const checked = new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        try {
          const { done, value } = await reader.read();
          if (!done) return controller.enqueue(value);
          stop();
          controller.close();
        } catch (error) {
          stop();
          controller.error(error);
        }
      },
      cancel(reason) {
        stop();
        return reader.cancel(reason);
      },
    },
    // Nothing is taken from it before it is asked for.
    { highWaterMark: 0 },
  );
  context.res = new Response(checked, res);
}
