import type { IncomingMessage, Server } from "node:http";
import { type AddressInfo, isIP } from "node:net";
import { createAdaptorServer, type HttpBindings } from "@hono/node-server";
import { DroverError, toError } from "../core/errors.ts";
import type { HttpSettings, Peer } from "../http/types.ts";
import { isLoopback } from "./loopback.ts";

export type ListenOptions = {
  /** A name or an address; default `127.0.0.1`, which nobody else can reach. */
  host?: string | undefined;
  /** Default 0: any that is free. */
  port?: number | undefined;
};

/** A port that is served. */
export type Listening = {
  url: string;
  /** Resolves when all connections have ended; after so many ms they are ended. */
  close(graceMs: number): Promise<void>;
};

type Answer = (request: Request, peer?: Peer) => Promise<Response>;

/** @throws DroverError "invalid" */
export async function listen(
  answer: Answer,
  settings: HttpSettings,
  { host = "127.0.0.1", port = 0 }: ListenOptions,
): Promise<Listening> {
  if (settings.keyless && !isLoopback(host)) {
    throw new DroverError(
      "invalid",
      `host: a server without keys listens on loopback only, not on ${host}. Make a key (drover keys create), or listen on 127.0.0.1.`,
    );
  }
  const server = makeServer(answer, settings);
  await open(server, host, port);
  const { port: taken } = server.address() as AddressInfo;
  return {
    url: `http://${isIP(host) === 6 ? `[${host}]` : host}:${taken}`,
    close: (graceMs) => close(server, graceMs),
  };
}

function makeServer(answer: Answer, { requestTimeoutMs }: HttpSettings): Server {
  const fetch = (request: Request, env: unknown): Promise<Response> => {
    const { incoming } = env as HttpBindings;
    // It would send back what it was sent, and a request of this method cannot even be made.
    if (request.method === "TRACE" || request.method === "TRACK")
      return Promise.resolve(
        new Response(null, { status: 405, headers: { allow: "OPTIONS, GET, HEAD, POST, DELETE" } }),
      );
    return answer(toRequest(request, incoming), { address: incoming.socket.remoteAddress });
  };
  const server = createAdaptorServer({
    fetch,
    // An application's own Request and Response stay as they are.
    overrideGlobalObjects: false,
    serverOptions: {
      // What arrives too slowly is cut off: the whole request, and before that its head.
      requestTimeout: requestTimeoutMs,
      headersTimeout: Math.min(requestTimeoutMs, 10_000),
      connectionsCheckingInterval: Math.max(Math.min(requestTimeoutMs / 4, 5_000), 100),
    },
  }) as Server;
  server.on("connection", (socket) => socket.setNoDelay(true));
  return server;
}

/**
 * The adapter's own request cannot be made anew, as the limit of bodies does for one of unknown length, and has a body to
 * it where none was sent. A request without a length is therefore made from its parts.
 */
function toRequest(request: Request, { headers: sent }: IncomingMessage): Request {
  if (sent["content-length"] !== undefined || request.method === "GET" || request.method === "HEAD") return request;
  const { url, method, headers, body, signal } = request;
  const hasBody = sent["transfer-encoding"] !== undefined && body !== null;
  return new Request(url, { method, headers, signal, ...(hasBody ? { body, duplex: "half" } : {}) });
}

async function open(server: Server, host: string, port: number): Promise<void> {
  try {
    await new Promise<void>((resolve, reject) => {
      server.once("error", reject);
      server.listen(port, host, () => {
        server.off("error", reject);
        resolve();
      });
    });
  } catch (error) {
    throw new DroverError("invalid", `The server cannot listen on ${host}:${port}: ${toError(error).message}.`, {
      cause: error,
    });
  }
}

async function close(server: Server, graceMs: number): Promise<void> {
  const ended = new Promise<void>((resolve) => server.close(() => resolve()));
  // A connection whose request ends now would be kept for another one that is never served.
  const sweep = setInterval(() => server.closeIdleConnections(), 50);
  const timer = setTimeout(() => server.closeAllConnections(), graceMs);
  await ended;
  clearInterval(sweep);
  clearTimeout(timer);
}
