import { atMost } from "../../at-most.ts";
import type { HttpContext, HttpDeps } from "../types.ts";
import { errorResponse } from "./errors.ts";

type Late = {
  /** Until then the status can still be that of an error, in ms. */
  afterMs: number;
  make: (signal: AbortSignal) => Promise<unknown>;
};

/**
 * Answers with JSON that may be a long time in coming. After a while the answer begins with blanks, which JSON allows, so
 * that nobody between takes the connection for dead. Whoever goes away costs nothing, and stops nothing.
 */
export async function answerLate(
  context: HttpContext,
  { settings, closing }: Pick<HttpDeps, "settings" | "closing">,
  { afterMs, make }: Late,
): Promise<Response> {
  const gone = new AbortController();
  const signal = AbortSignal.any([gone.signal, context.req.raw.signal, ...(closing ? [closing] : [])]);
  const made = make(signal);
  const first = await atMost(afterMs, made);
  if (first) return context.json(first.value as object);
  const encoder = new TextEncoder();
  const body = new ReadableStream<Uint8Array>({
    async pull(controller) {
      const next = await atMost(settings.heartbeatMs, made).catch(async (error: unknown) => {
        // The status has gone out: what is left is to say it in words.
        const response = errorResponse(context, error, () => {});
        return { value: await response.json() };
      });
      controller.enqueue(encoder.encode(next ? JSON.stringify(next.value) : " "));
      if (next) controller.close();
    },
    cancel: () => gone.abort(),
  });
  context.header("content-type", "application/json");
  return context.body(body);
}
