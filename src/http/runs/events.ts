import { z } from "zod";
import { DroverError, isOutage } from "../../core/errors.ts";
import { fromFeedId, type RunFeedEvent } from "../../core/feed.ts";
import { pause } from "../../engine/pause.ts";
import type { RunHandle } from "../../engine/run-handle.ts";
import { redactedFeed } from "../redacted-feed.ts";
import { answerEvents, sseHeaders, toFrame } from "../sse.ts";
import type { HttpContext, HttpDeps } from "../types.ts";
import { type Api, addEndpoint } from "./endpoint.ts";
import { runIdParams } from "./parameters.ts";

const retryMs = 1_000;
const lookAgainMs = 500;

export function addEvents(api: Api, deps: HttpDeps): void {
  addEndpoint(
    api,
    {
      method: "get",
      path: "/runs/{runId}/events",
      tag: "Runs",
      summary: "Watch a run",
      scope: "read",
      params: runIdParams,
      query: z.object({
        after: z.string().max(200).optional().describe("Go on after the event with this id"),
      }),
      headers: z.object({
        "last-event-id": z.string().max(200).optional().describe("As `after`; sent by a client that connects again"),
      }),
      answers: {
        200: {
          description: "Server-sent events",
          content: { "text/event-stream": { schema: z.string() } },
        },
        204: {
          description: "The run has ended and there is nothing after that event. A client need not connect again.",
        },
      },
      problems: [404],
    },
    async (context, { params, query, headers }) => {
      const run = context.var.runs.get(params.runId);
      const after = headers["last-event-id"] || query.after || undefined;
      return watch(context, deps, { run, after });
    },
  );
}

type Watching = { run: RunHandle; after: string | undefined };

async function watch(context: HttpContext, deps: HttpDeps, { run, after }: Watching): Promise<Response> {
  if (after !== undefined && !fromFeedId(after))
    throw badPlace(`expected the id of an event, got ${JSON.stringify(after)}`);
  const { status } = await run.status();
  if (after !== undefined) await refuseFuture(deps, run.id, after);
  // A stream that nobody will read is not begun.
  if (context.req.method === "HEAD") return context.body(null, 200, sseHeaders);
  const gone = new AbortController();
  const events = eventsThroughOutages(run, deps, { after, signal: gone.signal });
  let first: Promise<IteratorResult<RunFeedEvent>> | undefined;
  if (after !== undefined && ends.has(status)) {
    first = events.next();
    // It was retried just now if nothing comes.
    const came = await Promise.race([first, pause(endKnownWithinMs, gone.signal)]);
    if (came?.done) return context.body(null, 204);
  }
  const { heartbeatMs } = deps.settings;
  const options = { heartbeatMs, retryMs, closing: deps.closing, onEnd: () => gone.abort() };
  return answerEvents(toFrames(events, first), options);
}

const ends = new Set(["completed", "failed", "cancelled", "rejected"]);
const endKnownWithinMs = 1_000;

function badPlace(why: string): DroverError {
  return new DroverError("invalid", `Last-Event-ID: ${why}.`);
}

/** Whoever is ahead of a run would wait for ever. */
async function refuseFuture({ store }: HttpDeps, runId: string, after: string): Promise<void> {
  const last = (await store.load(runId))?.eventSeq ?? 0;
  const seq = fromFeedId(after)?.seq ?? 0;
  if (seq > last) throw badPlace(`the run has no event ${seq}, its last one is ${last}. Watch it without an id`);
}

/** No generator: one more for each event of each watcher would be felt. */
function toFrames(
  events: AsyncGenerator<RunFeedEvent>,
  first: Promise<IteratorResult<RunFeedEvent>> | undefined,
): AsyncIterator<string> {
  let waiting = first;
  return {
    async next() {
      const { done, value } = await (waiting ?? events.next());
      waiting = undefined;
      return done ? { done, value: undefined } : { done: false, value: toEventFrame(value) };
    },
    return: async () => {
      await events.return(undefined);
      return { done: true, value: undefined };
    },
  };
}

const toEventFrame = (event: RunFeedEvent): string =>
  toFrame({ id: event.id, event: event.type, data: JSON.stringify(event) });

/** An outage of Redis after the beginning is waited out: a browser would not connect again after an answer of 503. */
async function* eventsThroughOutages(
  run: RunHandle,
  { redactor }: HttpDeps,
  { after, signal }: { after: string | undefined; signal: AbortSignal },
): AsyncGenerator<RunFeedEvent> {
  let last = after;
  for (;;) {
    try {
      for await (const event of redactedFeed((options) => run.events(options), redactor, { after: last, signal })) {
        last = event.id;
        yield event;
      }
      return;
    } catch (error) {
      if (!isOutage(error) || signal.aborted) throw error;
      await pause(lookAgainMs, signal);
      if (signal.aborted) return;
    }
  }
}
