import { z } from "zod";
import type { ModelFailure } from "../ports.ts";

/** An error as a server told it, in whichever of its forms. */
export type ServerError = {
  /** Of the HTTP answer; undefined for an error inside a 200. */
  status?: number | undefined;
  code?: string | undefined;
  type?: string | undefined;
  param?: string | undefined;
  message: string;
};

/** Who was asked for what, for the sentences that tell the user what to do. */
export type Asked = { host: string; model: string };

const longestMessage = 600;
const word = z.union([z.string(), z.number()]).transform(String).optional().catch(undefined);
const errorSchema = z.looseObject({ code: word, type: word, param: word, message: word });
const envelopeSchema = z.looseObject({ error: z.unknown().optional(), detail: z.unknown().optional() });

/** Reads the body of a refusal: OpenAI's form, a bare text, a list, FastAPI's `detail`, a page of HTML. */
export function readServerError(status: number | undefined, text: string): ServerError {
  let body: unknown;
  try {
    body = JSON.parse(text);
  } catch {
    const isPage = /^\s*</.test(text);
    const title = /<title>(.*?)<\/title>/is.exec(text)?.[1] ?? "a page of HTML";
    return { status, message: shorten(isPage ? title : text) };
  }
  const first: unknown = Array.isArray(body) ? body[0] : body;
  const envelope = envelopeSchema.safeParse(first);
  if (!envelope.success) return { status, message: shorten(text) };
  return toServerError(status, envelope.data.error ?? envelope.data.detail ?? envelope.data);
}

/** Reads one error object or text. */
export function toServerError(status: number | undefined, raw: unknown): ServerError {
  if (typeof raw === "string") return { status, message: shorten(raw) };
  const parsed = errorSchema.safeParse(raw);
  if (!parsed.success) return { status, message: shorten(JSON.stringify(raw) ?? "no message") };
  const { code, type, param, message } = parsed.data;
  return { status, code, type, param, message: shorten(message ?? JSON.stringify(raw)) };
}

function shorten(text: string): string {
  const line = text.replace(/\s+/g, " ").trim();
  return line.length > longestMessage ? `${line.slice(0, longestMessage)}…` : line || "no message";
}

