import { inject, onTestFinished } from "vitest";
import { hashSecret, makeKeyId, makeSecret, toApiKey } from "../../src/api-keys.ts";
import { openBackend } from "../../src/backend.ts";
import type { Redaction } from "../../src/core/redact-event.ts";
import { type Agent } from "../../src/define-agent.ts";
import { createDrover, createRunApi, type Drover, prepare } from "../../src/drover.ts";
import { createWatch } from "../../src/engine/watch.ts";
import { createHttp } from "../../src/http/app.ts";
import type { HttpDeps, HttpSettings, Peer, RunApi } from "../../src/http/types.ts";
import type { FleetView, Logger, RunStore, Scope, Signals } from "../../src/ports.ts";
import type {
  KeyStore,
  Presence,
  ResponseRecord,
  ResponseStore,
  StoredKey,
  WebSession,
} from "../../src/ports-operators.ts";
import { createSilentLogger } from "../../src/telemetry/logger.ts";
import { openMemoryBackend } from "../../src/testing/memory-drover.ts";
import { deletePrefix, testPrefix } from "./redis.ts";

export type TestHttpOptions = {
  agents: readonly Agent[];
  /** Keys that the server knows, by name; none: it serves everybody, as "local" with all scopes. */
  keys?: Record<string, { scopes: Scope[]; tenant?: string }>;
  /** Over the tests' real Redis instead of memory. */
  redis?: boolean;
  settings?: Partial<HttpSettings>;
  /** Whatever else is to be other than usual. */
  deps?: Partial<HttpDeps>;
};

export type TestHttp = {
  /** Asks at a path, or with a whole request. Local, so that a server without keys serves it. */
  fetch(request: Request | string, init?: RequestInit): Promise<Response>;
  /** What the holder of a key of this name sends as `Authorization`. */
  authorization(name: string): Record<string, string>;
  /** The same as `fetch`, with a key. */
  as(name: string): (path: string, init?: RequestInit) => Promise<Response>;
  deps: HttpDeps;
  drover: Drover;
  store: RunStore;
  signals: Signals;
};

const testOrigin = "http://localhost";

/** All of HTTP without a socket, with a worker for its runs. Ends with the test. */
export async function createTestHttp(options: TestHttpOptions): Promise<TestHttp> {
  const { agents, settings } = options;
  const base = options.redis ? await openRedis(agents) : openMemory(agents);
  await base.drover.work({ concurrency: 50 });
  const { keys, secrets } = makeKeys(options.keys ?? {});
  const keyStore = createKeyTable(keys);
  const watch = createWatch({ store: base.store, signals: base.signals });
  const closing = new AbortController();
  onTestFinished(() => closing.abort());
  const deps: HttpDeps = {
    runs: base.runs,
    store: base.store,
    watch,
    fleet: { read: async () => emptyFleet },
    pausing: base.drover,
    presence: emptyPresence,
    keys: keyStore,
    responses: createResponseTable(),
    redactor: base.redaction.redactor,
    logger: base.logger,
    now: base.now,
    ready: async () => {},
    closing: closing.signal,
    ...options.deps,
    settings: {
      bodyLimitBytes: 2_000_000,
      requestTimeoutMs: 10_000,
      heartbeatMs: 15_000,
      secureCookies: false,
      keyless: keys.length === 0,
      ...settings,
    },
  };
  const app = createHttp(deps);
  const peer: Peer = { address: "127.0.0.1" };
  const fetch: TestHttp["fetch"] = (request, init) =>
    app(typeof request === "string" ? new Request(`${testOrigin}${request}`, init) : request, peer);
  const authorization = (name: string): Record<string, string> => ({
    authorization: `Bearer ${secrets.get(name) ?? name}`,
  });
  return {
    fetch,
    authorization,
    as: (name) => (path, init) => {
      const headers = new Headers(init?.headers);
      for (const [field, value] of Object.entries(authorization(name))) headers.set(field, value);
      return fetch(path, { ...init, headers });
    },
    deps,
    drover: base.drover,
    store: base.store,
    signals: base.signals,
  };
}

