import { type Backend, openBackend } from "../backend.ts";
import { type Board, type BoardQueue, createBoard } from "../bullmq/board.ts";
import { runsQueue } from "../bullmq/step-job.ts";
import { DroverError } from "../core/errors.ts";
import type { Redactor } from "../core/redact.ts";
import { createRunApi, type DroverOptions, prepare } from "../drover.ts";
import { pauseFleet, resumeFleet } from "../engine/fleet-pause.ts";
import { createWatch } from "../engine/watch.ts";
import { createHttp } from "../http/app.ts";
import type { HttpDeps, HttpSettings, Peer } from "../http/types.ts";
import { createRedisKeyStore } from "../redis/key-store.ts";
import { createKeys, type Keys } from "../redis/keys.ts";
import { createRedisResponseStore } from "../redis/response-store.ts";
import { createReadiness } from "../redis/watch-settings.ts";
import { type Listening, type ListenOptions, listen } from "./listen.ts";

export type { ListenOptions } from "./listen.ts";

export type DroverServerOptions = Pick<
  DroverOptions,
  | "redis"
  | "prefix"
  | "shards"
  | "payloadLimitBytes"
  | "memoryLimitPercent"
  | "durability"
  | "telemetry"
  | "logger"
  | "redaction"
> & {
  /** Limits, cookies, keys of the settings; each has a default. */
  http?: Partial<HttpSettings> | undefined;
  /** How long requests in hand may go on when the server closes, in ms; default 5,000. */
  graceMs?: number | undefined;
};

export type DroverServer = {
  /** Answers a request, without a socket: for tests, and for servers of your own. `peer`: who is at the other end. */
  fetch(request: Request, peer?: Peer): Promise<Response>;
  /**
   * Serves on a port. Resolves when it does.
   * @throws DroverError "stopped"; "invalid" for an address that cannot be had, or one beyond loopback for a server without keys.
   */
  listen(options?: ListenOptions): Promise<{ url: string }>;
  /** Takes no more requests, ends streams, lets requests in hand end within the grace time, and closes everything. */
  close(): Promise<void>;
};

const defaults: HttpSettings = {
  bodyLimitBytes: 2_097_152,
  requestTimeoutMs: 30_000,
  heartbeatMs: 15_000,
  secureCookies: false,
};
const defaultGraceMs = 5_000;

/**
 * The HTTP API, the endpoints for clients of OpenAI's API and the operators' pages, over a Redis that workers share.
 *
 * @throws DroverError "invalid" as `createDrover`.
 */
export function createDroverServer(options: DroverServerOptions): DroverServer {
  const { http = {}, graceMs = defaultGraceMs, ...given } = options;
  const settings: HttpSettings = { ...defaults, ...defined(http) };
  const { backendOptions, shutdown, renderMetrics } = prepare(given, undefined, { prometheus: true });
  const backend = openBackend(backendOptions, "producer");
  const closing = new AbortController();
  const { redactor } = backendOptions.redaction;
  const keys = createKeys(backendOptions.prefix);
  const deps = makeDeps(backend, keys, { settings, closing: closing.signal, redactor });
  const board = makeBoard(backend, keys, redactor);
  const { telemetry } = backendOptions;
  const stopObserving = telemetry.observeFleet(() => backend.fleet.read());
  const answer = createHttp({
    ...deps,
    telemetry,
    board: board.fetch,
    ...(renderMetrics ? { metrics: renderMetrics } : {}),
  });
  const listening: Listening[] = [];
  let closed: Promise<void> | undefined;

  async function close(): Promise<void> {
    closing.abort();
    await Promise.all(listening.map((one) => one.close(graceMs)));
    stopObserving();
    await board.close();
    await backend.close();
    await shutdown();
  }

  return {
    fetch: answer,
    async listen(where = {}) {
      if (closed) throw new DroverError("stopped", "This server was closed. Create another one.");
      const one = await listen(answer, settings, where);
      listening.push(one);
      return { url: one.url };
    },
    close() {
      closed ??= close();
      return closed;
    },
  };
}

type Own = Pick<HttpDeps, "settings" | "closing" | "redactor">;

function makeDeps(backend: Backend, keys: Keys, own: Own): HttpDeps {
  const { store, signals, clock, connection, logger } = backend;
  return {
    ...own,
    runs: createRunApi(() => backend.engine, own.redactor),
    store,
    watch: createWatch({ store, signals }),
    keys: createRedisKeyStore({ connection, keys }),
    presence: backend.presence,
    responses: createRedisResponseStore({ connection, keys }),
    fleet: backend.fleet,
    pausing: {
      pauseAll: (options) => pauseFleet({ ...backend, redactor: own.redactor }, options),
      resumeAll: () => resumeFleet(backend),
    },
    logger,
    now: () => clock.now(),
    ready: createReadiness(connection, { prefix: keys.prefix }),
  };
}

function makeBoard({ connection, fleet, shards }: Backend, keys: Keys, redactor: Redactor): Board {
  const prefix = keys.queuePrefix;
  const queues = async (): Promise<BoardQueue[]> => {
    const names = (await fleet.read()).queues.map(({ name }) => name);
    if (shards.length === 1) return names.map((name) => ({ name, prefix }));
    const steps = names.filter((name) => name !== runsQueue);
    return [
      { name: runsQueue, prefix },
      ...shards.flatMap((shard, index) =>
        steps.map((name) => ({ name, prefix: shard.keys.queuePrefix, label: `shard ${index}: ` })),
      ),
    ];
  };
  return createBoard({
    connection: connection.client,
    queues,
    basePath: "/ui/queues",
    redactor,
  });
}

function defined<T extends object>(value: T): Partial<T> {
  return Object.fromEntries(Object.entries(value).filter(([, field]) => field !== undefined)) as Partial<T>;
}
