import { readFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { dirname, join, normalize, sep } from "node:path";
import { createBullBoard } from "@bull-board/api";
import { BullMQAdapter } from "@bull-board/api/bullMQAdapter";
import { HonoAdapter } from "@bull-board/hono";
import { Queue } from "bullmq";
import { Hono, type MiddlewareHandler } from "hono";
import type { Redactor } from "../core/redact.ts";
import type { RedisClient } from "./redis-client.ts";

/** A queue to show. `prefix`: BullMQ's own; `label`: what its name is shown with, if others have the same name. */
export type BoardQueue = { name: string; prefix: string; label?: string | undefined };

/** - `queues`: those there are; asked again now and then, since tools bring queues of their own. */
export type BoardOptions = {
  connection: RedisClient;
  queues: () => Promise<BoardQueue[]>;
  /** Where it is served, without a slash at the end. */
  basePath: string;
  /** What producers put on the `runs` queue holds content. */
  redactor: Redactor;
};

export type Board = { fetch: (request: Request) => Promise<Response>; close: () => Promise<void> };

/** Queues are asked for again after so many ms. */
const knownForMs = 30_000;

/**
 * Bull Board, for a look at the raw queues. It only shows: what a run needs is decided by its record, so that a job that is
 * retried, promoted or removed by hand does nothing good.
 */
export function createBoard({ connection, queues: ask, basePath, redactor }: BoardOptions): Board {
  const queues = new Map<string, Queue>();
  const adapter = new HonoAdapter(serveFiles as never);
  adapter.setBasePath(basePath);
  const board = createBullBoard({
    queues: [],
    serverAdapter: adapter,
    // Our workers do not name their connections as it looks for; the fleet's page knows them.
    options: { uiConfig: { boardTitle: "Drover: raw queues", showWorkers: false } },
  });
  const app = new Hono();
  // Whoever serves the board tells of its failures as of all others.
  app.onError((error) => {
    throw error;
  });
  app.route(basePath, adapter.registerPlugin() as unknown as Hono);
  let askedAt = Number.NEGATIVE_INFINITY;

  async function addQueues(): Promise<void> {
    if (performance.now() - askedAt < knownForMs) return;
    for (const { name, prefix, label = "" } of await ask()) {
      const key = `${prefix}:${name}`;
      if (queues.has(key)) continue;
      const queue = new Queue(name, { connection, prefix });
      queue.on("error", () => {}); // The connection's owner tells of outages.
      queues.set(key, queue);
      const shown = new BullMQAdapter(queue, { readOnlyMode: true, allowRetries: false, prefix: label });
      // What is cut or put into text by the board itself must be clean before.
      for (const field of ["data", "returnValue", "progress"] as const) shown.setFormatter(field, redactor.value);
      board.addQueue(shown);
    }
    askedAt = performance.now();
  }

  return {
    async fetch(request) {
      // Its own way of saying that it is read-only still has routes that write.
      if (request.method !== "GET" && request.method !== "HEAD")
        return new Response("The board only shows.", { status: 405, headers: { allow: "GET, HEAD" } });
      await addQueues();
      return withPolicy(await app.fetch(withoutEndSlash(request)), redactor);
    },
    close: async () => {
      await Promise.all([...queues.values()].map((queue) => queue.close()));
    },
  };
}

/** It knows itself without a slash at the end only. */
function withoutEndSlash(request: Request): Request {
  const url = new URL(request.url);
  if (!url.pathname.endsWith("/")) return request;
  url.pathname = url.pathname.slice(0, -1);
  return new Request(url, request);
}

/** Its page wants a font from elsewhere, has a style of its own and puts styles on elements: allowed for it alone. */
const policy =
  "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; font-src 'self'; connect-src 'self'; base-uri 'self'; form-action 'self'; frame-ancestors 'none'";

async function withPolicy(response: Response, redactor: Redactor): Promise<Response> {
  const headers = new Headers(response.headers);
  headers.set("content-security-policy", policy);
  const type = headers.get("content-type") ?? "";
  if (type.includes("json")) {
    // Reasons of failures, stacks and logs have no formatter of their own.
    headers.delete("content-length");
    const text = withPlainReasons(await response.text());
    return new Response(redactor.json(text), { status: response.status, headers });
  }
  if (!type.includes("text/html")) {
    return new Response(response.body, { status: response.status, headers });
  }
  const page = (await response.text()).replaceAll(/<link[^>]*fonts\.googleapis\.com[^>]*>/g, "");
  headers.delete("content-length");
  return new Response(page, { status: response.status, headers });
}

/** Workers of some languages write the reason of a failure as JSON, others as it is. */
function withPlainReasons(text: string): string {
  if (!text.includes('"failedReason":"\\"')) return text;
  const plain = JSON.parse(text, (name, value: unknown) => (name === "failedReason" ? decodeReason(value) : value));
  return JSON.stringify(plain);
}

function decodeReason(reason: unknown): unknown {
  if (typeof reason !== "string" || !reason.startsWith('"')) return reason;
  try {
    const decoded: unknown = JSON.parse(reason);
    return typeof decoded === "string" ? decoded : reason;
  } catch {
    return reason;
  }
}

const root = join(dirname(createRequire(import.meta.url).resolve("@bull-board/ui/package.json")), "dist");
const types: Record<string, string> = {
  css: "text/css; charset=utf-8",
  js: "text/javascript; charset=utf-8",
  json: "application/json",
  png: "image/png",
  svg: "image/svg+xml",
  woff2: "font/woff2",
};

type FileOptions = { rewriteRequestPath: (path: string) => string };

/** The board's own files. Their names hold a hash of what is in them. */
function serveFiles({ rewriteRequestPath }: FileOptions): MiddlewareHandler {
  const folder = join(root, "static");
  return async (context) => {
    // Their names need no escapes, so that none are undone.
    const file = normalize(join(folder, rewriteRequestPath(context.req.path)));
    const type = types[file.slice(file.lastIndexOf(".") + 1)];
    if (!file.startsWith(folder + sep) || type === undefined) return context.notFound();
    const body = await readFile(file).catch(() => undefined);
    if (!body) return context.notFound();
    return context.body(new Uint8Array(body), 200, {
      "content-type": type,
      "cache-control": "private, max-age=86400",
    });
  };
}
