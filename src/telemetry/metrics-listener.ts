import { createServer, type RequestListener } from "node:http";
import { DroverError, toError } from "../core/errors.ts";

export type MetricsOptions = {
  /** Where `GET /metrics` is answered in Prometheus's text format. 0: any port that is free. */
  port: number;
  /** A name or an address; default `127.0.0.1`. Whoever can reach it can read it: there are no keys. */
  host?: string | undefined;
};

export type MetricsListener = { url: string; close(): Promise<void> };

/** The type that Prometheus expects of this format. */
const contentType = "text/plain; version=0.0.4; charset=utf-8";

/**
 * Serves metrics and nothing else.
 *
 * @throws DroverError "invalid" for an address that cannot be had.
 */
export async function serveMetrics(
  render: () => Promise<string>,
  { port, host = "127.0.0.1" }: MetricsOptions,
): Promise<MetricsListener> {
  const server = createServer({ requestTimeout: 10_000 }, answer(render));
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

function answer(render: () => Promise<string>): RequestListener {
  return (request, response) => {
    if (request.url?.split("?")[0] !== "/metrics") response.writeHead(404).end();
    else if (request.method !== "GET" && request.method !== "HEAD") response.writeHead(405, { allow: "GET" }).end();
    else {
      render().then(
        (text) => response.writeHead(200, { "content-type": contentType }).end(text),
        () => response.writeHead(500).end(),
      );
    }
  };
}
