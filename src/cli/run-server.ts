import { DroverError, toError } from "../core/errors.ts";
import { hidePassword } from "../hide-password.ts";
import { isLoopback } from "../server/loopback.ts";
import { createLogger } from "../telemetry/logger.ts";
import { type Context, redactionOf } from "./context.ts";
import { count } from "./format/text.ts";
import { withKeys } from "./key-store.ts";

export type ServerOptions = {
  redis: string;
  host: string;
  /** 0: any that is free. */
  port: number;
  /** How many of the following ports are tried when it is taken; default none. */
  spare?: number | undefined;
};

export type RunningServer = {
  url: string;
  /** One line: what protects it, Redis without its password, where metrics are. */
  description: string;
  /** Takes no more requests, ends streams and lets the rest end. */
  stop(): Promise<void>;
};

/**
 * Serves HTTP in this process. Its log lines go to standard error.
 *
 * @throws DroverError when Redis is away, when the port cannot be had, and for an address beyond loopback without keys.
 */
export async function startServer(context: Context, options: ServerOptions): Promise<RunningServer> {
  const { redis, host } = options;
  const config = context.config();
  const keys = await countKeys(context, redis);
  const isLocal = isLoopback(host);
  if (keys === 0 && !isLocal) throw new DroverError("not_allowed", refusal(context, host));
  // It brings the router and the pages, which other commands start faster without.
  const { createDroverServer } = await import("../server.ts");
  const server = createDroverServer({
    redis,
    prefix: config.prefix,
    shards: config.shards,
    payloadLimitBytes: config.payloadLimitBytes,
    memoryLimitPercent: config.memoryLimitPercent,
    durability: config.durability,
    logger: createLogger({ level: config.logLevel, destination: process.stderr }),
    redaction: redactionOf(config),
    http: {
      bodyLimitBytes: config.httpBodyLimitBytes,
      requestTimeoutMs: config.httpTimeoutMs,
      traceUrl: config.traceUrl,
      secureCookies: config.httpSecureCookies ?? !isLocal,
      staticKeys: config.apiKeys,
      keyless: isLocal,
    },
  });
  try {
    const { url } = await listen((port) => server.listen({ host, port }), options);
    const access = keys > 0 ? `for holders of ${count(keys, "key")}` : "no keys: open to everybody on this machine";
    const description = `${access} | redis ${hidePassword(redis)} | metrics ${url}/metrics`;
    return { url, description, stop: () => server.close() };
  } catch (error) {
    await server.close();
    throw error;
  }
}

async function countKeys(context: Context, redis: string): Promise<number> {
  const kept = await withKeys(context, redis, (store) => store.list());
  return kept.length + (context.config().apiKeys?.length ?? 0);
}

function refusal({ program }: Context, host: string): string {
  return `without keys the server listens on this machine only, and ${host} is more: make a key with "${program} keys create NAME --scope admin" or set DROVER_API_KEYS, or serve on 127.0.0.1`;
}

type Listen = (port: number) => Promise<{ url: string }>;

async function listen(serve: Listen, { host, port, spare = 0 }: ServerOptions): Promise<{ url: string }> {
  try {
    return await serve(port);
  } catch (error) {
    const { code } = toError(toError(error).cause) as NodeJS.ErrnoException;
    if (code === "EADDRINUSE" && spare > 0) return listen(serve, { redis: "", host, port: port + 1, spare: spare - 1 });
    const why = code === undefined ? undefined : reasons[code];
    if (why === undefined) throw error;
    throw new DroverError("not_allowed", why(host, port), { cause: error });
  }
}

const reasons: Record<string, (host: string, port: number) => string> = {
  EADDRINUSE: (host, port) =>
    `port ${port} of ${host} is in use by another program: stop that one, or choose a port with --port or DROVER_HTTP_PORT (0 takes any that is free)`,
  EACCES: (_host, port) =>
    `port ${port} is not allowed to this user: choose one from 1024 on with --port or DROVER_HTTP_PORT`,
  EADDRNOTAVAIL: (host) =>
    `this machine does not have the address ${host}: choose one of its own with --host or DROVER_HTTP_HOST`,
  ENOTFOUND: (host) =>
    `the host name ${host} is not known: choose an address of this machine with --host or DROVER_HTTP_HOST`,
};
