import type { Cluster, ClusterOptions, Redis, RedisOptions } from "ioredis";
import { DroverError } from "../core/errors.ts";
import { batchWrites } from "./batch-writes.ts";
import { makeClusterSubscriber } from "./cluster-subscriber.ts";
import { tolerateHiddenInfo } from "./hidden-info.ts";
import { redisErrorCode } from "./redis-error.ts";
import { isCluster, isInstance, type RedisClient, type RedisTarget, toClient } from "./redis-target.ts";
import { refuseOversize, sendScriptsLean } from "./script-commands.ts";

/**
 * What a connection is for.
 * - `producer`: fails at once when Redis is away, so that a caller never hangs;
 * - `worker`: waits for Redis as long as it takes;
 * - `subscriber`: waits too, and is used for nothing but subscriptions.
 */
export type ConnectionRole = "producer" | "worker" | "subscriber";

/**
 * The options of a connection of that role, as tests look at them; of a cluster, those of its nodes.
 *
 * @throws DroverError `invalid` for an option that cannot work, naming it.
 */
export function toRedisOptions(target: RedisTarget, role: ConnectionRole): RedisOptions {
  const probe = makeClient(target, role, undefined, false);
  probe.disconnect();
  return isCluster(probe) ? (probe.options.redisOptions ?? {}) : probe.options;
}

/**
 * A client with the role's options. It connects by itself; its rejections and errors are the caller's to hear. A
 * subscriber of a cluster goes to one node at a time, since what is published anywhere is heard on every node.
 */
export function makeClient(target: RedisTarget, role: ConnectionRole, name?: string, start = true): RedisClient {
  const given = toClient(target);
  refuseUnsafe(given, role, isInstance(target));
  if (role === "worker" && saysRetries(target)) refuseRetries(false);
  const canFailOver = isCluster(given) || Boolean(given.options.sentinels?.length);
  const ours = {
    ...roleOptions(role, canFailOver ? longestPauseOfMany : longestPauseMs[role]),
    ...(name ? { connectionName: name } : {}),
  };
  const client = isCluster(given) ? makeForCluster(given, role, ours) : makeForServer(given, ours);
  if (role === "subscriber" && canFailOver) keepAsking(client);
  if (start) client.connect().catch(() => {}); // The error event tells it too, and every later try.
  return client;
}

/** A server that was lost without a word (its machine is gone) is left after this time; longer than any blocking read. */
const silenceMs = 15_000;

const askEveryMs = 5_000;

/** Whoever only listens would not hear that there is nobody any more: a server that does not answer is left as above. */
function keepAsking(client: RedisClient): void {
  const timer = setInterval(() => {
    if (client.status === "ready") client.ping().catch(() => {});
  }, askEveryMs);
  timer.unref();
  client.once("end", () => clearInterval(timer));
}

function makeForServer(given: Redis, ours: RedisOptions): Redis {
  const client = given.duplicate({ ...ours, ...(given.options.sentinels?.length ? failoverOptions(given, ours) : {}) });
  batchWrites(client);
  sendScriptsLean(client);
  tolerateHiddenInfo(client);
  return client;
}

/** There is another server to go to, and another sentinel to ask. A single server that is silent is waited for. */
function failoverOptions({ options }: Redis, ours: RedisOptions): RedisOptions {
  const { sentinelCommandTimeout = 1_000, connectTimeout } = { ...options, ...ours };
  const isDefault = connectTimeout === undefined || connectTimeout === 10_000;
  return { socketTimeout: silenceMs, sentinelCommandTimeout, ...(isDefault ? { connectTimeout: 2_000 } : {}) };
}

function makeForCluster(given: Cluster, role: ConnectionRole, ours: RedisOptions): RedisClient {
  const { retryStrategy, enableOfflineQueue, ...forNodes } = ours;
  const redisOptions = { ...given.options.redisOptions, ...forNodes, socketTimeout: silenceMs };
  if (role === "subscriber") return makeClusterSubscriber(given, { ...ours, ...redisOptions });
  const client: Cluster = given.duplicate([], {
    ...clusterOptions(role),
    enableOfflineQueue,
    clusterRetryStrategy: retryStrategy,
    redisOptions: {
      ...redisOptions,
      replyMapping: "legacy",
      reconnectOnError: (error: Error) => {
        // The library tries such a command again without a word.
        if (redisErrorCode(error) === "CLUSTERDOWN") client.emit("node error", error, "");
        return ours.reconnectOnError?.(error) ?? false;
      },
    },
  });
  sendScriptsLean(client);
  tolerateHiddenInfo(client);
  client.on("+node", (node: Redis) => {
    batchWrites(node);
    refuseOversize(node);
    tolerateHiddenInfo(node);
    // A producer refuses what comes while a node's connection is being made, so it is made at once.
    if (role === "producer" && node.status === "wait" && !node.options.readOnly) node.connect().catch(() => {});
  });
  return client;
}

