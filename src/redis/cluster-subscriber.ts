import { type Cluster, Redis, type RedisOptions } from "ioredis";
import { nodesOf } from "./redis-target.ts";

type Address = { host: string; port: number };

/**
 * A client for subscriptions to one node of a cluster, and to the next one when that is lost. The library's own way
 * changes nodes without telling, so nobody would know that announcements were missed; this one is `ready` anew each time.
 */
export function makeClusterSubscriber(given: Cluster, options: RedisOptions): Redis {
  let nodes: Address[] = nodesOf(given);
  let at = Math.floor(Math.random() * nodes.length);
  const next = (): Address | undefined => {
    at += 1;
    return nodes[at % nodes.length];
  };
  const client: Redis = new Redis({
    ...options,
    ...next(),
    lazyConnect: true,
    // A machine that is gone refuses nothing: the next node is tried soon.
    connectTimeout: 2_000,
    replyMapping: "legacy",
    retryStrategy: (times: number) => {
      Object.assign(client.options, next());
      return options.retryStrategy?.(times);
    },
  });
  client.on("ready", () => {
    client.cluster("SLOTS").then(
      (slots) => {
        const found = toAddresses(slots, given.options.natMap);
        if (found.length > 0) nodes = found;
      },
      () => {}, // The nodes that were known stay.
    );
  });
  return client;
}

/** The nodes in an answer to CLUSTER SLOTS: ranges, each with its primary and replicas as `[host, port, ...]`. */
function toAddresses(slots: unknown, natMap: Cluster["options"]["natMap"]): Address[] {
  const ranges = (Array.isArray(slots) ? slots : []) as [number, number, ...[string | null, number][]][];
  const found = new Map<string, Address>();
  for (const [, , ...members] of ranges) {
    for (const [host, port] of members) {
      // A node that does not know its own address tells none, or "?".
      if (!host || host === "?") continue;
      const key = `${host}:${port}`;
      const mapped = typeof natMap === "function" ? natMap(key) : natMap?.[key];
      found.set(key, mapped ?? { host, port: Number(port) });
    }
  }
  return [...found.values()];
}
