import type { MiddlewareHandler } from "hono";
import type { Redactor } from "../core/redact.ts";
import type { HttpEnv } from "./types.ts";

/**
 * Takes secrets out of every answer that refuses something: it repeats words of the request, and whoever asked writes it
 * to a log. A key in the place of a model's or a run's name is a common slip.
 */
export function redactRefusals(redactor: Pick<Redactor, "json" | "text">): MiddlewareHandler<HttpEnv> {
  return async (context, next) => {
    await next();
    const { res } = context;
    const type = res.headers.get("content-type") ?? "";
    if (res.status < 400 || res.body === null || type.startsWith("text/event-stream")) return;
    const said = await res.clone().text();
    const shown = /\bjson\b/.test(type) ? redactor.json(said) : redactor.text(said);
    if (shown === said) return;
    context.res = new Response(shown, res);
    context.res.headers.delete("content-length");
  };
}
