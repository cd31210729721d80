import type { Usage } from "../core/run.ts";
import { noUsage } from "../core/run.ts";
import type { ModelClient, ModelFailure, ModelOutcome, ModelRequest } from "../ports.ts";
import type { Endpoint } from "./endpoint.ts";
import { createSdk, type Exchange, exchange } from "./exchange.ts";
import { type Asked, classifyError, redact } from "./failure.ts";
import { type SentMessage, unreachableImage, withoutData } from "./parts-refusal.ts";
import { findQuirk } from "./quirks.ts";
import { toRequestBody } from "./request.ts";
import { toModelReply } from "./response.ts";
import { readRetryAfter } from "./retry-after.ts";
import { readServerError, type ServerError, toServerError } from "./server-error.ts";
import { estimateUsage, type Price, withCost } from "./usage.ts";

export type ModelClientOptions = {
  model: string;
  stream: boolean;
  /** Limit of a whole call, in ms. */
  timeoutMs: number;
  /** Limit between two data events, in ms. */
  idleTimeoutMs: number;
  headers: Record<string, string>;
  price?: Price | undefined;
  /** Types of content the model takes; undefined: learned from refusals. */
  accepts?: readonly Accepted[] | undefined;
  /** Asked at each call, so that an agent can be defined before its key is there. */
  endpoint: () => Endpoint;
};

/** Kinds of content that a model may take. */
export const acceptable = ["text", "image", "file", "audio"] as const;
export type Accepted = (typeof acceptable)[number];

const partTypes = { image: "image_url", file: "file", audio: "input_audio" } as const;

/** What a declaration rules out, by the names under which a refusal would be remembered. */
function quirksOf(accepts: readonly Accepted[] | undefined): string[] {
  if (accepts === undefined) return [];
  const kinds = ["image", "file", "audio"] as const;
  return kinds.filter((kind) => !accepts.includes(kind)).map((kind) => `part.${partTypes[kind]}`);
}

/** How many refused fields one call may learn of; after that the refusal stands. */
const maxRefusals = 16;

/**
 * A client of the Chat Completions API. It remembers what its server refused by name and leaves that out from then on;
 * it does not retry otherwise: that is the run's to decide.
 */
export function createModelClient(options: ModelClientOptions): ModelClient {
  const quirks = new Set<string>(quirksOf(options.accepts));
  let last: { endpoint: Endpoint; sdk: ReturnType<typeof createSdk> } | undefined;
  const sdkFor = (endpoint: Endpoint): ReturnType<typeof createSdk> => {
    const isSame = last?.endpoint.baseURL === endpoint.baseURL && last.endpoint.apiKey === endpoint.apiKey;
    if (!last || !isSame) last = { endpoint, sdk: createSdk(endpoint, options.headers) };
    return last.sdk;
  };
  return {
    call: async (request) => {
      const endpoint = options.endpoint();
      if (endpoint.problem !== undefined) {
        return failure({ class: "permanent", code: "not_configured", message: endpoint.problem }, noUsage, quirks);
      }
      const startedAt = performance.now();
      const sdk = await sdkFor(endpoint);
      for (let refusals = 0; ; refusals += 1) {
        const body = toRequestBody(request, { ...options, quirks });
        const timeoutMs = options.timeoutMs - (performance.now() - startedAt);
        const answer = await exchange({ ...options, sdk, body, timeoutMs, request });
        const refusal = refusals < maxRefusals ? toRefusal(answer) : undefined;
        if (refusal) {
          const quirk = findQuirk(refusal.error, body, quirks, refusal.raw);
          if (quirk !== undefined) {
            quirks.add(quirk);
            continue;
          }
        }
        return toOutcome(answer, { request, options, endpoint, quirks, sent: body.messages as SentMessage[] });
      }
    },
  };
}

type Context = {
  request: ModelRequest;
  options: ModelClientOptions;
  endpoint: Endpoint;
  quirks: ReadonlySet<string>;
  sent: SentMessage[];
};

