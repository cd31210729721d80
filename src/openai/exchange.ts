import type OpenAI from "openai";
import type { ModelRequest } from "../ports.ts";
import type { Accumulated } from "./accumulator.ts";
import { type BodyReader, createBodyReader } from "./body-reader.ts";
import type { Endpoint } from "./endpoint.ts";

/**
 * One request and what came of it.
 * - `unreachable`: no HTTP answer came;
 * - `refused`: an HTTP answer that is no success, with its whole body;
 * - `broken`: an answer began and its end was never seen;
 * - `answered`: an answer, or an error object in place of one, with its end seen.
 */
export type Exchange =
  | { type: "unreachable"; code: "aborted" | "timeout" | "connection_error"; detail: string }
  | { type: "refused"; status: number; headers: Headers; text: string }
  | ({ type: "broken"; code: "aborted" | "timeout" | "idle_timeout" | "cut"; detail: string } & Received)
  | ({ type: "answered" } & Received);
type Received = { accumulated: Accumulated; timeToFirstChunkMs?: number | undefined };

export type ExchangeOptions = {
  sdk: OpenAI;
  body: Record<string, unknown>;
  timeoutMs: number;
  idleTimeoutMs: number;
  request: Pick<ModelRequest, "signal" | "onText">;
};

/** Why we ended a request ourselves. */
type Reason = "aborted" | "timeout" | "idle_timeout";

/** Sends one request and reads its answer. Never rejects for what a server or the network did. */
export async function exchange(options: ExchangeOptions): Promise<Exchange> {
  const stop = createStop(options);
  const sentAt = performance.now();
  try {
    const response = await send(options, stop.signal);
    return await receive(response, options, { stop, sentAt });
  } catch (error) {
    const refused = stop.reason() === undefined ? await toRefused(error) : undefined;
    if (refused) return refused;
    const reason = stop.reason();
    const code = reason === "idle_timeout" ? "timeout" : (reason ?? "connection_error");
    return { type: "unreachable", code, detail: code === "timeout" ? limitText(options.timeoutMs) : describe(error) };
  } finally {
    stop.clear();
  }
}

type Stop = ReturnType<typeof createStop>;

/** The one signal that ends the request, and which of the causes set it off. */
function createStop({ timeoutMs, idleTimeoutMs, request }: ExchangeOptions): {
  signal: AbortSignal;
  reason(): Reason | undefined;
  /** Starts the wait for the next data event anew. */
  progress(limitMs?: number): void;
  clear(): void;
} {
  const controller = new AbortController();
  let why: Reason | undefined;
  const end = (reason: Reason): void => {
    why ??= reason;
    controller.abort();
  };
  const onAbort = (): void => end("aborted");
  if (request.signal.aborted) onAbort();
  request.signal.addEventListener("abort", onAbort, { once: true });
  const whole = setTimeout(() => end("timeout"), Math.max(timeoutMs, 0));
  let idle: NodeJS.Timeout | undefined;
  return {
    signal: controller.signal,
    reason: () => why,
    progress: (limitMs = idleTimeoutMs) => {
      clearTimeout(idle);
      idle = setTimeout(() => end("idle_timeout"), limitMs);
    },
    clear: () => {
      clearTimeout(whole);
      clearTimeout(idle);
      request.signal.removeEventListener("abort", onAbort);
    },
  };
}

function send({ sdk, body, timeoutMs }: ExchangeOptions, signal: AbortSignal): Promise<Response> {
  // Our own limit ends the call first; the SDK's would end with the headers anyway.
  const timeout = Math.ceil(Math.max(timeoutMs, 0)) + 60_000;
  return sdk.chat.completions.create(body as never, { signal, timeout }).asResponse();
}

/**
 * The SDK, loaded with the first call: a quarter of the time that a program with Drover takes to start, and one that only
 * starts runs never needs it.
 */
const loadSdk = (): Promise<typeof import("openai")> => import("openai");

/** The SDK's client for an endpoint, with everything off that would act on its own. */
export async function createSdk(endpoint: Endpoint, headers: Record<string, string>): Promise<OpenAI> {
  const { OpenAI } = await loadSdk();
  return new OpenAI({
    baseURL: endpoint.baseURL,
    // The SDK wants a key and looks for one; a server that needs none gets no header at all.
    apiKey: endpoint.apiKey ?? "none",
    defaultHeaders: { ...(endpoint.apiKey === undefined ? { authorization: null } : {}), ...headers },
    maxRetries: 0,
    logLevel: "off",
    fetch: fetchKeepingErrors,
  });
}

