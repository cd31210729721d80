import { Cluster, type ClusterNode, type ClusterOptions, Redis, type RedisOptions } from "ioredis";
import { DroverError } from "../core/errors.ts";
import type { KnownSecret } from "../core/redact-words.ts";
import { type ManyHosts, splitHosts } from "../redis-url.ts";
import { hashTag } from "./keys.ts";
import { splitTls } from "./redis-tls.ts";

/** What commands are sent on: to one server, wherever it is found, or to a cluster, node by node. */
export type RedisClient = Redis | Cluster;

/** A cluster by nodes that are asked for all others, and what ioredis's `Cluster` takes. */
export type ClusterTarget = { cluster: ClusterNode[]; options?: ClusterOptions | undefined };

/**
 * Where Redis is:
 * - a URL: `redis://`, `rediss://` with files as `splitTls` says, `unix:///path` or a socket path,
 *   `redis+sentinel://h1:26379,h2:26379/<group>[/<database>]`, `redis+cluster://h1:7000,h2:7001`;
 * - options of ioredis, with `sentinels` and `name` for a group that sentinels watch, or `{ cluster: [...] }`;
 * - an ioredis `Redis` or `Cluster`, which is copied.
 */
export type RedisTarget = string | RedisOptions | ClusterTarget | RedisClient;

export function isInstance(target: RedisTarget): target is RedisClient {
  return typeof target === "object" && "duplicate" in target;
}

export function isCluster(client: RedisClient): client is Cluster {
  return client.isCluster;
}

/** The connection that a client has now; undefined for a cluster, whose nodes have one each. */
export function streamOf(client: RedisClient): unknown {
  return "stream" in client ? client.stream : undefined;
}

/**
 * A client that never connects, only to have its options parsed by the library.
 *
 * @throws DroverError "invalid" for what is no target, naming the part that is wrong.
 */
export function toClient(target: RedisTarget): RedisClient {
  if (typeof target === "string") return fromUrl(target);
  if (isInstance(target)) return target;
  if ("cluster" in target) {
    if (!Array.isArray(target.cluster) || target.cluster.length === 0) {
      throw new DroverError("invalid", "redis.cluster: expected a list of at least one node, { host, port } or a URL.");
    }
    const { options = {} } = target;
    return new Cluster(target.cluster, {
      ...options,
      redisOptions: { ...options.redisOptions, replyMapping: "legacy" },
      lazyConnect: true,
    });
  }
  if (target.sentinels?.length && !target.name) {
    throw new DroverError(
      "invalid",
      "redis.name: expected the name of the group that the sentinels watch, received none.",
    );
  }
  return new Redis({ ...target, lazyConnect: true, replyMapping: "legacy" });
}

/**
 * All keys of one script must lie in one slot of a cluster.
 *
 * @throws DroverError "invalid" for a cluster and a prefix without a hash tag.
 */
export function refuseUntagged(target: RedisTarget, prefix: string): void {
  if (hashTag(prefix) !== undefined || !isCluster(toClient(target))) return;
  throw new DroverError(
    "invalid",
    `prefix: "${prefix}" has no hash tag, which a cluster needs to keep the keys of a run together. Write it as "{${prefix}}" (DROVER_PREFIX).`,
  );
}

function fromUrl(text: string): RedisClient {
  if (text.startsWith("/")) return new Redis({ path: text, lazyConnect: true });
  const many = splitHosts(text);
  if (many) return many.kind === "cluster" ? fromClusterUrl(many) : fromSentinelUrl(many);
  const url = URL.parse(text);
  if (url?.protocol === "unix:") return new Redis({ path: decodeURIComponent(url.pathname), lazyConnect: true });
  if (url?.protocol === "redis:" || url?.protocol === "rediss:") {
    const { url: address, tls } = splitTls(url);
    return new Redis(address, { lazyConnect: true, ...(tls ? { tls } : {}) });
  }
  throw new DroverError(
    "invalid",
    "The Redis URL is none that Drover knows. Write it like redis://localhost:6379, rediss://HOST:6380, " +
      "unix:///PATH, redis+sentinel://HOST:26379,HOST:26379/GROUP or redis+cluster://HOST:7000,HOST:7001.",
  );
}

function fromClusterUrl(many: ManyHosts): Cluster {
  const { user, tls } = readCommon(many, []);
  if (many.url.pathname.length > 1) {
    throw new DroverError("invalid", "The Redis URL names a database, but a cluster has only one. Remove its path.");
  }
  return new Cluster(many.hosts, { lazyConnect: true, redisOptions: { ...user, ...(tls ? { tls } : {}) } });
}

