import { Hono } from "hono";
import { hashSecret, makeKeyId, makeSecret, toApiKey } from "../../../src/api-keys.ts";
import { createRedactor } from "../../../src/core/redact.ts";
import { createAccess, requireScope } from "../../../src/http/access/access.ts";
import type { HttpDeps, HttpEnv } from "../../../src/http/types.ts";
import type { KeyStore, StoredKey, WebSession } from "../../../src/ports-operators.ts";
import { createSilentLogger } from "../../../src/telemetry/logger.ts";

export const origin = "http://drover.test";

export type KeyTable = KeyStore & { keys: Map<string, StoredKey>; sessions: Map<string, WebSession>; reads: string[] };

/** A key store as plain maps, which a test can look into. */
function makeKeyTable(): KeyTable {
  const keys = new Map<string, StoredKey>();
  const sessions = new Map<string, WebSession>();
  const reads: string[] = [];
  return {
    keys,
    sessions,
    reads,
    put: async (key) => void keys.set(key.id, key),
    replace: async (key, secretHash) => keys.get(key.id)?.secretHash === secretHash && keys.set(key.id, key).size > 0,
    async get(id) {
      reads.push(id);
      return keys.get(id);
    },
    list: async () => [...keys.values()],
    remove: async (id) => keys.delete(id),
    putSession: async (hash, session) => void sessions.set(hash, session),
    getSession: async (hash) => sessions.get(hash),
    removeSession: async (hash) => void sessions.delete(hash),
  };
}

/** A key and what its holder has of it. */
export function makeKey(given: Partial<StoredKey> = {}): { key: StoredKey; token: string } {
  const id = given.id ?? makeKeyId();
  const secret = makeSecret();
  const key: StoredKey = { id, name: "ops", scopes: ["admin"], secretHash: hashSecret(secret), createdAt: 1, ...given };
  return { key, token: toApiKey(id, secret) };
}

export type Site = {
  /** Whether `/stream` was told that nobody reads it any more. */
  ended: boolean;
  pulls: number;
  onEnd: (() => void)[];
  table: KeyTable;
  /** Fields and message of each log line. */
  lines: { level: string; fields: Record<string, unknown>; message: string }[];
  ask(path: string, init?: RequestInit & { address?: string; url?: string }): Promise<Response>;
};

/** Access alone, in front of `/thing` (any caller, tells who), `/decide` (scope decide) and `/own-policy`. */
export function makeSite(settings: Partial<HttpDeps["settings"]> = {}, more: Partial<HttpDeps> = {}): Site {
  const table = makeKeyTable();
  const lines: Site["lines"] = [];
  const note = (level: string) => (fields: Record<string, unknown>, message: string) =>
    void lines.push({ level, fields, message });
  const logger = {
    ...createSilentLogger(),
    debug: note("debug"),
    info: note("info"),
    warn: note("warn"),
    error: note("error"),
  };
  const deps = {
    keys: table,
    logger,
    now: () => Date.now(),
    redactor: createRedactor(),
    settings: {
      bodyLimitBytes: 20_000,
      requestTimeoutMs: 1_000,
      heartbeatMs: 1_000,
      secureCookies: false,
      ...settings,
    },
    ...more,
    // What access does not touch.
  } as HttpDeps;
  const access = createAccess(deps);
  const app = new Hono<HttpEnv>();
  app.use(access.identify);
  app.route("/", access.routes);
  app.all("/thing", (context) => {
    const { name, tenant, csrf, scopes, keyId } = context.var.caller;
    return context.json({ name, tenant, csrf, scopes: [...scopes], keyId });
  });
  app.all("/decide", requireScope("decide"), (context) => context.text("decided"));
  app.all("/v1/decide", requireScope("decide"), (context) => context.text("decided"));
  app.get("/own-policy", (context) => context.text("", 200, { "content-security-policy": "default-src 'self'" }));
  app.on(["GET", "POST"], "/stream", (context) => {
    const body = new ReadableStream<Uint8Array>(
      {
        pull: (controller) => {
          // One event, and then silence.
          if (site.pulls++ === 0) controller.enqueue(new TextEncoder().encode("data: x\n\n"));
          else return new Promise<void>((resolve) => site.onEnd.push(resolve));
        },
        cancel: () => {
          site.ended = true;
          for (const end of site.onEnd) end();
        },
      },
      { highWaterMark: 0 },
    );
    return context.body(body, 200, { "content-type": "text/event-stream; charset=utf-8" });
  });
  app.get("/healthz", (context) => context.text("ok"));
  app.get("/fails", () => {
    throw new Error("inside");
  });
  app.onError((_error, context) => context.text("failed", 500));
  const site: Site = {
    ended: false,
    pulls: 0,
    onEnd: [],
    table,
    lines,
    ask: async (path, { address = "192.0.2.1", url = origin, ...init } = {}) =>
      app.fetch(new Request(`${url}${path}`, { redirect: "manual", ...init }), { address }),
  };
  return site;
}

export const bearer = (token: string): Record<string, string> => ({ authorization: `Bearer ${token}` });
export const form = (fields: Record<string, string>, headers: Record<string, string> = {}): RequestInit => ({
  method: "POST",
  headers: { "content-type": "application/x-www-form-urlencoded", ...headers },
  body: new URLSearchParams(fields).toString(),
});

/** Signs in and gives back the cookie as a browser sends it, and the token for forms. */
export async function signIn(site: Site, token: string): Promise<{ cookie: string; csrf: string }> {
  const response = await site.ask("/login", form({ key: token, next: "/thing" }));
  const cookie = response.headers.get("set-cookie")?.split(";")[0] ?? "";
  const caller = (await (await site.ask("/thing", { headers: { cookie } })).json()) as { csrf: string };
  return { cookie, csrf: caller.csrf };
}