/** A POST of JSON. */
export function json(body: unknown, headers: Record<string, string> = {}): RequestInit {
  return { method: "POST", headers: { "content-type": "application/json", ...headers }, body: JSON.stringify(body) };
}

type Base = {
  drover: Drover;
  runs: RunApi;
  store: RunStore;
  signals: Signals;
  redaction: Redaction;
  logger: Logger;
  now: () => number;
};

function openMemory(agents: readonly Agent[]): Base {
  const { drover, store, signals, redaction, clock } = openMemoryBackend({ agents });
  onTestFinished(() => drover.close());
  return { drover, runs: drover, store, signals, redaction, logger: createSilentLogger(), now: () => clock.now() };
}

async function openRedis(agents: readonly Agent[]): Promise<Base> {
  const redis = inject("redisUrl");
  const prefix = testPrefix();
  const logger = createSilentLogger();
  const drover = createDrover({ redis, prefix, agents, logger });
  const { backendOptions } = prepare({ redis, prefix, logger });
  const backend = openBackend(backendOptions, "producer");
  onTestFinished(async () => {
    await drover.close();
    await backend.close();
    await deletePrefix(redis, prefix);
  });
  const { redaction } = backendOptions;
  const { store, signals, clock } = backend;
  const runs = createRunApi(() => backend.engine, redaction.redactor);
  return { drover, runs, store, signals, redaction, logger, now: () => clock.now() };
}

function makeKeys(given: NonNullable<TestHttpOptions["keys"]>): { keys: StoredKey[]; secrets: Map<string, string> } {
  const secrets = new Map<string, string>();
  const keys = Object.entries(given).map(([name, { scopes, tenant }]): StoredKey => {
    const id = makeKeyId();
    const secret = makeSecret();
    secrets.set(name, toApiKey(id, secret));
    return { id, name, scopes, tenant, secretHash: hashSecret(secret), createdAt: 1 };
  });
  return { keys, secrets };
}

function createKeyTable(given: readonly StoredKey[]): KeyStore {
  const keys = new Map(given.map((key) => [key.id, key]));
  const sessions = new Map<string, WebSession>();
  return {
    put: async (key) => void keys.set(key.id, key),
    replace: async (key, secretHash) => keys.get(key.id)?.secretHash === secretHash && keys.set(key.id, key).size > 0,
    get: async (id) => keys.get(id),
    list: async () => [...keys.values()],
    remove: async (id) => keys.delete(id),
    putSession: async (hash, session) => void sessions.set(hash, session),
    getSession: async (hash) => sessions.get(hash),
    removeSession: async (hash) => void sessions.delete(hash),
  };
}

function createResponseTable(): ResponseStore {
  const records = new Map<string, { record: ResponseRecord; events: string[] }>();
  return {
    async create(record) {
      const kept = records.get(record.id) ?? { record, events: [] };
      records.set(record.id, kept);
      return kept.record;
    },
    get: async (id) => records.get(id)?.record,
    remove: async (id) => records.delete(id),
    async append(id, from, events) {
      const kept = records.get(id);
      if (!kept || kept.events.length !== from) return false;
      kept.events.push(...events);
      return true;
    },
    read: async (id, from, limit) => records.get(id)?.events.slice(from, from + limit) ?? [],
    expireEvents: async () => {},
    due: async () => [],
    postpone: async () => {},
  };
}

const emptyPresence: Presence = {
  tell: async () => {},
  leave: async () => {},
  workers: async () => [],
  agents: async () => [],
  forgetAgent: async () => {},
  gates: async () => [],
};

const emptyFleet: FleetView = {
  at: 0,
  redis: { version: "7.0.15", usedMemoryBytes: 1, clients: 1, roundTripMs: 1 },
  workers: [],
  agents: [],
  queues: [],
  gates: [],
  counts: { queued: 0, running: 0, waiting: 0, paused: 0, completed: 0, failed: 0, cancelled: 0, rejected: 0 },
  owing: { count: 0 },
};