const sentinelParameters = ["sentinelUsername", "sentinelPassword"] as const;

function fromSentinelUrl(many: ManyHosts): Redis {
  const { user, tls, url } = readCommon(many, sentinelParameters);
  const [name, database = "0", ...rest] = url.pathname.slice(1).split("/").map(decodeURIComponent);
  if (!name || !/^\d{1,5}$/.test(database) || rest.length > 0) {
    throw new DroverError(
      "invalid",
      "The Redis URL does not say which group the sentinels watch. Write it like redis+sentinel://HOST:26379,HOST:26379/GROUP, " +
        "with /DATABASE after it for another than 0.",
    );
  }
  const given = sentinelParameters.flatMap((parameter) => {
    const value = url.searchParams.get(parameter);
    return value === null ? [] : [[parameter, value] as const];
  });
  return new Redis({
    lazyConnect: true,
    sentinels: many.hosts,
    name,
    db: Number(database),
    ...user,
    ...Object.fromEntries(given),
    ...(tls ? { tls, enableTLSForSentinelMode: true, sentinelTLS: tls } : {}),
  });
}

/** User, password and TLS, as of any URL. */
function readCommon(
  { url: given, kind }: ManyHosts,
  parameters: readonly string[],
): { url: URL; user: Pick<RedisOptions, "username" | "password">; tls?: object } {
  const { url: text, tls } = splitTls(given);
  const url = new URL(text);
  const unknown = [...url.searchParams.keys()].find((name) => !parameters.includes(name));
  if (unknown !== undefined) {
    const known = [...parameters, "ca", "cert", "key", "servername"].join(", ");
    throw new DroverError(
      "invalid",
      `The Redis URL has "${unknown}", which a ${kind} URL does not take (${known}). Remove it, or pass options.`,
    );
  }
  const user = {
    ...(url.username ? { username: decodeURIComponent(url.username) } : {}),
    ...(url.password ? { password: decodeURIComponent(url.password) } : {}),
  };
  const secure = url.protocol === "rediss:";
  return { url, user, ...(secure ? { tls: tls ?? {} } : {}) };
}

/** The passwords that Redis and its sentinels are called with, which must not be shown; as written in a URL and as meant. */
export function redisSecrets(target: RedisTarget): KnownSecret[] {
  const url = typeof target === "string" ? (splitHosts(target)?.url ?? URL.parse(target)) : undefined;
  const client = toClient(target);
  const values = [url?.password, ...(isCluster(client) ? passwordsOfCluster(client) : passwordsOf(client.options))];
  return values.flatMap((value) => (value ? [{ kind: "password", value }] : []));
}

/** What is no client of ioredis is refused later, with more words. */
function passwordsOf(options: RedisOptions | undefined): (string | undefined)[] {
  return [options?.password, options?.sentinelPassword];
}

/** Of all nodes, and of those that have their own. */
function passwordsOfCluster(client: Cluster): (string | undefined)[] {
  const nodes = startupNodesOf(client).map((node) => {
    if (typeof node === "string") return URL.parse(node)?.password;
    return typeof node === "object" && "password" in node ? String(node.password) : undefined;
  });
  return [client.options?.redisOptions?.password, ...nodes];
}

/** The library keeps them to itself. */
function startupNodesOf(client: Cluster): ClusterNode[] {
  return (client as unknown as { startupNodes?: ClusterNode[] }).startupNodes ?? [];
}

/** Where a client connects to, without user name and password. */
export function addressOf(client: RedisClient): string {
  if (isCluster(client)) {
    return `cluster ${nodesOf(client)
      .map(({ host, port }) => `${host}:${port}`)
      .join(",")}`;
  }
  const { options } = client;
  if (options.path) return options.path;
  if (options.sentinels?.length) return `sentinel group "${options.name}"`;
  return `${options.host ?? "localhost"}:${options.port ?? 6379}`;
}

/** The nodes that a cluster's client asks for all others. */
export function nodesOf(client: Cluster): { host: string; port: number }[] {
  return startupNodesOf(client).map((node) => {
    if (typeof node === "number") return { host: "127.0.0.1", port: node };
    if (typeof node === "object") return { host: node.host ?? "127.0.0.1", port: Number(node.port ?? 6379) };
    const url = URL.parse(node.includes("://") ? node : `redis://${node}`);
    return { host: url?.hostname || "127.0.0.1", port: Number(url?.port || 6379) };
  });
}
