import type { MiddlewareHandler } from "hono";
import { bodyLimit } from "hono/body-limit";
import { isSameSecret } from "../../api-keys.ts";
import { isOutage, toError } from "../../core/errors.ts";
import { type StoredKey, scopes } from "../../ports-operators.ts";
import { wantsPage } from "../pages/layout.ts";
import { answerProblem, isOpenAiPath, type Problem } from "../problem.ts";
import type { Caller, HttpContext, HttpDeps, HttpEnv } from "../types.ts";
import { endWithAccess } from "./end-streams.ts";
import type { Failures } from "./failures.ts";
import type { Keyring, Proof } from "./keyring.ts";
import { isLocalRequest, isOwnOrigin, isSafe } from "./origin.ts";
import type { WebSessions } from "./sessions.ts";

/** What sign-in and guard share. */
export type AccessParts = {
  keyring: Keyring;
  sessions: WebSessions;
  failures: Failures;
  deps: HttpDeps;
};

/** Served to everybody: whether the server is well, the sign-in page and the files it is made of. */
function isOpen(path: string): boolean {
  return path === "/healthz" || path === "/readyz" || path === "/login" || path.startsWith("/assets/");
}

/** Lets a request pass with its caller set, or answers it. */
export function createGuard(parts: AccessParts): MiddlewareHandler<HttpEnv> {
  const readForm = bodyLimit({
    maxSize: parts.deps.settings.bodyLimitBytes,
    onError: (context) => Promise.resolve(answerProblem(context as HttpContext, tooLarge)),
  });
  return async (context, next) => {
    if (isOpen(context.req.path)) return next();
    let found: Found;
    try {
      found = await findCaller(parts, context);
    } catch (error) {
      return answerProblem(context, toTrouble(error, parts.deps, context));
    }
    if ("response" in found) return found.response;
    if ("refusal" in found) return answerProblem(context, found.refusal);
    const { caller, isGood } = found;
    context.set("caller", caller);
    const { csrf } = caller;
    const serve = async (): Promise<void> => {
      await next();
      endWithAccess(context, isGood);
    };
    if (csrf === undefined || isSafe(context)) return serve();
    if (!isOwnOrigin(context)) return answerProblem(context, foreign);
    // The whole form is read for its token, up to the limit of bodies.
    return readForm(context, async () => {
      if (await hasToken(context, csrf)) return serve();
      context.res = await answerProblem(context, badToken);
      return undefined;
    });
  };
}

/** `isGood`: whether the caller still may ask, some time later. */
type Found = { caller: Caller; isGood: () => Promise<boolean> } | { refusal: Problem } | { response: Response };

async function findCaller(parts: AccessParts, context: HttpContext): Promise<Found> {
  const { keyring, sessions } = parts;
  const authorization = context.req.header("authorization") ?? "";
  const token = /^Bearer +(?<token>\S+)$/i.exec(authorization)?.groups?.token ?? "";
  if (!(await keyring.hasKeys())) {
    // A key that was just made is known by being shown: its holder is not "local" until somebody looks for keys again.
    const proof = await keyring.prove(token);
    return proof ? toFound(keyring, proof) : findLocal(context, parts);
  }
  // Proxies ask for passwords of their own and pass them on: what is of another scheme is no key, good or wrong.
  if (/^Bearer\b/i.test(authorization)) return findBearer(parts, context, token);
  const session = await sessions.read(context);
  if (session) return { ...toFound(keyring, session), caller: { ...toCaller(session.key), csrf: session.csrf } };
  if (wantsPage(context) && !isOpenAiPath(context.req.path)) return { response: toLogin(context) };
  return { refusal: noKey };
}

function toFound(keyring: Keyring, { key, secretHash }: Proof): { caller: Caller; isGood: () => Promise<boolean> } {
  const isGood = async (): Promise<boolean> => (await keyring.confirm(key.id, secretHash)) !== undefined;
  return { caller: toCaller(key), isGood };
}

function findLocal(context: HttpContext, { keyring, deps }: AccessParts): Found {
  if (!deps.settings.keyless) return { refusal: noKeysYet };
  if (!isLocalRequest(context)) return { refusal: notLocal };
  const isGood = async (): Promise<boolean> => !(await keyring.hasKeys());
  return { caller: { name: "local", scopes: new Set(scopes) }, isGood };
}

