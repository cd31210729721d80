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

export async function leftoversOf(redis: ChaosRedis, prefix: string): Promise<Leftover> {
  const steps: string[] = [];
  const keys: string[] = [];
  let bytes = 0;
  let cursor = "0";
  do {
    const page = (await redis.call("SCAN", cursor, "MATCH", `${prefix}*`, "COUNT", 1_000)) as [string, string[]];
    cursor = page[0];
    for (const key of page[1]) {
      if (stepKey.test(key)) steps.push(key);
      if (!stepKey.test(key) && !runKey.test(key)) continue;
      keys.push(key);
      bytes += Number((await redis.call("MEMORY", "USAGE", key)) ?? 0);
    }
  } while (cursor !== "0");
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
