import { DroverError } from "../core/errors.ts";
import { createRarely } from "../core/rarely.ts";
import { endClient } from "../end-client.ts";
import type { Logger } from "../ports.ts";
import { permanentCodes, redisErrorCode, toRedisError } from "./redis-error.ts";
import { type ConnectionRole, makeClient } from "./redis-options.ts";
import { addressOf, type RedisClient, type RedisTarget, toClient } from "./redis-target.ts";

export type { ConnectionRole } from "./redis-options.ts";
export type { RedisClient, RedisTarget } from "./redis-target.ts";

/** One connection that is watched, so that its failures become ours and its errors never go unheard. */
export type RedisConnection = {
  readonly client: RedisClient;
  readonly role: ConnectionRole;
  /** `host:port`, a socket path, the sentinels' group or the cluster's nodes; without a password. */
  readonly address: string;
  /**
   * Resolves when commands can be sent.
   *
   * @param timeoutMs default 1,500 for a producer and subscriber, 5,000 for a worker.
   * @throws DroverError `queue_unavailable`, saying where Redis was looked for and what to do.
   */
  ready(timeoutMs?: number): Promise<void>;
  /**
   * Runs commands. A producer waits at most `ready`'s time for the connection and 10 s for the answer; a worker waits
   * for Redis to come back. Every failure of Redis comes out as a `DroverError`.
   */
  use<T>(fn: (client: RedisClient) => Promise<T>): Promise<T>;
  /** Closes for good. Commands on their way are given up. */
  close(): Promise<void>;
};

export type ConnectOptions = {
  role: ConnectionRole;
  logger?: Logger | undefined;
  /** Shown in CLIENT LIST. */
  name?: string | undefined;
};

const readyTimeoutMs: Record<ConnectionRole, number> = { producer: 1_500, subscriber: 1_500, worker: 5_000 };
const answerTimeoutMs = 10_000;

/**
 * Opens a connection of our own, also when an ioredis instance is given: that one is only copied from.
 *
 * @throws DroverError `invalid` for a URL or an option that cannot work, naming it.
 */
export function connect(target: RedisTarget, options: ConnectOptions): RedisConnection {
  const { role } = options;
  const client = makeClient(target, role, options.name);
  const address = addressOf(toClient(target));
  let closed = false;
  // What is closed while it connects fails, as it is meant to.
  const warn = createDampedWarning(options.logger);
  const watched = watch(client, (code) => {
    if (!closed) warn(code, { address, code }, "Redis connection trouble");
  });

  async function ready(timeoutMs: number = readyTimeoutMs[role]): Promise<void> {
    if (closed) throw new DroverError("stopped", "This Redis connection was closed.");
    if (client.status === "ready") return;
    const failure = await untilReady(watched, timeoutMs);
    if (failure === undefined) return;
    throw toRedisError(failure, address);
  }

  return {
    client,
    role,
    address,
    ready,
    async use(fn) {
      if (closed) throw new DroverError("stopped", "This Redis connection was closed.");
      try {
        if (role === "worker") return await fn(client);
        await ready();
        return await within(fn(client), answerTimeoutMs);
      } catch (error) {
        throw toRedisError(error, address);
      }
    },
    async close() {
      if (closed) return;
      closed = true;
      await endClient(client);
    },
  };
}

/** What happened to a client: it is ready, it met an error, it was ended. */
type Notice = { type: "ready" } | { type: "end" } | { type: "error"; error: unknown };
type Watch = { lastError(): unknown; waiters: Set<(notice: Notice) => void> };

/** Listens to a client, and logs each kind of error at most every ten seconds: an outage must not flood the log. */
function watch(client: RedisClient, warn: (code: string) => void): Watch {
  let lastError: unknown;
  const waiters: Watch["waiters"] = new Set();
  const tell = (notice: Notice): void => {
    for (const waiter of waiters) waiter(notice);
  };
  const note = (error: unknown): void => {
    const code = redisErrorCode(error);
    // That a connection is closed says less than why.
    if (code !== "CLOSED" || lastError === undefined) lastError = error;
    warn(code);
  };
  client.on("error", (error: unknown) => {
    note(error);
    tell({ type: "error", error });
  });
  client.on("ready", () => {
    lastError = undefined;
    tell({ type: "ready" });
  });
  client.on("end", () => tell({ type: "end" }));
  // Of a node of a cluster. Others may still do.
  client.on("node error", note);
  return { lastError: () => lastError, waiters };
}

export type DampedWarning = (key: string, fields: Record<string, unknown>, message: string) => void;

/** A warning per key at most every ten seconds, with the number of those left out. */
export function createDampedWarning(logger: Logger | undefined): DampedWarning {
  const rarely = createRarely(() => performance.now());
  return (key, fields, message) =>
    rarely(key, ({ repeats }) =>
      logger?.warn(repeats === undefined ? fields : { ...fields, suppressed: repeats }, message),
    );
}

/** Undefined once the client is ready; else why it is not. */
function untilReady({ waiters, lastError }: Watch, timeoutMs: number): Promise<unknown> {
  return new Promise((resolve) => {
    const settle = (failure: unknown): void => {
      cancel();
      waiters.delete(waiter);
      resolve(failure);
    };
    const waiter = (notice: Notice): void => {
      if (notice.type === "ready") settle(undefined);
      if (notice.type === "end") settle(lastError() ?? new Error("Connection is closed."));
      if (notice.type === "error" && permanentCodes.has(redisErrorCode(notice.error))) settle(notice.error);
    };
    const cancel = afterWaiting(timeoutMs, () => settle(lastError() ?? timedOut()));
    waiters.add(waiter);
    const known = lastError();
    if (known !== undefined) waiter({ type: "error", error: known });
  });
}

function timedOut(): Error {
  return Object.assign(new Error("no answer in time"), { code: "ETIMEDOUT" });
}

/** Rejects with ETIMEDOUT when it takes longer; the work itself goes on. */
export async function within<T>(promise: Promise<T>, ms: number): Promise<T> {
  let cancel: () => void = () => {};
  const limit = new Promise<never>((_resolve, reject) => {
    cancel = afterWaiting(ms, () => reject(timedOut()));
  });
  try {
    return await Promise.race([promise, limit]);
  } finally {
    cancel();
  }
}

const slices = 10;

/**
 * Acts once this process has waited for `ms`, in slices: one that was blocked for longer than a slice did not listen, and what
 * lies unread is not the server's silence. Returns how not to act.
 */
function afterWaiting(ms: number, act: () => void): () => void {
  let timer: NodeJS.Timeout;
  const wait = (left: number): void => {
    timer = setTimeout(() => (left === 1 ? act() : wait(left - 1)), ms / slices);
  };
  wait(slices);
  return () => clearTimeout(timer);
}
