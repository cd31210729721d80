import { requireScope } from "../access/access.ts";
import { answerEvents } from "../sse.ts";
import type { HttpApp, HttpContext, HttpDeps } from "../types.ts";
import { answerLate } from "./answer-late.ts";
import { create } from "./create.ts";
import { badField, toV1Error, V1Error } from "./errors.ts";
import { listItems } from "./input-items.ts";
import { type Asking, readVisible } from "./plan.ts";
import { readProgress, unknownResponse } from "./progress.ts";
import { type Kept, toSubject } from "./record.ts";
import { removeResponse } from "./remove.ts";
import { readResponseBody } from "./request.ts";
import { toCreation } from "./response-request.ts";
import { eventsExpired, type ResponsesLog } from "./responses-log.ts";
import { waitForEnd } from "./wait.ts";
import { toResponse, type WireResponse } from "./wire.ts";

/** `/v1/responses`: each response is a durable run, or a part of one between two questions to the caller. */
export function addResponses(app: HttpApp, deps: HttpDeps, log: ResponsesLog): void {
  const asking = (context: HttpContext): Asking => ({ deps, context });
  const find = (context: HttpContext): Promise<Kept> => {
    const id = context.req.param("id") ?? "";
    return readVisible(asking(context), id, () => unknownResponse(id)).then((kept) => {
      if (kept.request.kind !== "response") throw unknownResponse(id);
      return kept;
    });
  };

  app.post("/responses", requireScope("start"), async (context) => {
    const body = await readResponseBody(context);
    const kept = await create(asking(context), await toCreation(asking(context), body));
    context.header("x-drover-run-id", kept.record.runId);
    if (body.stream) return streamEvents(context, { deps, log, kept, from: 0 });
    if (body.background) return context.json(kept.isNew ? toBegun(kept) : await show(asking(context), kept));
    const { heartbeatMs: afterMs } = deps.settings;
    return answerLate(context, deps, { afterMs, make: (signal) => waitForEnd(deps, kept, signal) });
  });

  app.get("/responses/:id", requireScope("read"), async (context) => {
    const kept = await find(context);
    context.header("x-drover-run-id", kept.record.runId);
    if (context.req.query("stream") !== "true") return context.json(await show(asking(context), kept));
    return streamEvents(context, { deps, log, kept, from: await readCursor(context, log, kept) });
  });

  app.post("/responses/:id/cancel", requireScope("decide"), async (context) => {
    const kept = await find(context);
    if (!kept.request.echo.background) {
      throw new V1Error(400, "Only a response created with background=true can be cancelled.", {
        param: "response_id",
      });
    }
    const { response } = await readProgress(deps, kept);
    if (isLive(response)) {
      await context.var.runs.get(kept.record.runId).cancel({ reason: "its response was cancelled" });
    }
    return context.json(await show(asking(context), kept));
  });

  app.delete("/responses/:id", requireScope("decide"), async (context) => {
    const kept = await find(context);
    await removeResponse(asking(context), kept);
    return context.json({ id: kept.record.id, object: "response", deleted: true });
  });

  app.get("/responses/:id/input_items", requireScope("read"), async (context) => {
    return context.json(listItems(context, await find(context)));
  });
}

function isLive({ status }: Pick<WireResponse, "status">): boolean {
  return status === "queued" || status === "in_progress";
}

/** A Response that was just created, whatever a worker may have done for it since. */
function toBegun(kept: Kept): WireResponse {
  return toResponse(toSubject(kept), { status: kept.record.afterSeq > 0 ? "in_progress" : "queued" });
}

/** A Response by now. While its run waits for something, its metadata says for what. */
async function show({ deps, context }: Asking, kept: Kept): Promise<WireResponse> {
  const { response } = await readProgress(deps, kept);
  if (!isLive(response)) return response;
  const view = await context.var.runs.get(kept.record.runId).status();
  const call = view.openCalls.find(({ state }) => state === "approval" || state === "asking" || state === "answer");
  const waiting = view.waitingFor === undefined ? {} : { drover_waiting_for: view.waitingFor };
  const about = call === undefined ? {} : { drover_call_id: call.callId };
  const more = view.waitingFor === undefined ? {} : { drover_run_id: view.runId };
  return { ...response, metadata: { ...response.metadata, ...more, ...waiting, ...about } };
}

/** The number of the first event to send. @throws V1Error for a cursor that no client can have */
async function readCursor(context: HttpContext, log: ResponsesLog, kept: Kept): Promise<number> {
  const param = "starting_after";
  const given = context.req.query(param);
  if (given === undefined || given === "") return 0;
  if (!/^\d{1,15}$/.test(given)) throw badField(param, "starting_after must be the sequence_number of an event.");
  const length = await log.length(toSubject(kept));
  if (length === "expired") throw eventsExpired();
  const from = Number(given) + 1;
  if (from > length.next)
    throw badField(param, `This response has no event ${given} yet: the last is ${length.next - 1}.`);
  return from;
}

type Streaming = { deps: HttpDeps; log: ResponsesLog; kept: Kept; from: number };

async function streamEvents(context: HttpContext, { deps, log, kept, from }: Streaming): Promise<Response> {
  const gone = new AbortController();
  const frames = toFrames(log.events(toSubject(kept), from, gone.signal), from);
  const response = answerEvents(frames, {
    heartbeatMs: deps.settings.heartbeatMs,
    closing: deps.closing,
    onEnd: () => gone.abort(),
  });
  for (const [name, value] of response.headers) context.header(name, value);
  return context.body(response.body as ReadableStream);
}

const eventType = /^\{"type":"([a-z_.]+)"/;

/** Trouble after the beginning is told as an event, in the form in which clients throw it. */
async function* toFrames(events: AsyncGenerator<string>, from: number): AsyncGenerator<string> {
  let next = from;
  try {
    for await (const event of events) {
      next += 1;
      yield `event: ${eventType.exec(event)?.[1] ?? "message"}\ndata: ${event}\n\n`;
    }
  } catch (error) {
    const { message, details } = toV1Error(error);
    const fields = { code: details.code ?? "server_error", message, param: details.param ?? null };
    yield `event: error\ndata: ${JSON.stringify({ type: "error", sequence_number: next, ...fields })}\n\n`;
  }
}