const overflowCodes = new Set([
  "context_length_exceeded",
  "exceed_context_size_error",
  "context_window_exceeded",
  "model_max_prompt_tokens_exceeded",
  "string_above_max_length",
]);
const overflowText =
  /context (?:length|window|size)|maximum context|prompt is too long|input (?:is )?too (?:long|large)|exceeds?(?: the)?(?: model'?s)?(?: maximum)? (?:context|number of tokens|token limit)|too many (?:input )?tokens/i;
const quotaCodes = new Set([
  "insufficient_quota",
  "billing_hard_limit_reached",
  "billing_not_active",
  "insufficient_balance",
  "account_deactivated",
]);
const quotaText = /insufficient (?:balance|credits?|funds)|out of credits/i;
const samplingCodes = new Set(["tool_use_failed", "json_validate_failed"]);
const keyCodes = new Set(["invalid_api_key", "authentication_error", "invalid_authentication"]);
const modelCodes = new Set(["model_not_found", "model_not_available"]);
const filterCodes = new Set(["content_filter", "content_policy_violation", "ResponsibleAIPolicyViolation"]);
const waitCodes = new Set([
  "rate_limit_exceeded",
  "rate_limit_error",
  "overloaded_error",
  "overloaded",
  "engine_overloaded",
  "engine_overloaded_error",
  "server_error",
  "internal_server_error",
  "api_error",
  "unavailable_error",
  "service_unavailable",
  "timeout",
]);

type Verdict = Pick<ModelFailure, "class" | "code" | "message">;

/** What a server's error means for the run: by its code first, by its status after. */
export function classifyError(error: ServerError, asked: Asked): ModelFailure {
  const verdict = byCode(error, asked) ?? byStatus(error, asked);
  return { ...verdict, ...(error.status === undefined ? {} : { status: error.status }) };
}

function byCode(error: ServerError, { host, model }: Asked): Verdict | undefined {
  const { status, message } = error;
  const codes = [error.code, error.type].filter((code) => code !== undefined);
  const has = (set: ReadonlySet<string>): boolean => codes.some((code) => set.has(code));
  const isRequestFault = status === undefined || (status >= 400 && status < 500 && status !== 429);
  if (has(overflowCodes) || status === 413 || (isRequestFault && overflowText.test(message))) {
    return {
      class: "overflow",
      code: "context_overflow",
      message: `The request is longer than the context of ${model} at ${host}: ${message}`,
    };
  }
  if (has(quotaCodes) || status === 402 || quotaText.test(message)) {
    return {
      class: "permanent",
      code: "insufficient_quota",
      message: `The account at ${host} has no quota left. Check its plan and billing, then retry the run. It said: ${message}`,
    };
  }
  if (has(samplingCodes)) {
    return {
      class: "transient",
      code: "tool_use_failed",
      message: `The model wrote a call that ${host} could not read.`,
    };
  }
  if (has(keyCodes)) return refusedKey(status ?? 401, host);
  if (has(modelCodes)) return unknownModel(error, { host, model });
  if (has(filterCodes)) {
    return { class: "permanent", code: "content_filter", message: `The content filter of ${host} refused: ${message}` };
  }
  if (has(waitCodes)) return toWait(error, host);
  return undefined;
}

function byStatus(error: ServerError, asked: Asked): Verdict {
  const { host } = asked;
  // Inside a 200 the code often is the status of the provider behind a gateway.
  const inner = error.status === undefined ? Number(error.code) : error.status;
  const status = Number.isInteger(inner) ? inner : undefined;
  if (status === 401) return refusedKey(status, host);
  if (status === 403) {
    return {
      class: "permanent",
      code: "forbidden",
      message: `The model server at ${host} does not allow this (403). Check what the API key may use. It said: ${error.message}`,
    };
  }
  if (status === 404) return unknownModel(error, asked);
  const isPassing = status === undefined || status === 408 || status === 409 || status === 425 || status === 429;
  if (status === undefined && error.type === "invalid_request_error") return refusedRequest(error, host);
  if (isPassing || (status >= 500 && status !== 501 && status !== 505)) return toWait(error, host);
  return refusedRequest(error, host);
}

function refusedKey(status: number, host: string): Verdict {
  // What the server says is left out: some repeat the key.
  return {
    class: "permanent",
    code: "unauthorized",
    message: `The model server at ${host} refused the API key (${status}). Set OPENAI_API_KEY (or apiKey in openai({ ... })) to a valid key for it, then retry the run.`,
  };
}

function unknownModel(error: ServerError, { host, model }: Asked): Verdict {
  return {
    class: "permanent",
    code: "model_not_found",
    message: `The model server at ${host} does not know the model "${model}" or the path (${error.status ?? 404}). Check the model's name and the base URL, which mostly ends in /v1. It said: ${error.message}`,
  };
}

function toWait(error: ServerError, host: string): Verdict {
  const limited = error.status === 429 || error.code === "429" || error.code?.startsWith("rate_limit");
  const code = limited ? "rate_limited" : error.status === undefined ? "server_error" : `http_${error.status}`;
  return { class: "transient", code, message: `The model server at ${host} could not answer${told(error)}` };
}

function refusedRequest(error: ServerError, host: string): Verdict {
  return {
    class: "permanent",
    code: "invalid_request",
    message: `The model server at ${host} refused the request${told(error)}`,
  };
}

function told(error: ServerError): string {
  return `${error.status === undefined ? "" : ` (${error.status})`}: ${error.message}`;
}

const longestWaitMs = 30 * 24 * 3_600_000;

/**
 * How long a server asks to wait, in ms: `retry-after-ms`, or `retry-after` in seconds or as an HTTP date.
 *
 * @param now epoch ms, to turn a date into a wait.
 */
export function readRetryAfter(headers: Headers, now: number): number | undefined {
  const inMs = Number.parseFloat(headers.get("retry-after-ms") ?? "");
  if (inMs >= 0) return Math.min(Math.ceil(inMs), longestWaitMs);
  const header = headers.get("retry-after")?.trim();
  if (!header) return undefined;
  const waitMs = /^\d+(\.\d+)?$/.test(header) ? Number(header) * 1000 : Date.parse(header) - now;
  return Number.isNaN(waitMs) ? undefined : Math.min(Math.max(Math.ceil(waitMs), 0), longestWaitMs);
}

/** Takes secrets out of a text that is shown or stored. */
export function redact(text: string, secrets: readonly (string | undefined)[]): string {
  let result = text;
  for (const secret of secrets) if (secret && secret.length >= 6) result = result.replaceAll(secret, "[redacted]");
  return result.replace(/\bsk-[A-Za-z0-9_-]{8,}/g, "[redacted]");
}
