import type { OutputSpec, RateLimit } from "./core/agent.ts";
import type { BreakerState } from "./core/breaker.ts";
import type { Pause, RunStatus } from "./core/run.ts";

// What operators see and keep beside runs: who works, what waits, who may ask, and what was answered over HTTP.

/**
 * A worker process, as it tells of itself every few seconds.
 * - `version`: of Drover;
 * - `queues`: as `QueueState` names them;
 * - `concurrency`: steps at once on all of them together; `running`: steps in hand.
 */
export type WorkerPresence = {
  id: string;
  host: string;
  pid: number;
  version: string;
  startedAt: number;
  /** Epoch ms of when it last told. */
  seenAt: number;
  queues: string[];
  concurrency: number;
  running: number;
  agents: string[];
  /** It takes no steps at the moment: it, or the fleet, is paused. */
  paused?: boolean | undefined;
};

/** Whether the whole fleet is paused; kept with the installation, so that it outlives every process. */
export interface FleetSwitch {
  /** Undefined: it is not. */
  read(): Promise<Pause | undefined>;
  /** Pauses it. One that is paused stays as it was: `applied` is false then, and `pause` tells of that. */
  pause(asked: Pause): Promise<{ pause: Pause; applied: boolean }>;
  /** False if it was not paused. */
  resume(): Promise<boolean>;
}

/**
 * An agent that some worker knew; it stays known after the worker is gone. `queues`: those that its tools name;
 * `output`: what its final answer must be.
 */
export type KnownAgent = {
  name: string;
  model: string;
  tools: string[];
  version?: string | undefined;
  queues?: string[] | undefined;
  output?: OutputSpec | undefined;
  seenAt: number;
};

/** A limit over the whole fleet that some worker works under. `name`: of the tool or model. */
export type KnownGate = {
  key: string;
  kind: "tool" | "model";
  name: string;
  rate?: RateLimit | undefined;
  concurrency?: number | undefined;
};

/** Workers telling of themselves. What is not told again expires. */
export interface Presence {
  /** Also keeps what its agents and limits are. */
  tell(worker: WorkerPresence, agents: KnownAgent[], gates: KnownGate[], ttlMs: number): Promise<void>;
  /** The worker has stopped. */
  leave(workerId: string): Promise<void>;
  /** Those whose time is not over, by when they started. */
  workers(): Promise<WorkerPresence[]>;
  /** By name. */
  agents(): Promise<KnownAgent[]>;
  /** Forgets an agent; one that a worker has is told of again. */
  forgetAgent(name: string): Promise<void>;
  /** Of the workers that are there, by key; where they differ, as the one that told last has it. */
  gates(): Promise<KnownGate[]>;
}

/**
 * - `oldestAgeMs`: how long the step that waits longest could have been taken; undefined if none waits;
 * - `paused`: somebody used BullMQ's own pause on it, so that no worker takes anything. Drover never does.
 */
export type QueueState = {
  name: string;
  waiting: number;
  active: number;
  delayed: number;
  oldestAgeMs?: number | undefined;
  paused?: boolean | undefined;
  /** Worker processes that serve it. */
  workers: number;
};

export type GateView = KnownGate & {
  inside: number;
  waiting: number;
  breaker?: BreakerState | undefined;
  /** Epoch ms. */
  pausedUntil?: number | undefined;
};

/** The whole installation at one moment. Times are epoch ms by Redis's clock, sizes bytes. */
export type FleetView = {
  at: number;
  redis: {
    /** Undefined, as the next three: this host does not tell. */
    version?: string | undefined;
    usedMemoryBytes?: number | undefined;
    /** Also undefined where there is no limit. */
    maxMemoryBytes?: number | undefined;
    clients?: number | undefined;
    /** One round trip, in ms. */
    roundTripMs: number;
  };
  workers: WorkerPresence[];
  agents: KnownAgent[];
  queues: QueueState[];
  gates: GateView[];
  counts: Record<RunStatus, number>;
  /** Runs that owe a step, and since when the oldest does. */
  owing: { count: number; oldestSince?: number | undefined };
  /** Who paused all of it, when and why; undefined: it is not paused. */
  paused?: Pause | undefined;
};

