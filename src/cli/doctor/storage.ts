import { agesOf, endedStatuses, type Retention } from "../../core/retention.ts";
import { defaultMemoryLimitPercent, refusesFromBytes } from "../../core/room.ts";
import type { RedisConnection } from "../../redis/connection.ts";
import { createKeys } from "../../redis/keys.ts";
import { scoreOf } from "../../redis/read.ts";
import { toBytes, toDuration } from "../format/text.ts";
import type { Diagnosis } from "./diagnosis.ts";

/** What the settings say of room and age. */
export type StorageSettings = { memoryLimitPercent: number; retention: Retention };

export const defaultStorage: StorageSettings = { memoryLimitPercent: defaultMemoryLimitPercent, retention: {} };

/** From this share of what is allowed on, something is to be done. */
const fullShare = 0.8;

/** Memory that Redis uses of what it may, and from where on it takes no new runs. */
export function judgeMemory(used: number, max: number, limitPercent: number): Diagnosis {
  const check = "memory";
  if (max === 0) {
    const detail = `${toBytes(used)} used, no limit set: with a maxmemory new runs are refused before it is full`;
    return { check, state: "ok", detail };
  }
  const refusesFrom = refusesFromBytes(max, limitPercent);
  const detail = `${toBytes(used)} of ${toBytes(max)} used`;
  if (used >= refusesFrom) {
    const what = `from ${limitPercent} % on new runs are refused: raise maxmemory, shorten DROVER_RETENTION_MS, or delete old runs (drover delete ID)`;
    return { check, state: "error", detail: `${detail}; ${what}` };
  }
  const room = `${toBytes(refusesFrom - used)} left for new runs`;
  if (used / max <= fullShare) return { check, state: "ok", detail: `${detail}, ${room}` };
  const what = "raise maxmemory, shorten DROVER_RETENTION_MS, or delete old runs (drover delete ID)";
  return { check, state: "warning", detail: `${detail}, ${room}: ${what}` };
}

/** How long ended runs are kept by these settings, and how old the oldest of them is. */
export async function examineRetention(
  connection: RedisConnection,
  prefixes: readonly string[],
  retention: Retention,
): Promise<Diagnosis> {
  const [seconds = 0] = await connection.use((client) => client.time());
  const keys = prefixes.flatMap((prefix) => endedStatuses.map((status) => createKeys(prefix).ended(status)));
  const firsts = await connection.use((client) =>
    Promise.all(keys.map((key) => client.zrange(key, "0", "0", "WITHSCORES"))),
  );
  const ends = firsts.flatMap(([, at]) => (at === undefined ? [] : [scoreOf(at)]));
  return judgeRetention(retention, ends.length === 0 ? undefined : Number(seconds) * 1_000 - Math.min(...ends));
}

/** @param oldestMs how long ago the run that is kept longest ended; undefined: none is kept. */
export function judgeRetention(retention: Retention, oldestMs: number | undefined): Diagnosis {
  const check = "retention";
  const ages = agesOf(retention);
  const oldest = oldestMs === undefined ? "none is kept" : `the oldest ended ${toDuration(Math.max(0, oldestMs))} ago`;
  if (ages.length === 0) {
    const detail = `ended runs are kept until somebody deletes them, ${oldest}; DROVER_RETENTION_MS has workers remove them`;
    return { check, state: "ok", detail };
  }
  const words = ages.map(([status, ms]) => `${status} ${toDuration(ms)}`).join(", ");
  const longest = Math.max(...ages.map(([, ms]) => ms));
  const isAll = ages.length === endedStatuses.length;
  const detail = `ended runs are kept: ${words}${isAll ? "" : ", others for ever"}; ${oldest}`;
  if (!isAll || oldestMs === undefined || oldestMs <= longest + lateMs) return { check, state: "ok", detail };
  return { check, state: "warning", detail: `${detail}: do workers run, with the same DROVER_RETENTION_MS?` };
}

/** A worker looks every few seconds; after a first start with a retention there may be many to remove. */
const lateMs = 600_000;
