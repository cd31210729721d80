import { DroverError, type ErrorCode, toError } from "../../core/errors.ts";
import type { HttpContext } from "../types.ts";

/** The body of an error as clients of OpenAI's API read it. `param`: the field of the request that it is about. */
export type OpenAIError = {
  error: { message: string; type: string; param: string | null; code: string | null };
};

type ErrorDetails = { code?: string | undefined; param?: string | undefined };

/** The body for an error of this HTTP status. For all that answers a path below `/v1`, middlewares included. */
export function toOpenAIError(status: number, message: string, { code, param }: ErrorDetails = {}): OpenAIError {
  return {
    error: { message, type: typeOf(status, code), param: param ?? null, code: code ?? defaultCodes[status] ?? null },
  };
}

const defaultCodes: Record<number, string> = {
  401: "invalid_api_key",
  403: "insufficient_permissions",
  404: "not_found",
  413: "request_too_large",
  429: "rate_limit_exceeded",
  503: "service_unavailable",
};

function typeOf(status: number, code: string | undefined): string {
  if (code === "idempotency_error") return code;
  if (status === 401) return "authentication_error";
  if (status === 403) return "permission_error";
  if (status === 429) return "rate_limit_error";
  return status >= 500 ? "server_error" : "invalid_request_error";
}

/** Refuses a request to an endpoint below `/v1`. */
export class V1Error extends Error {
  override readonly name: string = "V1Error";
  readonly status: number;
  readonly details: ErrorDetails;

  constructor(status: number, message: string, details: ErrorDetails = {}) {
    super(message);
    this.status = status;
    this.details = details;
  }
}

/** A 400 for a field of the request, named as in OpenAI's errors: `input[0].content`. */
export function badField(param: string, message: string, code?: string): V1Error {
  return new V1Error(400, message, { param, code });
}

const statuses: Record<ErrorCode, number> = {
  invalid: 400,
  unsupported: 400,
  not_found: 404,
  conflict: 409,
  not_allowed: 409,
  too_large: 413,
  timeout: 504,
  queue_unavailable: 503,
  stopped: 503,
};

/** What a thrown error is to the client. Nothing of an error that nobody expected is told. */
export function toV1Error(thrown: unknown): V1Error {
  if (thrown instanceof V1Error) return thrown;
  if (thrown instanceof DroverError) {
    return new V1Error(statuses[thrown.code], thrown.message, {
      code: thrown.code === "not_found" ? undefined : thrown.code,
    });
  }
  return new V1Error(500, "Something went wrong here. The server's log has more, under this request's id.");
}

/**
 * The answer to a request that failed. A client sends again what was refused with 409 or 5xx; `x-should-retry` keeps it from
 * doing so where that cannot help.
 */
export function errorResponse(context: HttpContext, thrown: unknown, log: (message: string) => void): Response {
  const { status, message, details } = toV1Error(thrown);
  if (status === 500) log(toError(thrown).stack ?? String(thrown));
  const headers = new Headers({ "content-type": "application/json" });
  if (status !== 429 && status !== 503) headers.set("x-should-retry", "false");
  if (context.var.requestId) headers.set("x-request-id", context.var.requestId);
  return new Response(JSON.stringify(toOpenAIError(status, message, details)), { status, headers });
}
