import type { Context, Hono } from "hono";
import type { RunFeedEvent } from "../core/feed.ts";
import type { Redactor } from "../core/redact.ts";
import type { Drover } from "../drover.ts";
import type { FollowOptions } from "../engine/follow.ts";
import type {
  FleetReader,
  KeyStore,
  Logger,
  Presence,
  ResponseStore,
  RunStore,
  Scope,
  StoredKey,
  Telemetry,
} from "../ports.ts";

/** What is done with runs; the same for applications, HTTP and pages. */
export type RunApi = Pick<Drover, "start" | "get" | "session" | "list" | "count" | "delete">;

/** Who asks. Without keys (loopback only) everybody may do everything, and `name` is "local". */
export type Caller = {
  name: string;
  keyId?: string | undefined;
  scopes: ReadonlySet<Scope>;
  /** Undefined: all tenants. */
  tenant?: string | undefined;
  /** Signed in to the pages: the token that each of their forms must bring. */
  csrf?: string | undefined;
};

/** What the connection says of a request. Without an address, all failures to sign in count together. */
export type Peer = { address?: string | undefined };

export type HttpEnv = { Bindings: Peer; Variables: { caller: Caller; requestId: string; runs: RunApi; nonce: string } };
export type HttpContext = Context<HttpEnv>;
export type HttpApp = Hono<HttpEnv>;

export type HttpSettings = {
  /** Largest body that is read, in bytes. */
  bodyLimitBytes: number;
  /** For everything but streams, in ms. */
  requestTimeoutMs: number;
  /** Comment lines on a quiet stream, in ms. */
  heartbeatMs: number;
  /** Where a trace is looked at, with `{traceId}` in it. */
  traceUrl?: string | undefined;
  /** Cookies go over HTTPS only. */
  secureCookies: boolean;
  /** Keys of the settings, beside those that are kept in Redis. Default: none. */
  staticKeys?: readonly StoredKey[] | undefined;
  /**
   * While there are no keys: serve everybody who connects, with all scopes. Only for a server bound to loopback. Default:
   * false, and without keys nobody is served.
   */
  keyless?: boolean | undefined;
};

/** All that HTTP is made over. */
export type HttpDeps = {
  runs: RunApi;
  /** What is stored, for what no command covers. Content of it must be redacted before it is shown. */
  store: Pick<RunStore, "load" | "readMessages" | "readFeed" | "getDefinition" | "readSession">;
  /** A run's feed; all watchers of a run share one reader. */
  watch: { events(runId: string, options?: FollowOptions): AsyncGenerator<RunFeedEvent> };
  fleet: FleetReader;
  /** Stops all work at once, and lets it go on. */
  pausing: Pick<Drover, "pauseAll" | "resumeAll">;
  presence: Presence;
  keys: KeyStore;
  responses: ResponseStore;
  redactor: Redactor;
  logger: Logger;
  /** Epoch ms by Redis's clock. */
  now: () => number;
  /** Resolves while Redis answers and is set as it must be. @throws DroverError "unsupported" naming the setting that is wrong */
  ready: () => Promise<void>;
  /** Told of requests and of who follows runs; undefined: nobody is. */
  telemetry?: Pick<Telemetry, "count" | "recordRequest"> | undefined;
  /** In Prometheus's text format; undefined: metrics are off. */
  metrics?: (() => Promise<string>) | undefined;
  /** The raw queues' pages, mounted at `/ui/queues`. */
  board?: ((request: Request) => Promise<Response>) | undefined;
  /** Aborts when the server closes: streams end, and it is not ready any more. */
  closing?: AbortSignal | undefined;
  settings: HttpSettings;
};
