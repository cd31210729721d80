import type { FleetView } from "../ports.ts";
import type { RedisConnection } from "./connection.ts";
import type { Keys } from "./keys.ts";
import { readTime, type Server, serversOf } from "./nodes.ts";
import { scoreOf } from "./read.ts";
import { isRefusal } from "./redis-error.ts";
import { isCluster, type RedisClient } from "./redis-target.ts";

/** What a command gives, undefined if the host refuses it; other failures are thrown. */
export async function unlessRefused<T>(ask: () => Promise<T>): Promise<T | undefined> {
  try {
    return await ask();
  } catch (error) {
    if (isRefusal(error)) return undefined;
    throw error;
  }
}

/** The fields of INFO; undefined when the host refuses it. */
export async function readInfo({ client }: Pick<Server, "client">): Promise<Record<string, string> | undefined> {
  const text = await unlessRefused(() => client.info("default"));
  if (text === undefined) return undefined;
  const lines = text.split("\r\n").filter((line) => line.includes(":"));
  return Object.fromEntries(lines.map((line) => [line.slice(0, line.indexOf(":")), line.slice(line.indexOf(":") + 1)]));
}

/**
 * A server's version and size as far as it tells them, its time, and how long it takes to answer. Of a cluster: the sizes
 * of its primaries together, and the version of one.
 */
export async function readServerFacts(connection: RedisConnection): Promise<Pick<FleetView, "at" | "redis">> {
  await connection.ready();
  const sentAt = performance.now();
  const at = Math.floor(await connection.use(readTime));
  const roundTripMs = performance.now() - sentAt;
  const infos = await connection.use(readInfos);
  const maxMemoryBytes = sum(infos, "maxmemory");
  const redis = {
    version: infos[0]?.redis_version,
    usedMemoryBytes: sum(infos, "used_memory"),
    ...(maxMemoryBytes ? { maxMemoryBytes } : {}),
    clients: sum(infos, "connected_clients"),
    roundTripMs,
  };
  return { at, redis };
}

/** INFO of the server, or of each primary of a cluster that answers. */
async function readInfos(client: RedisClient): Promise<Record<string, string>[]> {
  if (!isCluster(client)) return [(await readInfo({ client })) ?? {}];
  const infos = await Promise.allSettled(serversOf(client).map(readInfo));
  return infos.flatMap((info) => (info.status === "fulfilled" && info.value?.role === "master" ? [info.value] : []));
}

function sum(infos: readonly Record<string, string>[], field: string): number | undefined {
  const values = infos.map((info) => toNumber(info[field])).filter((value) => value !== undefined);
  return values.length === 0 ? undefined : values.reduce((total, value) => total + value, 0);
}

function toNumber(text: string | undefined): number | undefined {
  const value = Number(text);
  return text === undefined || !Number.isFinite(value) ? undefined : value;
}

/** Runs that have owed a step since before `now` (epoch ms), and since when the first of them has. */
export async function readOwing(
  connection: RedisConnection,
  { owing }: Pick<Keys, "owing">,
  now: number,
): Promise<FleetView["owing"]> {
  const [count, first] = await connection.use((client) =>
    Promise.all([
      client.zcount(owing, "-inf", now),
      client.zrangebyscore(owing, "-inf", now, "WITHSCORES", "LIMIT", 0, 1),
    ]),
  );
  return { count, ...(first[1] === undefined ? {} : { oldestSince: scoreOf(first[1]) }) };
}
