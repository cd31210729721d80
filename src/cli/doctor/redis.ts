import { checkRedis } from "../../redis/check.ts";
import { connect, type RedisConnection } from "../../redis/connection.ts";
import { createKeys, type Keys } from "../../redis/keys.ts";
import { readInfo } from "../../redis/server-facts.ts";
import { shardPrefixes } from "../../sharding/slots.ts";
import { createSilentLogger } from "../../telemetry/logger.ts";
import { toStatement } from "../errors.ts";
import { count, toDuration } from "../format/text.ts";
import type { Diagnosis } from "./diagnosis.ts";
import { defaultStorage, examineRetention, judgeMemory, type StorageSettings } from "./storage.ts";

/** Looks at a Redis server: reachable, fit, room left, connections left, runs that nobody works on. Never rejects. */
export async function examineRedis(
  url: string,
  prefix: string,
  shards = 1,
  storage: StorageSettings = defaultStorage,
): Promise<Diagnosis[]> {
  try {
    const connection = connect(url, { role: "producer", logger: createSilentLogger(), name: "drover-doctor" });
    try {
      return await examine(connection, shardPrefixes(prefix, shards), prefix, storage);
    } finally {
      await connection.close();
    }
  } catch (error) {
    return [{ check: "redis", state: "error", detail: toStatement(error) }];
  }
}

async function examine(
  connection: RedisConnection,
  prefixes: string[],
  prefix: string,
  { memoryLimitPercent, retention }: StorageSettings,
): Promise<Diagnosis[]> {
  await connection.ready();
  const found = await checkRedis(connection, { prefix });
  const findings = found.map(({ severity, setting, message }) => ({
    check: setting,
    state: severity,
    detail: message,
  }));
  const info = await readInfo(connection);
  const fit = Object.entries(fitWords)
    .filter(([setting]) => !found.some((finding) => finding.setting === setting))
    .map(([check, detail]): Diagnosis => ({ check, state: "ok", detail }));
  return [
    await examineAnswers(connection),
    ...findings,
    ...fit,
    ...(info === undefined ? [untold] : judgeInfo(info, memoryLimitPercent)),
    await examineRetention(connection, prefixes, retention),
    await examineOwing(connection, prefixes),
  ];
}

const fitWords: Record<string, string> = {
  version: "new enough",
  "maxmemory-policy": "nothing is evicted",
  appendonly: "runs survive a restart",
  clock: "agrees with this machine's",
};

/** A step makes about three round trips. */
const slowMs = 10;
const pings = 5;

async function examineAnswers(connection: RedisConnection): Promise<Diagnosis> {
  let bestMs = Number.POSITIVE_INFINITY;
  for (let ping = 0; ping < pings; ping++) {
    const sentAt = performance.now();
    await connection.use((client) => client.ping());
    bestMs = Math.min(bestMs, performance.now() - sentAt);
  }
  const detail = `answers at ${connection.address} in ${bestMs.toFixed(1)} ms`;
  if (bestMs <= slowMs) return { check: "redis", state: "ok", detail };
  return {
    check: "redis",
    state: "warning",
    detail: `${detail}: every step waits for it several times; run workers near it`,
  };
}

const untold: Diagnosis = {
  check: "memory",
  state: "warning",
  detail: "this host does not tell (INFO): watch memory and connections where it is run",
};

/** What INFO says of memory and connections. */
export function judgeInfo(
  info: Record<string, string>,
  memoryLimitPercent: number = defaultStorage.memoryLimitPercent,
): Diagnosis[] {
  const read = (name: string): number => Number(info[name] ?? 0);
  return [
    judgeMemory(read("used_memory"), read("maxmemory"), memoryLimitPercent),
    ...judgeFragmentation(read("used_memory"), Number(info.mem_fragmentation_ratio ?? 1)),
    ...judgeConnections(read("connected_clients"), read("maxclients")),
  ];
}

const fullShare = 0.8;

/** Below this the ratio says nothing: the server's own code weighs more than what it holds. */
const toldFromBytes = 64 * 1_048_576;
const mostFragmented = 1.5;

function judgeFragmentation(used: number, ratio: number): Diagnosis[] {
  const check = "fragmentation";
  if (used < toldFromBytes) return [];
  const detail = `Redis takes ${ratio.toFixed(2)} times the memory of what it holds`;
  if (ratio > mostFragmented) {
    return [{ check, state: "warning", detail: `${detail}: set activedefrag to yes, or restart it at a quiet time` }];
  }
  if (ratio < 0.95) {
    return [{ check, state: "warning", detail: `${detail}: the rest is swapped out; give its machine more memory` }];
  }
  return [{ check, state: "ok", detail }];
}

/** A worker process has a handful of them. */
function judgeConnections(clients: number, most: number): Diagnosis[] {
  const check = "connections";
  if (most === 0) return [{ check, state: "ok", detail: `${clients} open` }];
  const detail = `${clients} of ${most} open`;
  if (clients / most <= fullShare) return [{ check, state: "ok", detail }];
  return [
    { check, state: "warning", detail: `${detail}: raise maxclients, or run fewer processes with more concurrency` },
  ];
}

const longMs = 60_000;

/** Runs that have owed something for long. A sweeper of any worker queues it again within a minute. */
async function examineOwing(connection: RedisConnection, prefixes: readonly string[]): Promise<Diagnosis> {
  const [seconds = 0] = await connection.use((client) => client.time());
  const before = Number(seconds) * 1000 - longMs;
  const all = await Promise.all(prefixes.map((prefix) => countOwing(connection, createKeys(prefix), before)));
  const stuck = all.reduce((sum, { count: own }) => sum + own, 0);
  if (stuck === 0) return { check: "runs", state: "ok", detail: `none has owed a step for over ${toDuration(longMs)}` };
  const oldest = all.flatMap(({ first }) => first).slice(0, 3);
  const detail = `${count(stuck, "run")} owed a step for over ${toDuration(longMs)} (${oldest.join(", ")}): is a worker with that agent running? "drover show ID" tells what a run waits for`;
  return { check: "runs", state: "warning", detail };
}

/** How many runs of one shard have owed something since before `before` (epoch ms), and the first three of them. */
async function countOwing(
  connection: RedisConnection,
  { owing }: Keys,
  before: number,
): Promise<{ count: number; first: string[] }> {
  const own = await connection.use((client) => client.zcount(owing, "-inf", before));
  const first = await connection.use((client) => client.zrangebyscore(owing, "-inf", before, "LIMIT", 0, 3));
  return { count: own, first };
}
