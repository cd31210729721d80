import { troublePage, wantsPage } from "../pages/layout.ts";
import type { HttpContext } from "../types.ts";

export type Refusal = {
  status: 401 | 403 | 413 | 429 | 503;
  title: string;
  /** What happened and what to do. */
  detail: string;
  headers?: Record<string, string>;
};

/** Answers in the form of whoever asks: a page for a browser, OpenAI's shape below `/v1`, else a problem (RFC 9457). */
export function refuse(context: HttpContext, refusal: Refusal): Response | Promise<Response> {
  const { status, title, detail, headers = {} } = refusal;
  for (const [name, value] of Object.entries(headers)) context.header(name, value);
  if (isBelowV1(context)) {
    const type = status === 429 ? "rate_limit_error" : status >= 500 ? "server_error" : "invalid_request_error";
    const code = status === 401 ? "invalid_api_key" : null;
    return context.json({ error: { message: detail, type, param: null, code } }, status);
  }
  if (wantsPage(context)) return troublePage(context, { status, title, text: detail });
  const problem = { type: "about:blank", title, status, detail };
  return context.body(JSON.stringify(problem), status, { "content-type": "application/problem+json" });
}

export function isBelowV1(context: HttpContext): boolean {
  return context.req.path === "/v1" || context.req.path.startsWith("/v1/");
}