/** How a command finds its node. A worker's goes on as long as it takes; a producer's gives up before two seconds are over. */
function clusterOptions(role: ConnectionRole): Omit<ClusterOptions, "redisOptions"> {
  return {
    lazyConnect: true,
    scaleReads: "master",
    maxRedirections: role === "producer" ? 10 : Number.MAX_SAFE_INTEGER,
    retryDelayOnFailover: 100,
    retryDelayOnClusterDown: 100,
    retryDelayOnTryAgain: 100,
    // Two nodes that send a command to each other, in the middle of a failover, are not asked without end and pause.
    retryDelayOnMoved: 10,
    slotsRefreshTimeout: 1_000,
    slotsRefreshInterval: 5_000,
  };
}

const defaultRetries = 20;

/** Whether somebody wrote down how often to retry, be it the library's own number. */
function saysRetries(target: RedisTarget): boolean {
  if (typeof target === "string") return /[?&]maxRetriesPerRequest=\d/.test(target);
  if (isInstance(target)) return false;
  const options = "cluster" in target ? target.options?.redisOptions : target;
  return typeof options?.maxRetriesPerRequest === "number";
}

function refuseRetries(isCopy: boolean): never {
  refuse("maxRetriesPerRequest", `a worker must outlive an outage${isCopy ? "; make the client with null" : ""}`);
}

/** Options that look harmless and break a queue: found in production elsewhere, refused here by name. */
function refuseUnsafe(given: RedisClient, role: ConnectionRole, isCopy: boolean): void {
  if (!given.options) {
    throw new DroverError(
      "unsupported",
      "This is no ioredis client that Drover knows. Pass a URL, options, a Redis or a Cluster.",
    );
  }
  if (isCluster(given)) {
    const { keyPrefix, scaleReads, redisOptions = {} } = given.options;
    if (scaleReads !== undefined && scaleReads !== "master") {
      refuse("scaleReads", "a replica may be behind, and what is decided by its answers would be wrong");
    }
    return refuseUnsafeOptions({ ...redisOptions, ...(keyPrefix ? { keyPrefix } : {}) }, role, isCopy);
  }
  if (given.options.role === "slave") refuse("role", "a replica takes no writes");
  refuseUnsafeOptions(given.options, role, isCopy);
}

function refuse(name: string, why: string): never {
  throw new DroverError("invalid", `Redis option "${name}" cannot be used: ${why}. Remove it.`);
}

function refuseUnsafeOptions(options: RedisOptions, role: ConnectionRole, isCopy: boolean): void {
  if (options.keyPrefix) refuse("keyPrefix", "BullMQ's scripts do not know it; use Drover's own prefix option");
  if (options.commandTimeout) refuse("commandTimeout", "it ends the blocking reads by which a worker waits for work");
  if (options.socketTimeout !== undefined && options.socketTimeout < silenceMs) {
    refuse("socketTimeout", `below ${silenceMs} ms it ends the blocking reads by which a worker waits for work`);
  }
  if (options.autoResendUnfulfilledCommands === false) {
    refuse("autoResendUnfulfilledCommands", "commands on their way when a connection breaks would never end");
  }
  if (options.stringNumbers) refuse("stringNumbers", "replies would have types that are not expected");
  const retries = options.maxRetriesPerRequest;
  // An instance shows the library's default where its maker said nothing.
  const isDefault = retries === defaultRetries || retries === undefined;
  if (role === "worker" && !isDefault && typeof retries === "number") {
    refuseRetries(isCopy);
  }
}

function roleOptions(role: ConnectionRole, pauseMs: number): RedisOptions {
  const pace = createPace(pauseMs);
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
/** Shorter than `ready` waits: whoever asks once Redis is back must not be told that it is away, for want of a try. */
const longestPauseMs: Record<ConnectionRole, number> = { worker: 2_000, producer: 1_000, subscriber: 1_000 };
/** Where another server takes over within seconds, it is looked for more often. */
const longestPauseOfMany = 500;

/**
 * When to connect again. After a lost connection 50 ms, doubling to `longestMs`. A server that is reached but refuses (a demoted
 * primary, one that loads) is left sooner than it was met, so those refusals are counted and slow the next try.
 */
function createPace(longestMs: number): { retryDelay(times: number): number; refused(error: Error): boolean } {
  let refusals = 0;
  let refusedAt = 0;
  return {
    retryDelay(times) {
      const tries = Math.max(times, performance.now() - refusedAt < forgetRefusalsMs ? refusals : 0);
      const delay = Math.min(50 * 2 ** Math.min(tries - 1, 10), longestMs);
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
