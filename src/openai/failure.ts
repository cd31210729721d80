import type { ModelFailure } from "../ports.ts";
import { readLimitTokens } from "./limit-tokens.ts";
import type { ServerError } from "./server-error.ts";

/** Who was asked for what, for the sentences that tell the user what to do. */
export type Asked = { host: string; model: string };

const overflowCodes = new Set([
  "context_length_exceeded",
  "exceed_context_size_error",
  "context_window_exceeded",
  "model_max_prompt_tokens_exceeded",
  "string_above_max_length",
]);
const overflowText =
  /context (?:length|window|size)|maximum context|prompt is too long|input (?:is )?too (?:long|large)|exceeds?(?: the)?(?: model'?s)?(?: maximum)? (?:context|(?:allowed )?(?:number of (?:input )?tokens|token (?:limit|length)))|too many (?:input )?tokens|reduce the length of|must be <= \d+[^.]*tokens|tokens[^.]*must be <= \d+/i;
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
type Rule = {
  codes?: ReadonlySet<string>;
  statuses?: readonly number[];
  text?: (error: ServerError) => boolean;
  verdict: (error: ServerError, asked: Asked) => Verdict;
};

/** By code and text; the first that fits decides. */
const rules: Rule[] = [
  {
    codes: overflowCodes,
    statuses: [413],
    // A rate limit speaks of tokens too.
    text: ({ status, message }) => (status === undefined || isRequestFault(status)) && overflowText.test(message),
    verdict: ({ message }, { host, model }) => ({
      class: "overflow",
      code: "context_overflow",
      message: `The request is longer than the context of ${model} at ${host}: ${message}`,
    }),
  },
  {
    codes: quotaCodes,
    statuses: [402],
    text: ({ message }) => quotaText.test(message),
    verdict: ({ message }, { host }) => ({
      class: "permanent",
      code: "insufficient_quota",
      message: `The account at ${host} has no quota left. Check its plan and billing, then retry the run. It said: ${message}`,
    }),
  },
  {
    codes: samplingCodes,
    verdict: (_, { host }) => ({
      class: "transient",
      code: "tool_use_failed",
      message: `The model wrote a call or an answer that ${host} could not read.`,
    }),
  },
  { codes: keyCodes, verdict: ({ status = 401 }, { host }) => refusedKey(status, host) },
  { codes: modelCodes, verdict: unknownModel },
  {
    codes: filterCodes,
    verdict: ({ message }, { host }) => ({
      class: "permanent",
      code: "content_filter",
      message: `The content filter of ${host} refused: ${message}`,
    }),
  },
  { codes: waitCodes, verdict: toWait },
];

function isRequestFault(status: number): boolean {
  return status >= 400 && status !== 429;
}

/** What a server's error means for the run: by its code first, by its status after. */
export function classifyError(error: ServerError, asked: Asked): ModelFailure {
  const rule = rules.find((candidate) => fits(candidate, error));
  const verdict = rule ? rule.verdict(error, asked) : byStatus(error, asked);
  const limitTokens = verdict.class === "overflow" ? (error.limitTokens ?? readLimitTokens(error.message)) : undefined;
  return {
    ...verdict,
    ...(error.status === undefined ? {} : { status: error.status }),
    ...(limitTokens === undefined ? {} : { limitTokens }),
  };
}

function fits({ codes, statuses, text }: Rule, error: ServerError): boolean {
  const told = [error.code, error.type];
  return (
    told.some((code) => code !== undefined && codes?.has(code)) ||
    (error.status !== undefined && (statuses?.includes(error.status) ?? false)) ||
    (text?.(error) ?? false)
  );
}

/** Statuses that a later attempt may not meet again. */
const passingStatuses = new Set([408, 409, 425, 429]);
const lastingStatuses = new Set([501, 505]);

function byStatus(error: ServerError, asked: Asked): Verdict {
  // Inside a 200 the code often is the status of the provider behind a gateway.
  const status = error.status ?? Number(error.code);
  if (!Number.isInteger(status)) {
    return error.type === "invalid_request_error" ? refusedRequest(error, asked) : toWait(error, asked);
  }
  if (status === 401) return refusedKey(status, asked.host);
  if (status === 403) return forbidden(error, asked);
  if (status === 404) return unknownModel(error, asked);
  const isPassing = passingStatuses.has(status) || (status >= 500 && !lastingStatuses.has(status));
  return isPassing ? toWait(error, asked) : refusedRequest(error, asked);
}

function forbidden({ message }: ServerError, { host }: Asked): Verdict {
  return {
    class: "permanent",
    code: "forbidden",
    message: `The model server at ${host} does not allow this (403). Check what the API key may use. It said: ${message}`,
  };
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

function toWait(error: ServerError, { host }: Asked): Verdict {
  const limited = error.status === 429 || error.code === "429" || error.code?.startsWith("rate_limit");
  const code = limited ? "rate_limited" : error.status === undefined ? "server_error" : `http_${error.status}`;
  return { class: "transient", code, message: `The model server at ${host} could not answer${told(error)}` };
}

function refusedRequest(error: ServerError, { host }: Asked): Verdict {
  return {
    class: "permanent",
    code: "invalid_request",
    message: `The model server at ${host} refused the request${told(error)}`,
  };
}

function told(error: ServerError): string {
  return `${error.status === undefined ? "" : ` (${error.status})`}: ${error.message}`;
}

/** Takes secrets out of a text that is shown or stored. */
export function redact(text: string, secrets: readonly (string | undefined)[]): string {
  let result = text;
  for (const secret of secrets) if (secret && secret.length >= 6) result = result.replaceAll(secret, "[redacted]");
  return result.replace(/\bsk-[A-Za-z0-9_-]{8,}/g, "[redacted]");
}
