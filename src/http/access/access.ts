import { Hono, type MiddlewareHandler } from "hono";
import { type Scope, scopes } from "../../ports-operators.ts";
import type { HttpApp, HttpDeps, HttpEnv } from "../types.ts";

export type Access = {
  /** Finds out who asks, or refuses: sets `caller`, `requestId` and `nonce`. */
  identify: MiddlewareHandler<HttpEnv>;
  /** Signing in and out of the pages. */
  routes: HttpApp;
};

export function createAccess(_deps: HttpDeps): Access {
  return {
    async identify(context, next) {
      context.set("caller", { name: "local", scopes: new Set(scopes) });
      await next();
    },
    routes: new Hono<HttpEnv>(),
  };
}

/** Lets a caller with this scope (or admin) pass; others get 403. To be put in front of a route. */
export function requireScope(scope: Scope): MiddlewareHandler<HttpEnv> {
  return async (context, next) => {
    const { caller } = context.var;
    if (!caller.scopes.has(scope) && !caller.scopes.has("admin"))
      return context.text(`this key lacks the scope ${scope}`, 403);
    await next();
    return undefined;
  };
}
