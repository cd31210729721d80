import { createRoute, type OpenAPIHono, type RouteConfig } from "@hono/zod-openapi";
import type { MiddlewareHandler } from "hono";
import type { z } from "zod";
import type { Scope } from "../../ports-operators.ts";
import { requireScope } from "../access/access.ts";
import { answerProblem } from "../problem.ts";
import type { HttpContext, HttpEnv } from "../types.ts";
import { problemSchema } from "./schemas.ts";

export type Api = OpenAPIHono<HttpEnv>;

/** The answer to a request that went well, by status. */
type Answer = {
  description: string;
  /** Of a JSON body. */
  schema?: z.ZodType | undefined;
  /** Other bodies, by content type. */
  content?: Record<string, { schema: z.ZodType }> | undefined;
  headers?: Record<string, { description: string; schema: { type: "string" | "integer" } }> | undefined;
};

type Of<Schema> = Schema extends z.ZodType ? z.output<Schema> : undefined;

/** One address: what it takes, who may ask, what it answers. It validates by what it is documented with. */
export type Endpoint<Params, Query, Headers, Body> = {
  method: "get" | "post" | "delete";
  path: string;
  tag: string;
  summary: string;
  description?: string | undefined;
  /** Undefined: any caller may. */
  scope?: Scope | undefined;
  /** Nobody needs a key. */
  open?: boolean | undefined;
  params?: Params;
  query?: Query;
  headers?: Headers;
  body?: Body;
  /** Default true: a request without a body does not fit. */
  bodyRequired?: boolean | undefined;
  /** After the scope was found enough. */
  middleware?: MiddlewareHandler<HttpEnv> | undefined;
  answers: Record<number, Answer>;
  /** Statuses of problems beside those that every endpoint has. */
  problems?: readonly (keyof typeof problemTexts)[] | undefined;
};

export type Given<Params, Query, Headers, Body> = {
  params: Of<Params>;
  query: Of<Query>;
  headers: Of<Headers>;
  body: Of<Body>;
};

const problemTexts = {
  400: "The request does not fit: `errors` names each field.",
  401: "No key, or none that is known.",
  403: "The key may not do that.",
  404: "There is no such run, call, session or result; another tenant's is as good as none.",
  409: "It does not fit the state of the run, or what was started under the same id.",
  413: "The body or the input is over the limit.",
  415: "The body is no JSON by its `Content-Type`.",
  422: "The `Idempotency-Key` was used with another request.",
  429: "Too many wrong keys came from this address. `Retry-After` says when to ask again, in seconds.",
  503: "Redis is away. `Retry-After` says when to ask again, in seconds.",
  504: "The request took too long. What it began may go on.",
} as const;

/** Adds an endpoint to the API and to its document. */
export function addEndpoint<
  Params extends z.ZodType | undefined = undefined,
  Query extends z.ZodType | undefined = undefined,
  Headers extends z.ZodType | undefined = undefined,
  Body extends z.ZodType | undefined = undefined,
>(
  api: Api,
  endpoint: Endpoint<Params, Query, Headers, Body>,
  handle: (context: HttpContext, given: Given<Params, Query, Headers, Body>) => Promise<Response> | Response,
): void {
  const { scope, params, query, headers, body } = endpoint;
  const middleware = [
    ...(scope === undefined ? [] : [requireScope(scope)]),
    ...(endpoint.middleware ? [endpoint.middleware] : []),
  ];
  const route = createRoute({ ...toRoute(endpoint), middleware });
  type Valid = { valid(target: string): unknown };
  api.openapi(route, (async (context: HttpContext) => {
    const valid = (target: string): unknown => (context.req as unknown as Valid).valid(target);
    return handle(context, {
      params: params && valid("param"),
      query: query && valid("query"),
      headers: headers && valid("header"),
      body: body && valid("json"),
    } as Given<Params, Query, Headers, Body>);
  }) as never);
}

function toRoute(
  endpoint: Endpoint<z.ZodType | undefined, z.ZodType | undefined, z.ZodType | undefined, z.ZodType | undefined>,
): RouteConfig {
  const {
    method,
    path,
    tag,
    summary,
    description,
    scope,
    open,
    params,
    query,
    headers,
    body,
    bodyRequired = true,
  } = endpoint;
  return {
    method,
    path,
    tags: [tag],
    summary,
    ...(description === undefined ? {} : { description }),
    operationId: toOperationId(method, path),
    security: open ? [] : [{ apiKey: [] }, { session: [] }],
    ...(scope === undefined ? {} : { "x-scope": scope }),
    request: {
      ...(params ? { params: params as never } : {}),
      ...(query ? { query: query as never } : {}),
      ...(headers ? { headers: headers as never } : {}),
      ...(body ? { body: { content: { "application/json": { schema: body } }, required: bodyRequired } } : {}),
    },
    responses: { ...toAnswers(endpoint.answers), ...toProblems(endpoint) },
  };
}

function toAnswers(answers: Record<number, Answer>): RouteConfig["responses"] {
  return Object.fromEntries(
    Object.entries(answers).map(([status, { description, schema, content, headers }]) => {
      const body = content ?? (schema && { "application/json": { schema } });
      return [status, { description, ...(body ? { content: body } : {}), ...(headers ? { headers } : {}) }];
    }),
  );
}

type Problematic = Pick<
  Endpoint<z.ZodType | undefined, z.ZodType | undefined, z.ZodType | undefined, z.ZodType | undefined>,
  "open" | "params" | "query" | "headers" | "body" | "problems"
>;

function toProblems({ open, params, query, headers, body, problems = [] }: Problematic): RouteConfig["responses"] {
  const takes = params ?? query ?? headers ?? body;
  const statuses = new Set<keyof typeof problemTexts>([
    ...(takes ? ([400] as const) : []),
    ...(open ? [] : ([401, 403, 429, 503, 504] as const)),
    ...(body ? ([413, 415] as const) : []),
    ...problems,
  ]);
  return Object.fromEntries(
    [...statuses].map((status) => [
      status,
      { description: problemTexts[status], content: { "application/problem+json": { schema: problemSchema } } },
    ]),
  );
}

/** `get /runs/{runId}/events` is `getRunsByRunIdEvents`. */
function toOperationId(method: string, path: string): string {
  const words = path
    .split("/")
    .filter((part) => part !== "")
    .map((part) =>
      part.replace(/^\{(.+)\}$/, "by-$1").replace(/\W+(\w)/g, (_all, letter: string) => letter.toUpperCase()),
    );
  return [method, ...words.map((word) => word.charAt(0).toUpperCase() + word.slice(1))].join("");
}

const places: Record<string, string> = { json: "body", param: "path", query: "query", header: "header" };

type Checked = { success: boolean; target: string; error?: { issues: readonly Issue[] } | undefined };
type Issue = { path: readonly PropertyKey[]; message: string };

/** Answers a request whose parts do not fit their schemas. */
export function refuseMisfit(checked: Checked, context: HttpContext): Response | Promise<Response> | undefined {
  if (checked.success || !checked.error) return undefined;
  const place = places[checked.target] ?? checked.target;
  const errors = checked.error.issues.map(({ path, message }) => ({
    field: [place, ...path.map(String)].join("."),
    message,
  }));
  const detail = `The request was not taken: ${errors.map(({ field, message }) => `${field}: ${message}`).join("; ")}.`;
  return answerProblem(context, {
    status: 400,
    code: "invalid",
    detail: detail.slice(0, 2_000),
    errors: errors.slice(0, 50),
  });
}
