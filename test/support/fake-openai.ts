import { appendFileSync } from "node:fs";
import { createServer, type IncomingHttpHeaders, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";

/** A request as the fake server got it. */
export type FakeRequest = {
  /** From 0, in order of arrival. */
  index: number;
  /** Epoch ms. */
  at: number;
  path: string;
  headers: IncomingHttpHeaders;
  body: FakeBody;
};
export type FakeBody = {
  model: string;
  messages: FakeMessage[];
  tools?: { type: string; function: { name: string; description: string; parameters: Record<string, unknown> } }[];
  stream?: boolean;
  [field: string]: unknown;
};
export type FakeMessage = {
  role: string;
  content?: unknown;
  tool_calls?: { id: string; type: string; function: { name: string; arguments: string } }[];
  tool_call_id?: string;
  [field: string]: unknown;
};

/**
 * An answer of the model. It is sent as server-sent events or as one body, as the request asks.
 * - `text` or its pieces `deltas`; `toolCalls` with arguments as an object or as text;
 * - `delayMs` before the first byte, `chunkDelayMs` before each piece;
 * - `end`: "hold" never ends the answer after its pieces; "cut" ends it without a finish reason; "reset" resets the connection.
 */
export type FakeReply = {
  text?: string;
  deltas?: string[];
  toolCalls?: { id?: string; name: string; arguments: string | Record<string, unknown> }[];
  finishReason?: string;
  usage?: Record<string, unknown> | null;
  extra?: Record<string, unknown>;
  delayMs?: number;
  chunkDelayMs?: number;
  end?: "done" | "hold" | "cut" | "reset";
};
/** A bare HTTP answer: `body` as JSON, text as it is, or pieces of text and bytes each in a write of its own. */
export type FakeHttp = {
  status: number;
  headers?: Record<string, string>;
  body?: unknown;
  pieces?: (string | Uint8Array)[];
  end?: "done" | "hold" | "reset";
};
export type FakeAnswer = string | FakeReply | FakeHttp;

export type FakeOpenAIOptions = {
  respond: (request: FakeRequest) => FakeAnswer | Promise<FakeAnswer>;
  /** A file that gets one JSON line per request, `{ index, at, turn, body }`, before it is answered. */
  ledger?: string;
};

export type FakeOpenAI = {
  /** To be used as `baseURL`. */
  url: string;
  requests: FakeRequest[];
  /** Resolves with the request of that index once it has arrived. */
  received(index: number): Promise<FakeRequest>;
  /** Resolves with epoch ms when the client closed the connection of that request before its answer's end. */
  closedBy(index: number): Promise<number>;
  stop(): Promise<void>;
};

/** The turn a request asks for: one more than the answers it holds. */
export function turnOf(body: FakeBody): number {
  return body.messages.filter(({ role }) => role === "assistant").length + 1;
}

/** Starts a server that speaks Chat Completions on a free port of the loopback address. */
export async function startFakeOpenai(options: FakeOpenAIOptions): Promise<FakeOpenAI> {
  const requests: FakeRequest[] = [];
  const arrivals = createLatches<FakeRequest>();
  const closings = createLatches<number>();
  const server = createServer((incoming, response) => {
    serve(incoming, response, { options, requests, arrivals, closings }).catch((error: unknown) => {
      response.destroy(error instanceof Error ? error : undefined);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`,
    requests,
    received: arrivals.get,
    closedBy: closings.get,
    stop: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

type Latches<T> = { get(index: number): Promise<T>; open(index: number, value: T): void };

/** One promise per index, resolved once. */
function createLatches<T>(): Latches<T> {
  const latches = new Map<number, PromiseWithResolvers<T>>();
  const at = (index: number): PromiseWithResolvers<T> => {
    const latch = latches.get(index) ?? Promise.withResolvers<T>();
    latches.set(index, latch);
    return latch;
  };
  return { get: (index) => at(index).promise, open: (index, value) => at(index).resolve(value) };
}

type Serving = {
  options: FakeOpenAIOptions;
  requests: FakeRequest[];
  arrivals: Latches<FakeRequest>;
  closings: Latches<number>;
};

async function serve(incoming: IncomingMessage, response: ServerResponse, serving: Serving): Promise<void> {
  const { options, requests, arrivals, closings } = serving;
  const chunks: Buffer[] = [];
  for await (const chunk of incoming) chunks.push(chunk as Buffer);
  const body = JSON.parse(Buffer.concat(chunks).toString("utf8")) as FakeBody;
  const { url: path = "", headers } = incoming;
  const request: FakeRequest = { index: requests.length, at: Date.now(), path, headers, body };
  requests.push(request);
  response.on("close", () => {
    if (!response.writableFinished) closings.open(request.index, Date.now());
  });
  if (options.ledger !== undefined) {
    const { index, at } = request;
    appendFileSync(options.ledger, `${JSON.stringify({ index, at, turn: turnOf(body), body })}\n`);
  }
  arrivals.open(request.index, request);
  const answer = await options.respond(request);
  if (response.destroyed) return;
  if (typeof answer !== "string" && "status" in answer) return sendHttp(response, answer);
  await sendReply(response, body, typeof answer === "string" ? { text: answer } : answer);
}

async function sendHttp(response: ServerResponse, answer: FakeHttp): Promise<void> {
  const { status, headers = {}, body, pieces, end = "done" } = answer;
  const isJson = pieces === undefined && typeof body !== "string";
  response.writeHead(status, { "content-type": isJson ? "application/json" : "text/plain", ...headers });
  const writes = pieces ?? [typeof body === "string" ? body : JSON.stringify(body ?? {})];
  await writeAll(response, writes, 0);
  await finish(response, end);
}

async function sendReply(response: ServerResponse, body: FakeBody, reply: FakeReply): Promise<void> {
  if (reply.delayMs) await sleep(reply.delayMs);
  if (response.destroyed) return;
  const end = reply.end ?? "done";
  if (body.stream === true) {
    response.writeHead(200, { "content-type": "text/event-stream" });
    response.flushHeaders();
    await writeAll(response, toEvents(body, reply), reply.chunkDelayMs ?? 0);
    await finish(response, end === "cut" ? "done" : end);
    return;
  }
  const text = JSON.stringify(toCompletion(body, reply));
  response.writeHead(200, { "content-type": "application/json", "content-length": Buffer.byteLength(text) });
  await writeAll(response, [end === "done" ? text : text.slice(0, text.length / 2)], 0);
  if (end === "cut") response.socket?.destroy();
  else await finish(response, end);
}

/** Writes each piece in a segment of its own, so that a client sees them one by one. */
async function writeAll(
  response: ServerResponse,
  pieces: readonly (string | Uint8Array)[],
  delayMs: number,
): Promise<void> {
  response.socket?.setNoDelay(true);
  for (const piece of pieces) {
    if (delayMs > 0) await sleep(delayMs);
    if (response.destroyed) return;
    await new Promise<void>((resolve) => response.write(piece, () => resolve()));
  }
}

/** A reset throws away what the client has not read yet: it comes a little after the last piece. */
const beforeResetMs = 30;

async function finish(response: ServerResponse, end: "done" | "hold" | "reset"): Promise<void> {
  if (response.destroyed || end === "hold") return;
  if (end === "done") {
    response.end();
    return;
  }
  await sleep(beforeResetMs);
  response.socket?.resetAndDestroy();
}

const defaultUsage = { prompt_tokens: 10, completion_tokens: 5, total_tokens: 15 };

function wireCalls(reply: FakeReply): Record<string, unknown>[] {
  return (reply.toolCalls ?? []).map(({ id, name, arguments: args }, index) => ({
    index,
    id: id ?? `call_${index}_${name}`,
    type: "function",
    function: { name, arguments: typeof args === "string" ? args : JSON.stringify(args) },
  }));
}

function finishReasonOf(reply: FakeReply): string {
  return reply.finishReason ?? (reply.toolCalls?.length ? "tool_calls" : "stop");
}

function toEvents(body: FakeBody, reply: FakeReply): string[] {
  const head = { id: "chatcmpl-fake", object: "chat.completion.chunk", created: 0, model: body.model };
  const event = (fields: Record<string, unknown>): string => `data: ${JSON.stringify({ ...head, ...fields })}\n\n`;
  const choice = (delta: Record<string, unknown>, finishReason: string | null = null): string =>
    event({ choices: [{ index: 0, delta, finish_reason: finishReason }] });
  const pieces = [
    choice({ role: "assistant", content: "", ...reply.extra }),
    ...(reply.deltas ?? (reply.text === undefined ? [] : [reply.text])).map((content) => choice({ content })),
    ...wireCalls(reply).map((call) => choice({ tool_calls: [call] })),
  ];
  if (reply.end !== undefined && reply.end !== "done") return pieces;
  const usage = reply.usage === undefined ? defaultUsage : reply.usage;
  return [...pieces, choice({}, finishReasonOf(reply)), event({ choices: [], usage }), "data: [DONE]\n\n"];
}

function toCompletion(body: FakeBody, reply: FakeReply): Record<string, unknown> {
  const text = reply.text ?? reply.deltas?.join("");
  const toolCalls = wireCalls(reply).map((call) => ({ ...call, index: undefined }));
  const message = {
    role: "assistant",
    content: text ?? null,
    ...reply.extra,
    ...(toolCalls.length > 0 ? { tool_calls: toolCalls } : {}),
  };
  return {
    id: "chatcmpl-fake",
    object: "chat.completion",
    created: 0,
    model: body.model,
    choices: [{ index: 0, message, finish_reason: finishReasonOf(reply) }],
    usage: reply.usage === undefined ? defaultUsage : reply.usage,
  };
}