const keptHeaders = /^(?:retry-after(?:-ms)?|x-request-id|(?:x-)?ratelimit-.*)$/;

/** The SDK keeps of an error's body only one field, and nothing of a list: so all of it travels in that field. */
const fetchKeepingErrors: typeof fetch = async (input, init) => {
  const response = await fetch(input, init);
  if (response.ok) return response;
  const headers = [...response.headers].filter(([name]) => keptHeaders.test(name));
  const text = await response.text();
  // A status that may not have a body, and redirects that were not followed, count as a bad gateway.
  const status = response.status < 400 ? 502 : response.status;
  return new Response(JSON.stringify({ error: { text } }), { status, headers });
};

async function toRefused(error: unknown): Promise<Exchange | undefined> {
  const { APIError } = await loadSdk();
  if (!(error instanceof APIError) || typeof error.status !== "number") return undefined;
  const { text } = (error.error ?? {}) as { text?: string };
  return {
    type: "refused",
    status: error.status,
    headers: error.headers ?? new Headers(),
    text: text ?? error.message,
  };
}

/** How long usage may take to follow the last piece of an answer. */
const afterFinishMs = 2_000;

async function receive(
  response: Response,
  options: ExchangeOptions,
  { stop, sentAt }: { stop: Stop; sentAt: number },
): Promise<Exchange> {
  let timeToFirstChunkMs: number | undefined;
  if (options.body.stream === true) stop.progress();
  const onData = (): void => {
    timeToFirstChunkMs ??= performance.now() - sentAt;
    if (!reader.hasFinishReason()) stop.progress();
  };
  const reader = createBodyReader(options.request.onText, onData, toolNamesOf(options.body));
  const detail = await readBody(response, reader, () => stop.progress(Math.min(afterFinishMs, options.idleTimeoutMs)));
  const reason = stop.reason();
  const end = reader.close();
  const received = { accumulated: reader.result(), timeToFirstChunkMs };
  if (reason === "aborted" || (end.type === "cut" && reason !== undefined)) {
    const limit = reason === "idle_timeout" ? options.idleTimeoutMs : options.timeoutMs;
    return { type: "broken", code: reason, detail: limitText(limit), ...received };
  }
  if (end.type === "cut") return { type: "broken", code: "cut", detail: detail ?? end.problem, ...received };
  return { type: "answered", ...received };
}

function toolNamesOf({ tools }: Record<string, unknown>): Set<string> {
  return new Set(((tools ?? []) as { function: { name: string } }[]).map((tool) => tool.function.name));
}

/** Feeds a body to its reader until its end. @returns what went wrong, if the body could not be read to its end. */
async function readBody(
  response: Response,
  reader: BodyReader,
  onFinishReason: () => void,
): Promise<string | undefined> {
  const stream = response.body?.getReader();
  if (!stream) return undefined;
  let isFinishing = false;
  try {
    while (!reader.isDone()) {
      const { done, value } = await stream.read();
      if (done) return undefined;
      reader.feed(value);
      if (isFinishing || !reader.hasFinishReason()) continue;
      isFinishing = true;
      onFinishReason();
    }
  } catch (error) {
    return describe(error);
  } finally {
    releaseLater(stream);
  }
  return undefined;
}

/** Time in which a server may close an answer whose end was seen, so that the connection can be used again. */
const releaseMs = 100;

/** Reads what is left of a finished body, a short while, without making anyone wait; then drops the connection. */
function releaseLater(stream: ReadableStreamDefaultReader<Uint8Array>): void {
  const timer = setTimeout(() => void stream.cancel().catch(() => {}), releaseMs);
  const drain = async (): Promise<void> => {
    while (!(await stream.read()).done);
  };
  timer.unref();
  drain()
    .catch(() => {})
    .finally(() => clearTimeout(timer));
}

function limitText(limitMs: number): string {
  return `nothing more came within ${Math.max(Math.round(limitMs), 0)} ms`;
}

/** The innermost cause says what happened: `fetch failed` does not. */
function describe(error: unknown): string {
  let cause = error;
  while (cause instanceof Error && cause.cause instanceof Error) cause = cause.cause;
  if (!(cause instanceof Error)) return String(cause);
  const { code } = cause as { code?: unknown };
  return typeof code === "string" && !cause.message.includes(code) ? `${cause.message} (${code})` : cause.message;
}
