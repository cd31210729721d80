import { createServer, type RequestListener } from "node:http";
import { DroverError, toError } from "../core/errors.ts";

export type MetricsOptions = {
  /**
   * Where `GET /metrics` is answered in Prometheus's text format, and `GET /healthz` and `/readyz` for the probes of a
   * supervisor. 0: any port that is free.
   */
  port: number;
  /** A name or an address; default `127.0.0.1`. Whoever can reach it can read it: there are no keys. */
  host?: string | undefined;
};

export type MetricsListener = { url: string; close(): Promise<void> };

/** The type that Prometheus expects of this format. */
const contentType = "text/plain; version=0.0.4; charset=utf-8";

/** `health`: whether the process is to be started again, whether it can work, and why not. */
export type Served = {
  render: () => Promise<string>;
  health: () => Promise<{ live: boolean; ready: boolean; reason?: string | undefined }>;
};

/**
 * Serves metrics and health, and nothing else.
 *
 * @throws DroverError "invalid" for an address that cannot be had.
 */
export async function serveMetrics(
  served: Served,
  { port, host = "127.0.0.1" }: MetricsOptions,
): Promise<MetricsListener> {
  const server = createServer({ requestTimeout: 10_000 }, answer(served));
  try {
    await new Promise<void>((resolve, reject) => {
      server.once("error", reject);
      server.listen(port, host, resolve);
    });
  } catch (error) {
    const why = toError(error).message;
    throw new DroverError("invalid", `Metrics cannot be served on ${host}:${port}: ${why}. Choose another port.`);
  }
  const address = server.address();
  const taken = typeof address === "object" && address ? address.port : port;
  return {
    url: `http://${host.includes(":") ? `[${host}]` : host}:${taken}/metrics`,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

type Answer = { status: number; type: string; body: string };

function answer(served: Served): RequestListener {
  const routes: Record<string, () => Promise<Answer>> = {
    "/metrics": async () => ({ status: 200, type: contentType, body: await served.render() }),
    "/healthz": () => tell(served, "live"),
    "/readyz": () => tell(served, "ready"),
  };
  return (request, response) => {
    const route = routes[request.url?.split("?")[0] ?? ""];
    if (!route) response.writeHead(404).end();
    else if (request.method !== "GET" && request.method !== "HEAD") response.writeHead(405, { allow: "GET" }).end();
    else {
      route().then(
        ({ status, type, body }) => response.writeHead(status, { "content-type": type }).end(body),
        () => response.writeHead(500).end(),
      );
    }
  };
}

async function tell({ health }: Served, what: "live" | "ready"): Promise<Answer> {
  const now = await health();
  const body = now[what] ? { status: "ok" } : { status: what === "live" ? "stuck" : "not ready", reason: now.reason };
  return { status: now[what] ? 200 : 503, type: "application/json", body: `${JSON.stringify(body)}\n` };
}
