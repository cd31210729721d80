import { requireScope } from "../access/access.ts";
import { answerEvents, toFrame } from "../sse.ts";
import type { HttpApp, HttpContext, HttpDeps } from "../types.ts";
import { answerLate } from "./answer-late.ts";
import { toChatAnswer, toCompletion, toToolCall } from "./chat-object.ts";
import { toChatCreation } from "./chat-request.ts";
import { create } from "./create.ts";
import { toOpenAIError, toV1Error, V1Error } from "./errors.ts";
import { lastResponse } from "./progress.ts";
import { type Kept, toSubject } from "./record.ts";
import { readChatBody } from "./request.ts";
import { projections } from "./responses-log.ts";
import { waitForEnd } from "./wait.ts";
import type { WireEvent, WireResponse } from "./wire.ts";

/** A failed run is told by the status for so long; common proxies give up on a silent answer after a minute. */
const patienceMs = 50_000;

/** `POST /v1/chat/completions`: a durable run, for clients that know no other API. */
export function addChat(app: HttpApp, deps: HttpDeps): void {
  app.post("/chat/completions", requireScope("start"), async (context) => {
    const body = await readChatBody(context);
    const kept = await create({ deps, context }, await toChatCreation({ deps }, body));
    context.header("x-drover-run-id", kept.record.runId);
    if (body.stream) return streamChunks(context, deps, kept);
    const make = async (signal: AbortSignal): Promise<unknown> => toCompletion(await waitForEnd(deps, kept, signal));
    return answerLate(context, deps, { afterMs: Math.max(deps.settings.heartbeatMs, patienceMs), make });
  });
}

function streamChunks(context: HttpContext, deps: HttpDeps, kept: Kept): Response {
  const gone = new AbortController();
  const response = answerEvents(toFrames(deps, kept, gone.signal), {
    heartbeatMs: deps.settings.heartbeatMs,
    closing: deps.closing,
    onEnd: () => gone.abort(),
  });
  for (const [name, value] of response.headers) context.header(name, value);
  return context.body(response.body as ReadableStream);
}

/** An error after the beginning is an object with `error`, which clients throw. */
async function* toFrames(deps: HttpDeps, kept: Kept, signal: AbortSignal): AsyncGenerator<string> {
  try {
    for await (const chunk of toChunks(deps, kept, signal)) yield toFrame({ data: JSON.stringify(chunk) });
    yield toFrame({ data: "[DONE]" });
  } catch (error) {
    const { status, message, details } = toV1Error(error);
    yield toFrame({ data: JSON.stringify(toOpenAIError(status, message, details)) });
  }
}

type Chunk = Record<string, unknown>;

/**
 * What was sent of a chat completion cannot be taken back. So text goes out as it comes only where it can hardly turn out
 * not to count (`live`); else when the answer is committed.
 */
async function* toChunks(deps: HttpDeps, kept: Kept, signal: AbortSignal): AsyncGenerator<Chunk> {
  const chunk = chunksOf(kept);
  yield chunk({ role: "assistant", content: "" });
  let sent = "";
  let response: WireResponse | undefined;
  for await (const { events } of projections(deps, toSubject(kept), signal)) {
    response = lastResponse(events) ?? response;
    const text = kept.request.live ? textOf(events, sent) : "";
    if (text !== "") yield chunk({ content: text });
    sent += text;
  }
  if (response && !signal.aborted) yield* lastChunks(kept, response, sent);
}

type MakeChunk = (delta: Chunk, finishReason?: string) => Chunk;

function chunksOf({ record, request }: Kept): MakeChunk {
  const created = Math.floor(record.createdAt / 1_000);
  const head = { id: record.id, object: "chat.completion.chunk", created, model: request.echo.model };
  const usage = request.includeUsage ? { usage: null } : {};
  return (delta, finishReason) => ({
    ...head,
    choices: [{ index: 0, delta, logprobs: null, finish_reason: finishReason ?? null }],
    ...usage,
  });
}

/** @param sent text that went out before the end. */
function lastChunks(kept: Kept, response: WireResponse, sent: string): Chunk[] {
  const chunk = chunksOf(kept);
  const { content, refusal, calls, finishReason, usage } = toChatAnswer(response);
  const whole = content ?? "";
  if (!whole.startsWith(sent)) throw lost();
  const rest = whole.slice(sent.length);
  const last = chunk({}, finishReason);
  return [
    ...(rest === "" ? [] : [chunk({ content: rest })]),
    ...(refusal === null ? [] : [chunk({ refusal })]),
    ...calls.map((call, index) => chunk({ tool_calls: [{ index, ...toToolCall(call) }] })),
    last,
    ...(kept.request.includeUsage ? [{ ...last, choices: [], usage }] : []),
  ];
}

/** New text. @throws V1Error if text that was sent is void */
function textOf(events: readonly WireEvent[], sent: string): string {
  if (sent !== "" && events.some((event) => isVoid(event))) throw lost();
  return events.map((event) => (event.type === "response.output_text.delta" ? String(event.delta) : "")).join("");
}

function isVoid({ type, item }: WireEvent): boolean {
  return type === "response.output_item.done" && (item as { status?: string }).status === "incomplete";
}

function lost(): V1Error {
  const message =
    "The model's answer broke off and begins anew. Send the request again: with the same Idempotency-Key it is the same run.";
  return new V1Error(500, message, { code: "answer_restarted" });
}
