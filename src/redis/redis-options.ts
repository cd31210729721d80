import { Redis, type RedisOptions } from "ioredis";
import { DroverError } from "../core/errors.ts";
import type { KnownSecret } from "../core/redact-words.ts";
import { batchWrites } from "./batch-writes.ts";
import { tolerateHiddenInfo } from "./hidden-info.ts";
import { redisErrorCode } from "./redis-error.ts";
import { splitTls } from "./redis-tls.ts";

/**
 * Where Redis is: a URL (`redis://`, `rediss://` with files as `splitTls` says, `unix:///path` or a socket path), options,
 * or an ioredis instance.
 */
export type RedisTarget = string | RedisOptions | Redis;

/**
 * What a connection is for.
 * - `producer`: fails at once when Redis is away, so that a caller never hangs;
 * - `worker`: waits for Redis as long as it takes;
 * - `subscriber`: waits too, and is used for nothing but subscriptions.
 */
export type ConnectionRole = "producer" | "worker" | "subscriber";

/**
 * The options of a connection of that role, for whoever must build clients himself (BullMQ does).
 *
 * @throws DroverError `invalid` for an option that cannot work, naming it.
 */
export function toRedisOptions(target: RedisTarget, role: ConnectionRole): RedisOptions {
  const probe = makeClient(target, role, undefined, false);
  probe.disconnect();
  return probe.options;
}

/** A client with the role's options. It connects by itself; its rejections and errors are the caller's to hear. */
export function makeClient(target: RedisTarget, role: ConnectionRole, name?: string, start = true): Redis {
  const ours = { ...roleOptions(role), ...(name ? { connectionName: name } : {}) };
  const given = toClient(target);
  refuseUnsafe(given.options, role, isInstance(target));
  const client = given.duplicate(ours);
  batchWrites(client);
  tolerateHiddenInfo(client);
  if (start) client.connect().catch(() => {}); // The error event tells it too, and every later try.
  return client;
}

/** The password that Redis is called with, which must not be shown; as written in its URL and as meant. */
export function redisSecrets(target: RedisTarget): KnownSecret[] {
  const written = typeof target === "string" ? URL.parse(target)?.password : undefined;
  const { password, sentinelPassword } = toClient(target).options ?? {};
  return [written, password, sentinelPassword].flatMap((value) => (value ? [{ kind: "password", value }] : []));
}

/** A client that never connects, only to have its options parsed by the library. */
function toClient(target: RedisTarget): Redis {
  if (isInstance(target)) {
    if (!target.isCluster) return target;
    throw new DroverError("unsupported", "A cluster client cannot be used. Pass a URL, options or an ioredis Redis.");
  }
  if (typeof target === "object") {
    return new Redis({ ...target, lazyConnect: true, replyMapping: "legacy" });
  }
  if (target.startsWith("/")) return new Redis({ path: target, lazyConnect: true });
  const url = URL.parse(target);
  if (url?.protocol === "unix:") return new Redis({ path: decodeURIComponent(url.pathname), lazyConnect: true });
  if (url?.protocol === "redis:" || url?.protocol === "rediss:") {
    const { url: address, tls } = splitTls(url);
    return new Redis(address, { lazyConnect: true, ...(tls ? { tls } : {}) });
  }
  throw new DroverError(
    "invalid",
    "The Redis URL does not start with redis://, rediss://, unix:/// or /. Write it like redis://localhost:6379.",
  );
}

function isInstance(target: RedisTarget): target is Redis {
  return typeof target === "object" && "duplicate" in target;
}

const defaultRetries = 20;

/** Options that look harmless and break a queue: found in production elsewhere, refused here by name. */
function refuseUnsafe(options: RedisOptions, role: ConnectionRole, isCopy: boolean): void {
  if (!options) {
    throw new DroverError(
      "unsupported",
      "This is no ioredis client that Drover knows. Pass a URL, options or a Redis.",
    );
  }
  const refuse = (name: string, why: string): never => {
    throw new DroverError("invalid", `Redis option "${name}" cannot be used: ${why}. Remove it.`);
  };
  if (options.keyPrefix) refuse("keyPrefix", "BullMQ's scripts do not know it; use Drover's own prefix option");
  if (options.commandTimeout) refuse("commandTimeout", "it ends the blocking reads by which a worker waits for work");
  if (options.autoResendUnfulfilledCommands === false) {
    refuse("autoResendUnfulfilledCommands", "commands on their way when a connection breaks would never end");
  }
  if (options.stringNumbers) refuse("stringNumbers", "replies would have types that are not expected");
  const retries = options.maxRetriesPerRequest;
  // An instance shows the library's default where its maker said nothing.
  const isDefault = retries === defaultRetries || retries === undefined;
  if (role === "worker" && !isDefault && typeof retries === "number") {
    refuse("maxRetriesPerRequest", `a worker must outlive an outage${isCopy ? "; make the client with null" : ""}`);
  }
}

function roleOptions(role: ConnectionRole): RedisOptions {
  const pace = createPace();
  const common: RedisOptions = {
    lazyConnect: true,
    // The shapes of replies that this code and BullMQ's reckon with.
    replyMapping: "legacy",
    // How long a closed client keeps its process up when the server does not close in turn; the library's 2 s are long.
    disconnectTimeout: 200,
    retryStrategy: pace.retryDelay,
    reconnectOnError: (error) => (pace.refused(error) ? (role === "worker" ? 2 : 1) : false),
  };
  if (role === "producer") {
    return { ...common, enableOfflineQueue: false, maxRetriesPerRequest: 1, connectTimeout: 1_500 };
  }
  const patient: RedisOptions = { ...common, enableOfflineQueue: true, maxRetriesPerRequest: null };
  return role === "subscriber" ? { ...patient, autoResubscribe: false } : patient;
}

const forgetRefusalsMs = 10_000;

/**
 * When to connect again. After a lost connection 50 ms, doubling to 2 s. A server that is reached but refuses (a demoted
 * primary, one that loads) is left sooner than it was met, so those refusals are counted and slow the next try.
 */
function createPace(): { retryDelay(times: number): number; refused(error: Error): boolean } {
  let refusals = 0;
  let refusedAt = 0;
  return {
    retryDelay(times) {
      const tries = Math.max(times, performance.now() - refusedAt < forgetRefusalsMs ? refusals : 0);
      const delay = Math.min(50 * 2 ** Math.min(tries - 1, 10), 2_000);
      return delay + Math.floor(Math.random() * 100);
    },
    refused(error) {
      const code = redisErrorCode(error);
      if (code !== "READONLY" && code !== "LOADING" && code !== "MASTERDOWN") return false;
      refusals = performance.now() - refusedAt < forgetRefusalsMs ? refusals + 1 : 1;
      refusedAt = performance.now();
      return true;
    },
  };
}

/** Where a client connects to, without user name and password. */
export function addressOf(options: RedisOptions): string {
  if (options.path) return options.path;
  if (options.sentinels?.length) return `sentinel group "${options.name}"`;
  return `${options.host ?? "localhost"}:${options.port ?? 6379}`;
}
