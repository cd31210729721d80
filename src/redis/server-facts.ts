import type { FleetView } from "../ports.ts";
import type { RedisConnection } from "./connection.ts";
import type { Keys } from "./keys.ts";
import { unwrap } from "./read.ts";
import { isRefusal } from "./redis-error.ts";

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
export async function readInfo({ client }: RedisConnection): Promise<Record<string, string> | undefined> {
  const text = await unlessRefused(() => client.info("default"));
  if (text === undefined) return undefined;
  const lines = text.split("\r\n").filter((line) => line.includes(":"));
  return Object.fromEntries(lines.map((line) => [line.slice(0, line.indexOf(":")), line.slice(line.indexOf(":") + 1)]));
}

/** A server's version and size as far as it tells them, its time, and how long it takes to answer. */
export async function readServerFacts(connection: RedisConnection): Promise<Pick<FleetView, "at" | "redis">> {
  await connection.ready();
  const sentAt = performance.now();
  const [seconds, micros] = (await connection.use((client) => client.time())) as unknown as [string, string];
  const roundTripMs = performance.now() - sentAt;
  const at = Number(seconds) * 1_000 + Math.floor(Number(micros) / 1_000);
  const info = (await connection.use(() => readInfo(connection))) ?? {};
  const maxMemoryBytes = toNumber(info.maxmemory);
  const redis = {
    version: info.redis_version,
    usedMemoryBytes: toNumber(info.used_memory),
    ...(maxMemoryBytes ? { maxMemoryBytes } : {}),
    clients: toNumber(info.connected_clients),
    roundTripMs,
  };
  return { at, redis };
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
  const [count, first] = await connection.use(async (client) => {
    const transaction = client.multi().zcount(owing, "-inf", now);
    const replies = await transaction.zrangebyscore(owing, "-inf", now, "WITHSCORES", "LIMIT", 0, 1).exec();
    return (replies ?? []).map(unwrap) as [number, string[]];
  });
  return { count, ...(first[1] === undefined ? {} : { oldestSince: Number(first[1]) }) };
}
