import { readQueueDepths } from "../bullmq/queue-depths.ts";
import type { Config } from "../config.ts";
import { toError } from "../core/errors.ts";
import { checkRedis } from "../redis/check.ts";
import { connect, type RedisConnection } from "../redis/connection.ts";
import { createKeys } from "../redis/keys.ts";
import { createSilentLogger } from "../telemetry/logger.ts";
import { toStatement } from "./errors.ts";
import { count, toBytes, toDuration } from "./format/text.ts";

/** One thing the doctor looked at. `detail` says what was found and, unless it is ok, what to do. */
export type Diagnosis = { check: string; state: "ok" | "warning" | "error"; detail: string };

/** Looks at Redis and what lies in it: reachable, fit, room left, queues, runs that nobody works on. Never rejects. */
export async function examineRedis(url: string, prefix: string): Promise<Diagnosis[]> {
  try {
    const connection = connect(url, { role: "producer", logger: createSilentLogger(), name: "drover-doctor" });
    try {
      return await examine(connection, prefix);
    } finally {
      await connection.close();
    }
  } catch (error) {
    return [{ check: "redis", state: "error", detail: toStatement(error) }];
  }
}

async function examine(connection: RedisConnection, prefix: string): Promise<Diagnosis[]> {
  await connection.ready();
  const found = await checkRedis(connection, { prefix });
  const findings = found.map(({ severity, setting, message }) => ({
    check: setting,
    state: severity,
    detail: message,
  }));
  const fit = ["version", "maxmemory-policy", "appendonly", "clock"]
    .filter((setting) => !found.some((finding) => finding.setting === setting))
    .map((setting): Diagnosis => ({ check: setting, state: "ok", detail: fitWords[setting] ?? "" }));
  return [
    { check: "redis", state: "ok", detail: `answers at ${connection.address}` },
    ...findings,
    ...fit,
    await examineMemory(connection),
    ...(await examineQueues(connection, prefix)),
    await examineOwing(connection, prefix),
  ];
}

const fitWords: Record<string, string> = {
  version: "new enough",
  "maxmemory-policy": "nothing is evicted",
  appendonly: "runs survive a restart",
  clock: "agrees with this machine's",
};

const fullShare = 0.8;

async function examineMemory(connection: RedisConnection): Promise<Diagnosis> {
  const info = await connection.use((client) => client.info("memory")).catch(() => "");
  const used = Number(/^used_memory:(\d+)/m.exec(info)?.[1] ?? 0);
  const max = Number(/^maxmemory:(\d+)/m.exec(info)?.[1] ?? 0);
  if (max === 0) return { check: "memory", state: "ok", detail: `${toBytes(used)} used, no limit set` };
  const full = used / max > fullShare;
  const detail = `${toBytes(used)} of ${toBytes(max)} used${full ? ": raise maxmemory, or delete old runs" : ""}`;
  return { check: "memory", state: full ? "warning" : "ok", detail };
}

/** Depths of the queues, those that tools named included, and whether there is a worker for what waits in them. */
async function examineQueues(connection: RedisConnection, prefix: string): Promise<Diagnosis[]> {
  const depths = await readQueueDepths(connection, prefix);
  const queues = depths.map(
    ({ name, waiting, active, delayed }): Diagnosis => ({
      check: `queue ${name}`,
      state: "ok",
      detail: `${waiting} waiting, ${active} active, ${delayed} delayed`,
    }),
  );
  const waiting = depths.reduce((sum, depth) => sum + depth.waiting, 0);
  return [...queues, await examineWorkers(connection, waiting)];
}

/** A worker process keeps one connection of this name. */
const workerName = "drover-worker";

async function examineWorkers(connection: RedisConnection, waiting: number): Promise<Diagnosis> {
  const check = "workers";
  const list = await connection.use((client) => client.client("LIST")).catch(() => undefined);
  if (typeof list !== "string") return { check, state: "ok", detail: "this host does not tell who is connected" };
  const workers = list.split("\n").filter((line) => line.split(" ").includes(`name=${workerName}`)).length;
  const detail = `${count(workers, "process", "processes")} connected`;
  if (workers > 0 || waiting === 0) return { check, state: "ok", detail };
  return { check, state: "warning", detail: `${detail} and ${count(waiting, "step")} waiting: start a worker` };
}

const longMs = 60_000;

/** Runs that have owed something for long. A sweeper of any worker queues it again within a minute. */
async function examineOwing(connection: RedisConnection, prefix: string): Promise<Diagnosis> {
  const { owing } = createKeys(prefix);
  const [seconds = 0] = await connection.use((client) => client.time());
  const before = Number(seconds) * 1000 - longMs;
  const stuck = await connection.use((client) => client.zcount(owing, "-inf", String(before)));
  if (stuck === 0) return { check: "runs", state: "ok", detail: `none has owed a step for over ${toDuration(longMs)}` };
  const oldest = await connection.use((client) => client.zrange(owing, "0", String(Math.min(stuck, 3) - 1)));
  const detail = `${count(stuck, "run")} owed a step for over ${toDuration(longMs)} (${oldest.join(", ")}): is a worker with that agent running? "drover show ID" tells what a run waits for`;
  return { check: "runs", state: "warning", detail };
}

const modelTimeoutMs = 5000;

/** Asks the model server for its list of models, which costs nothing. Never rejects. */
export async function examineModel(config: Config): Promise<Diagnosis> {
  const check = "model";
  const { openaiApiKey, openaiBaseUrl, model } = config;
  if (openaiApiKey === undefined && openaiBaseUrl === undefined) {
    return {
      check,
      state: "warning",
      detail: "neither OPENAI_API_KEY nor OPENAI_BASE_URL is set; set one to call models",
    };
  }
  const base = (openaiBaseUrl ?? "https://api.openai.com/v1").replace(/\/+$/, "");
  const host = URL.parse(base)?.host ?? "the model server";
  try {
    const response = await fetch(`${base}/models`, {
      headers: openaiApiKey ? { authorization: `Bearer ${openaiApiKey}` } : {},
      signal: AbortSignal.timeout(modelTimeoutMs),
    });
    const text = await response.text();
    return { check, ...judgeModels({ host, status: response.status, text, model }) };
  } catch (error) {
    const { message, cause } = toError(error);
    const why = cause instanceof Error ? cause.message : message;
    return {
      check,
      state: "error",
      detail: `${host} cannot be reached (${why}): check OPENAI_BASE_URL and the network`,
    };
  }
}

/** What a model server's answer to the question for its models means. */
function judgeModels(answer: { host: string; status: number; text: string; model: string }): Omit<Diagnosis, "check"> {
  const { host, status, text, model } = answer;
  if (status === 401 || status === 403) {
    return { state: "error", detail: `${host} refused the API key (${status}): correct OPENAI_API_KEY` };
  }
  if (status === 404) {
    return {
      state: "warning",
      detail: `${host} lists no models (404): make sure OPENAI_BASE_URL ends in its API's path, often /v1`,
    };
  }
  if (status >= 400) return { state: "warning", detail: `${host} answered ${status} when asked for its models` };
  if (!text.includes(JSON.stringify(model))) {
    return { state: "warning", detail: `${host} answers but does not list "${model}": set DROVER_MODEL to one it has` };
  }
  return { state: "ok", detail: `${host} answers and has ${model}` };
}
