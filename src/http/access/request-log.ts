import type { MiddlewareHandler } from "hono";
import { matchedRoutes } from "hono/route";
import type { Logger, Telemetry } from "../../ports.ts";
import type { Caller, HttpContext, HttpEnv } from "../types.ts";

/** One line per request, without its query and headers: those may hold what nobody is to read. Metrics know its pattern. */
export function requestLog(logger: Logger, telemetry?: Pick<Telemetry, "recordRequest">): MiddlewareHandler<HttpEnv> {
  return async (context, next) => {
    const startedAt = performance.now();
    await next();
    const { status } = context.res;
    // Of a stream: until it began.
    const durationMs = performance.now() - startedAt;
    const caller = context.var.caller as Caller | undefined;
    const fields = {
      method: context.req.method,
      path: context.req.path.slice(0, 300),
      status,
      ms: Math.round(durationMs),
      requestId: context.var.requestId,
      ...(caller ? { caller: caller.name } : {}),
    };
    if (status >= 500) logger.warn(fields, "request failed");
    else logger.debug(fields, "request");
    telemetry?.recordRequest({ method: context.req.method, route: patternOf(context), status, durationMs });
  };
}

/** The pattern of the route that answered; undefined where only middleware did. */
function patternOf(context: HttpContext): string | undefined {
  return matchedRoutes(context).findLast(({ handler, path }) => handler.length < 2 && !path.includes("*"))?.path;
}
