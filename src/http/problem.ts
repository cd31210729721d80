import { HTTPException } from "hono/http-exception";
import { DroverError, type ErrorCode, toError } from "../core/errors.ts";
import type { Logger } from "../ports.ts";
import { troublePage, wantsPage } from "./pages/layout.ts";
import type { HttpContext } from "./types.ts";
import { toOpenAIError } from "./v1/errors.ts";

/** A field of a request that does not fit; `field`: its path, such as `body.limits.maxTurns`. */
export type FieldError = { field: string; message: string };

/** `unauthorized`, `forbidden`, `rate_limited`: who asks; `internal`: a bug of ours, told in the log under the request's id. */
export type ProblemCode = ErrorCode | "unauthorized" | "forbidden" | "rate_limited" | "internal";

/** What went wrong with a request (RFC 9457). `detail`: what happened and what to do next. */
export type Problem = {
  status: ProblemStatus;
  code: ProblemCode;
  detail: string;
  errors?: FieldError[] | undefined;
  headers?: Record<string, string> | undefined;
};

export type ProblemStatus = keyof typeof titles;

const titles = {
  400: "The request does not fit",
  401: "Who asks is not known",
  403: "That is not allowed",
  404: "There is no such thing",
  405: "This address does not take that method",
  409: "It does not fit what there is",
  413: "The request is too large",
  415: "The body is of another type",
  429: "Too many wrong keys",
  422: "The idempotency key was used for another request",
  500: "Something is wrong with the server",
  501: "The server's Redis cannot do that",
  503: "The server cannot work now",
  504: "The request took too long",
} as const;

const statusOf: Record<ErrorCode, ProblemStatus> = {
  invalid: 400,
  conflict: 409,
  not_found: 404,
  not_allowed: 409,
  too_large: 413,
  timeout: 504,
  queue_unavailable: 503,
  unsupported: 501,
  stopped: 503,
};

/** How long a client should wait before it asks again, in seconds. */
const retryAfter = { "Retry-After": "2" };

/** Tells of a problem in the form of whoever asks: a page for a browser, OpenAI's shape below `/v1`, else problem+json. */
export function answerProblem(context: HttpContext, problem: Problem): Response | Promise<Response> {
  const { status, code, detail, errors, headers = {} } = problem;
  for (const [name, value] of Object.entries(headers)) context.header(name, value);
  if (isOpenAiPath(context.req.path)) {
    return context.json(toOpenAIError(status, detail, { param: errors?.[0]?.field }), status);
  }
  const title = titles[status];
  if (wantsPage(context)) return troublePage(context, { status, title, text: detail });
  const { requestId } = context.var;
  const body = {
    type: "about:blank",
    title,
    status,
    detail,
    code,
    ...(errors ? { errors } : {}),
    ...(requestId === undefined ? {} : { requestId }),
  };
  return context.body(JSON.stringify(body), status, { "Content-Type": "application/problem+json" });
}

/** Whether clients of OpenAI's API ask at this path. */
export function isOpenAiPath(path: string): boolean {
  return path === "/v1" || path.startsWith("/v1/");
}

/** Thrown where a `DroverError` says too little: the problem as it is to be told. */
export class ProblemError extends Error {
  override readonly name: string = "ProblemError";
  readonly problem: Problem;

  constructor(problem: Problem) {
    super(problem.detail);
    this.problem = problem;
  }
}

/** What an error is to whoever asked. A stranger's message is not told: it may hold anything. */
export function toProblem(thrown: unknown): Problem {
  if (thrown instanceof ProblemError) return thrown.problem;
  if (thrown instanceof DroverError) {
    const { code, message } = thrown;
    const status = statusOf[code];
    return { status, code, detail: message, ...(status === 503 ? { headers: retryAfter } : {}) };
  }
  if (thrown instanceof HTTPException && thrown.status in titles && thrown.status < 500) {
    const detail = thrown.status === 415 ? otherType : thrown.message;
    return { status: thrown.status as ProblemStatus, code: "invalid", detail };
  }
  if (isBrokenOff(thrown)) {
    return { status: 400, code: "invalid", detail: "The request ended before all of it was here. Send it again." };
  }
  const detail =
    "The request was not answered because of a fault in the server. Its log says more under the request id.";
  return { status: 500, code: "internal", detail };
}

const otherType = "The body is no JSON by its Content-Type. Send JSON, with the header Content-Type: application/json.";

/** What Node throws where a body is read and the other side went away, or sent what is none. */
function isBrokenOff(thrown: unknown): boolean {
  const { code, message } = toError(thrown) as NodeJS.ErrnoException;
  return code === "ECONNRESET" && message === "aborted";
}

/** Answers whatever was thrown; faults of ours are logged. */
export function createErrorHandler(
  logger: Logger,
): (thrown: unknown, context: HttpContext) => Response | Promise<Response> {
  return (thrown, context) => {
    const problem = toProblem(thrown);
    if (problem.status === 500) {
      const { method, path } = context.req;
      const { message, stack } = toError(thrown);
      logger.error({ requestId: context.var.requestId, method, path, error: message, stack }, "a request failed");
    }
    return answerProblem(context, problem);
  };
}
