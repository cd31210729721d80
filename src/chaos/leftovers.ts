import { setTimeout as sleep } from "node:timers/promises";
import type { Backend } from "../backend.ts";
import { DroverError, isOutage } from "../core/errors.ts";
import type { ChaosRedis } from "./redis-server.ts";

/** What lies in Redis under a prefix that belongs to a run: steps of queues, and records with their bytes. */
export type Leftover = { steps: string[]; keys: string[]; bytes: number };

const stepKey = /:q:[^:]+:\d+-\d+-/;
/**
 * Keys of one run, and a session's line and inputs. What the whole installation has (lists, limits, streams) is bounded,
 * and a session's transcript stays until it is deleted itself.
 */
const runKey = /:r:.*(?:chaos-\d+|talk-\d+(?!.*:messages$))/;

type Asked = Pick<ChaosRedis, "call">;

export async function leftoversOf(redis: Asked, prefix: string): Promise<Leftover> {
  const found = await keysOf(redis, prefix);
  const steps = found.filter((key) => stepKey.test(key));
  return weighed(
    redis,
    steps,
    found.filter((key) => stepKey.test(key) || runKey.test(key)),
  );
}

/** The same once every run was deleted: then no list, count or other key of the installation names one any more. */
export async function remainsOf(redis: Asked, prefix: string): Promise<Leftover> {
  const { steps, keys } = await leftoversOf(redis, prefix);
  const isKnown = (key: string): boolean => keys.includes(key) || transcriptKey.test(key);
  const naming: string[] = [];
  for (const key of await keysOf(redis, prefix)) if (!isKnown(key) && (await namesRun(redis, key))) naming.push(key);
  return weighed(redis, steps, [...keys, ...naming]);
}

const named = /chaos-\d/;
/** A session's transcript stays until that is deleted itself. */
const transcriptKey = /:r:session:.*:messages$/;
/** How all of a key is read, by its type; event streams tell what was, and are bounded. */
const readers: Record<string, readonly [command: string, ...range: number[]]> = {
  hash: ["HGETALL"],
  list: ["LRANGE", 0, -1],
  set: ["SMEMBERS"],
  zset: ["ZRANGE", 0, -1],
};

async function namesRun(redis: Asked, key: string): Promise<boolean> {
  const [command, ...range] = readers[String(await redis.call("TYPE", key))] ?? [];
  return command !== undefined && named.test(JSON.stringify(await redis.call(command, key, ...range)));
}

async function keysOf(redis: Asked, prefix: string): Promise<string[]> {
  // A key may be told of twice.
  const keys = new Set<string>();
  let cursor = "0";
  do {
    const page = (await redis.call("SCAN", cursor, "MATCH", `${prefix}*`, "COUNT", 1_000)) as [string, string[]];
    cursor = page[0];
    for (const key of page[1]) keys.add(key);
  } while (cursor !== "0");
  return [...keys];
}

async function weighed(redis: Asked, steps: string[], keys: string[]): Promise<Leftover> {
  let bytes = 0;
  for (const key of keys) bytes += Number((await redis.call("MEMORY", "USAGE", key)) ?? 0);
  return { steps, keys, bytes };
}

/** Deletes every run, each once those that it has to tell of its end were told. */
export async function removeRuns({ engine }: Pick<Backend, "engine">): Promise<void> {
  const until = performance.now() + 60_000;
  while (performance.now() < until) {
    const { runs } = await engine.client.list({ limit: 500 });
    if (runs.length === 0) return;
    for (const { runId } of runs) await removeRun(engine, runId);
    await sleep(10);
  }
}

async function removeRun({ client }: Backend["engine"], runId: string): Promise<void> {
  try {
    await client.delete(runId);
  } catch (error) {
    if (isOutage(error)) return;
    if (error instanceof DroverError && (error.code === "not_allowed" || error.code === "not_found")) return;
    throw error;
  }
}
