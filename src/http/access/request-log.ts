import type { MiddlewareHandler } from "hono";
import type { Logger } from "../../ports.ts";
import type { Caller, HttpEnv } from "../types.ts";

/** One line per request, without its query and headers: those may hold what nobody is to read. */
export function requestLog(logger: Logger): MiddlewareHandler<HttpEnv> {
  return async (context, next) => {
    const startedAt = performance.now();
    await next();
    const { status } = context.res;
    const caller = context.var.caller as Caller | undefined;
    const fields = {
      method: context.req.method,
      path: context.req.path.slice(0, 300),
      status,
      // Of a stream: until it began.
      ms: Math.round(performance.now() - startedAt),
      requestId: context.var.requestId,
      ...(caller ? { caller: caller.name } : {}),
    };
    if (status >= 500) logger.warn(fields, "request failed");
    else logger.debug(fields, "request");
  };
}