export interface FleetReader {
  read(): Promise<FleetView>;
}

export const scopes = ["start", "read", "decide", "admin"] as const;
/** What a key allows: to start runs and send input, to read, to decide and cancel and retry, to do all of it and see the fleet. */
export type Scope = (typeof scopes)[number];

/** A key as it is kept: never its secret. Times are epoch ms. */
export type StoredKey = {
  id: string;
  name: string;
  scopes: Scope[];
  /** Sees and starts this tenant's runs only. */
  tenant?: string | undefined;
  /** SHA-256 of the secret, hex. The secret is random, so that a slow hash adds nothing. */
  secretHash: string;
  /** The secret before the last rotation, good until then. */
  previous?: { secretHash: string; validUntil: number } | undefined;
  createdAt: number;
  expiresAt?: number | undefined;
};

/** Somebody signed in to the pages. It ends with its key, and with the secret it was opened with (`secretHash`). */
export type WebSession = { keyId: string; secretHash: string; csrf: string; createdAt: number };

export interface KeyStore {
  put(key: StoredKey): Promise<void>;
  /** Puts a key in place of itself with that secret. False, and nothing is put, if it was removed or rotated since. */
  replace(key: StoredKey, secretHash: string): Promise<boolean>;
  get(id: string): Promise<StoredKey | undefined>;
  /** By when they were made. */
  list(): Promise<StoredKey[]>;
  /** False if there was none. */
  remove(id: string): Promise<boolean>;
  /** `idHash`: SHA-256 of the cookie's value, hex. Gone after `ttlMs`. */
  putSession(idHash: string, session: WebSession, ttlMs: number): Promise<void>;
  getSession(idHash: string): Promise<WebSession | undefined>;
  removeSession(idHash: string): Promise<void>;
}

/** One answer of the Responses endpoint: a run, or a part of it between two questions to the caller. */
export type ResponseRecord = {
  /** `resp_...` */
  id: string;
  runId: string;
  tenant?: string | undefined;
  createdAt: number;
  /** The part of the run's feed that it tells of: entries after this sequence number. */
  afterSeq: number;
  /** What the request said and the Response repeats. */
  request: Record<string, unknown>;
};

/** Responses and their numbered events. Numbers are given once and never again (f.4 rule 9). */
export interface ResponseStore {
  /** Keeps the record unless its id is taken; resolves to the one that is kept. */
  create(record: ResponseRecord): Promise<ResponseRecord>;
  get(id: string): Promise<ResponseRecord | undefined>;
  /** With its events. False if there was none. */
  remove(id: string): Promise<boolean>;
  /**
   * Appends events with the numbers `from`, `from + 1`, ... all or none. False if that is not where the events end (also
   * where they have expired): somebody else went on, and the log is to be read again.
   *
   * @throws DroverError "not_found" if there is no such response: it was removed.
   */
  append(id: string, from: number, events: string[]): Promise<boolean>;
  /** Events with the numbers from `from` on, at most `limit`. */
  read(id: string, from: number, limit: number): Promise<string[]>;
  /** Drops the events (not the record) after so many ms; their numbers stay given. */
  expireEvents(id: string, ms: number): Promise<void>;
  /**
   * Responses made, or put off to a time, before `before` (epoch ms), the oldest first, at most `limit`. `runId`: undefined
   * if no record is left, null if it cannot be read.
   */
  due(before: number, limit: number): Promise<{ id: string; runId: string | null | undefined }[]>;
  /** Is not due before `at` (epoch ms) again. */
  postpone(id: string, at: number): Promise<void>;
}