async function findBearer(
  { keyring, failures, deps }: AccessParts,
  context: HttpContext,
  token: string,
): Promise<Found> {
  const { address } = context.env;
  const wait = failures.waitOf(address);
  // A key that has been a good one here goes on: others behind the same address must not lock its holder out.
  if (wait > 0 && !keyring.isKnownGood(token)) return { refusal: tooMany(wait) };
  const proof = await keyring.prove(token);
  if (proof) return toFound(keyring, proof);
  noteFailure({ failures, deps }, context);
  return { refusal: badKey };
}

/** Counts a wrong key, and tells once when an address has shown too many. */
export function noteFailure({ failures, deps }: Pick<AccessParts, "failures" | "deps">, context: HttpContext): void {
  const { address } = context.env;
  if (failures.add(address)) deps.logger.warn({ address }, "too many wrong keys from one address");
}

function toCaller({ id, name, scopes: allowed, tenant }: StoredKey): Caller {
  return { name, keyId: id, scopes: new Set(allowed), tenant };
}

/** To the sign-in page, and back from there; a form's answer would be no page to come back to, the form's page is. */
function toLogin(context: HttpContext): Response {
  const from = isSafe(context) ? context.req.url : (context.req.header("referer") ?? "");
  const { pathname, search } = URL.parse(from) ?? { pathname: "/", search: "" };
  return context.redirect(`/login?next=${encodeURIComponent(pathname + search)}`, 303);
}

/** Forms of other types may be broken in ways that their parsers throw at. */
export function isForm(context: HttpContext): boolean {
  return /^application\/x-www-form-urlencoded\b/i.test(context.req.header("content-type") ?? "");
}

async function hasToken(context: HttpContext, csrf: string): Promise<boolean> {
  const header = context.req.header("x-csrf-token");
  if (header !== undefined) return isSameSecret(header, csrf);
  if (!isForm(context)) return false;
  const { csrf: field } = await context.req.parseBody();
  return typeof field === "string" && isSameSecret(field, csrf);
}

export function toTrouble(error: unknown, { logger }: HttpDeps, context: HttpContext): Problem {
  const fields = { error: toError(error), requestId: context.var.requestId };
  logger.warn(fields, "a caller could not be found out");
  const detail = isOutage(error) ? "Redis, where keys are kept, does not answer." : "Something unexpected failed.";
  return {
    status: 503,
    code: "queue_unavailable",
    detail: `${detail} Try again; the server's log says more.`,
    headers: { "retry-after": "2" },
  };
}

const challenge = (error: string): Record<string, string> => ({ "www-authenticate": `Bearer realm="drover"${error}` });

const noKey: Problem = {
  status: 401,
  code: "unauthorized",
  detail: "This needs an API key. Send it as Authorization: Bearer drv_...",
  headers: challenge(""),
};
const badKey: Problem = {
  status: 401,
  code: "unauthorized",
  detail: "This is no key that is good here: it is unknown, was removed, or has expired.",
  headers: challenge(', error="invalid_token"'),
};
const noKeysYet: Problem = {
  status: 401,
  code: "unauthorized",
  detail:
    "This server serves nobody before there is a key. Make one where it runs: drover keys create NAME --scope admin.",
  headers: challenge(""),
};
const notLocal: Problem = {
  status: 403,
  code: "forbidden",
  detail:
    "Without keys, this server is for programs and pages of this machine, by the name localhost. Make a key to allow more: drover keys create NAME --scope admin.",
};
export const foreign: Problem = {
  status: 403,
  code: "forbidden",
  detail: "This was sent by a page of another site. Open the page here and do it again.",
};
const badToken: Problem = {
  status: 403,
  code: "forbidden",
  detail: "The form's token is missing or of another sign-in. Load the page again and repeat what you did.",
};
export const tooLarge: Problem = {
  status: 413,
  code: "too_large",
  detail: "The form is larger than this server reads. Shorten it.",
};

export function tooMany(seconds: number): Problem {
  return {
    status: 429,
    code: "rate_limited",
    detail: `Too many wrong keys came from this address. Try again in ${seconds} s.`,
    headers: { "retry-after": String(seconds) },
  };
}
