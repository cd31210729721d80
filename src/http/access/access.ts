import { randomBytes } from "node:crypto";
import type { MiddlewareHandler } from "hono";
import { every } from "hono/combine";
import { requestId } from "hono/request-id";
import type { Scope } from "../../ports-operators.ts";
import { answerProblem } from "../problem.ts";
import type { HttpApp, HttpDeps, HttpEnv } from "../types.ts";
import { createFailures } from "./failures.ts";
import { type AccessParts, createGuard } from "./guard.ts";
import { answerHeaders } from "./headers.ts";
import { createKeyring } from "./keyring.ts";
import { createLogin } from "./login.ts";
import { requestLog } from "./request-log.ts";
import { createWebSessions } from "./sessions.ts";

export type Access = {
  /**
   * Finds out who asks, or refuses: sets `caller`, `requestId` and `nonce`. Around all that follows it puts security
   * headers (one that a handler sets itself is kept, such as a content policy of its own) and a line in the log.
   */
  identify: MiddlewareHandler<HttpEnv>;
  /** Signing in and out of the pages. */
  routes: HttpApp;
};

/** Keys, sessions and what is refused; `docs/security.md` is the reasoning. */
export function createAccess(deps: HttpDeps): Access {
  const { keys, now, logger, settings } = deps;
  const { secureCookies: secure, staticKeys = [] } = settings;
  const keyring = createKeyring({ keys, staticKeys, now });
  const sessions = createWebSessions({ keys, keyring, secure, now });
  const parts: AccessParts = { keyring, sessions, failures: createFailures(), deps };
  const begin: MiddlewareHandler<HttpEnv> = async (context, next) => {
    context.set("nonce", randomBytes(16).toString("base64"));
    await next();
  };
  return {
    identify: every(
      begin,
      requestId({ limitLength: 64 }),
      requestLog(logger, deps.telemetry),
      answerHeaders(secure),
      createGuard(parts),
    ),
    routes: createLogin(parts),
  };
}

/** Lets a caller with this scope (or admin) pass; others get 403. To be put in front of a route. */
export function requireScope(scope: Scope): MiddlewareHandler<HttpEnv> {
  return async (context, next) => {
    const { caller } = context.var;
    if (caller.scopes.has(scope) || caller.scopes.has("admin")) return next();
    const detail = `The key "${caller.name}" lacks the scope ${scope}. Use one that has it.`;
    return answerProblem(context, { status: 403, code: "forbidden", detail });
  };
}

/** Refuses keys of a tenant, whatever their scopes, where something is told of all. To be put in front of a route. */
export const refuseTenants: MiddlewareHandler<HttpEnv> = async (context, next) => {
  const { caller } = context.var;
  if (caller.tenant === undefined) return next();
  const detail = `The key "${caller.name}" is the tenant ${caller.tenant}'s, and this tells of all. Use one without a tenant.`;
  return answerProblem(context, { status: 403, code: "forbidden", detail });
};
