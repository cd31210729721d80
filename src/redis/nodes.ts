import type { Redis } from "ioredis";
import { isCluster, type RedisClient } from "./redis-target.ts";

/** A server to ask for its settings; of a cluster also by which name people know it. */
export type Server = { client: RedisClient; name?: string };

/** The one server there is, or every node of a cluster, replicas too: any of them may be a primary tomorrow. */
export function serversOf(client: RedisClient): Server[] {
  if (!isCluster(client)) return [{ client }];
  return client
    .nodes("all")
    .map((node: Redis) => ({ client: node, name: `${node.options.host}:${node.options.port}` }));
}

/**
 * Redis's time, epoch ms. Nodes of a cluster have a clock each: all processes ask the node that has this key, so that
 * a fleet goes by one.
 */
export async function readTime(client: RedisClient): Promise<number> {
  const asked = isCluster(client) ? client.eval("return redis.call('TIME')", 1, "{drover}") : client.time();
  const [seconds, micros] = (await asked) as [string | number, string | number];
  return Number(seconds) * 1_000 + Number(micros) / 1_000;
}