/** The error of a server in either of its places, and all that it said. */
function toRefusal(answer: Exchange): { error: ServerError; raw: string } | undefined {
  if (answer.type === "refused") return { error: readServerError(answer.status, answer.text), raw: answer.text };
  const error = answer.type === "answered" ? answer.accumulated.error : undefined;
  return error === undefined ? undefined : { error: toServerError(undefined, error), raw: JSON.stringify(error) ?? "" };
}

function toOutcome(answer: Exchange, context: Context): ModelOutcome {
  const { options, endpoint, quirks } = context;
  const asked: Asked = { host: hostOf(endpoint), model: options.model };
  const secrets = [endpoint.apiKey, ...Object.values(options.headers)];
  const fail = (reason: ModelFailure, usage: Usage): ModelOutcome =>
    failure({ ...reason, message: redact(withoutData(reason.message), secrets) }, usage, quirks);
  const classify = (error: ServerError, raw: string): ModelFailure =>
    unreachableImage(error, context.sent, raw, asked.host) ?? classifyError(error, asked);

  switch (answer.type) {
    case "unreachable":
      return fail(unreachable(answer, asked.host), noUsage);
    case "refused": {
      const reason = classify(readServerError(answer.status, answer.text), answer.text);
      const retryAfterMs =
        reason.class === "transient" ? readRetryAfter(answer.headers, Date.now(), answer) : undefined;
      return fail(retryAfterMs === undefined ? reason : { ...reason, retryAfterMs }, noUsage);
    }
    case "broken":
      return { ...fail(broken(answer, asked.host), usageOf(answer, context)), ...factsOf(answer) };
    case "answered": {
      const { error } = answer.accumulated;
      const usage = usageOf(answer, context);
      if (error !== undefined) {
        // What a server charged for an error it tells itself; nothing of it was an answer worth counting.
        const spent = answer.accumulated.usage ? usage : noUsage;
        return {
          ...fail(classify(toServerError(undefined, error), JSON.stringify(error) ?? ""), spent),
          ...factsOf(answer),
        };
      }
      const { reply, finishReason } = toModelReply(answer.accumulated, context.request);
      return { type: "reply", reply, finishReason, usage, dropped: [...quirks], ...factsOf(answer) };
    }
  }
}

type WithBody = Extract<Exchange, { type: "answered" | "broken" }>;

function factsOf({
  accumulated,
  timeToFirstChunkMs,
}: WithBody): Pick<ModelOutcome, "model" | "responseId" | "timeToFirstChunkMs"> {
  return {
    ...(accumulated.model ? { model: accumulated.model } : {}),
    ...(accumulated.responseId ? { responseId: accumulated.responseId } : {}),
    ...(timeToFirstChunkMs === undefined ? {} : { timeToFirstChunkMs }),
  };
}

function usageOf({ accumulated }: WithBody, { request, options }: Context): Usage {
  return withCost(accumulated.usage ?? estimateUsage(request, accumulated.received), options.price);
}

function failure(reason: ModelFailure, usage: Usage, quirks: ReadonlySet<string>): ModelOutcome {
  return { type: "failure", failure: reason, usage, dropped: [...quirks] };
}

function unreachable({ code, detail }: Extract<Exchange, { type: "unreachable" }>, host: string): ModelFailure {
  switch (code) {
    case "aborted":
      return { class: "aborted", code, message: "The model call was aborted before the server answered." };
    case "timeout":
      return { class: "transient", code, message: `The model server at ${host} did not answer in time (${detail}).` };
    case "connection_error":
      return { class: "transient", code, message: `The model server at ${host} could not be reached: ${detail}.` };
  }
}

function broken({ code, detail }: Extract<Exchange, { type: "broken" }>, host: string): ModelFailure {
  switch (code) {
    case "aborted":
      return { class: "aborted", code, message: "The model call was aborted while the answer was arriving." };
    case "timeout":
    case "idle_timeout":
      return { class: "transient", code, message: `The answer of the model server at ${host} stopped: ${detail}.` };
    case "cut":
      return { class: "transient", code, message: `The answer of the model server at ${host} was cut off: ${detail}.` };
  }
}

function hostOf({ server, baseURL }: Endpoint): string {
  return server ? `${server.address}:${server.port}` : baseURL;
}
