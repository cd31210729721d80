// npm run bench:scale [-- --json] [--workers 1,2,4] [--latency 0,50] [--repeats 3] [--quick]
//
// Steps per second with several worker processes, on one Redis and on a cluster of three masters (6 shards), and how
// much of the ideal that is: the rate of one worker times their number. Runs are started beforehand and all become due at
// one moment, when the workers have been warmed up. The servers, the workers and this program share one machine: its
// cores bound every rate, so the CPU that a step takes of a worker and of Redis is told as well.

import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { availableParallelism, loadavg } from "node:os";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { Redis } from "ioredis";
import { endWithUs, openScratch } from "../scripts/scratch/scratch.ts";
import { createDrover, type Drover } from "../src/index.ts";
import { createSilentLogger } from "../src/telemetry/logger.ts";
import { startRedisCluster } from "../test/support/redis-cluster.ts";
import { startPrivateRedis } from "../test/support/redis-server.ts";
import type { ScaleWorkerOptions } from "./scale-worker.ts";
import { median } from "./stats.ts";

const { values: flags } = parseArgs({
  options: {
    json: { type: "boolean" },
    quick: { type: "boolean" },
    workers: { type: "string", default: "1,2,4" },
    latency: { type: "string", default: "0,50" },
    repeats: { type: "string" },
  },
});
const toNumbers = (list: string): number[] => list.split(",").map(Number);
const repeats = Number(flags.repeats ?? (flags.quick ? 1 : 3));
const say = (line: string): void => void process.stderr.write(`${line}\n`);

/** Where it runs: `nodes` are the servers by themselves, to ask for their CPU. */
type Place = { name: string; url: string; shards: number; nodes: string[]; stop(): Promise<void> };

async function openPlaces(): Promise<Place[]> {
  const one = await startPrivateRedis({ own: true });
  const cluster = await startRedisCluster({ primaries: 3 });
  return [
    { name: "one Redis", url: one.url, shards: 1, nodes: [one.url], stop: one.stop },
    {
      name: "3 masters, 6 shards",
      url: cluster.url,
      shards: 6,
      nodes: cluster.nodes.map(({ url }) => url),
      stop: cluster.stop,
    },
  ];
}

/** So many slots that the latency, not the CPU, bounds a worker; without latency the CPU does whatever the number. */
const slotsOf = (latencyMs: number): number => (latencyMs > 0 ? 12 : 96);
const runsOf = (latencyMs: number): { runs: number; turns: number } =>
  latencyMs > 0 ? { runs: 144, turns: 8 } : { runs: 192, turns: 16 };

/** Times in ms, CPU in µs per step; of the workers together, and of all servers together. */
type Sample = { perSecond: number; workerCpu: number; redisCpu: number };
type ScaleRow = {
  place: string;
  masters: number;
  latencyMs: number;
  slots: number;
  workers: number;
  efficiency: number;
} & Sample;

let round = 0;

async function measure(place: Place, latencyMs: number, workers: number): Promise<Sample> {
  round += 1;
  const prefix = `{scale-${round}}`;
  const { runs, turns } = runsOf(latencyMs);
  const { url: redis, shards } = place;
  const options: ScaleWorkerOptions = { redis, prefix, shards, latencyMs, turns, concurrency: slotsOf(latencyMs) };
  const drover = createDrover({ redis, prefix, shards, logger: createSilentLogger() });
  const children = await Promise.all(Array.from({ length: workers }, () => startWorker(options)));
  try {
    await runAll(drover, "warm", Math.ceil(runs / 4));
    const before = await redisCpuMs(place);
    await Promise.all(children.map((child) => ask(child, "begin")));
    const elapsedMs = await runAll(drover, "run", runs);
    const cpuMs = (await Promise.all(children.map((child) => ask(child, "end")))) as number[];
    const steps = runs * (2 * turns - 1);
    return {
      perSecond: (steps / elapsedMs) * 1_000,
      workerCpu: (cpuMs.reduce((sum, ms) => sum + ms, 0) / steps) * 1_000,
      redisCpu: (((await redisCpuMs(place)) - before) / steps) * 1_000,
    };
  } finally {
    for (const child of children) child.disconnect();
    await Promise.all(children.filter(({ exitCode }) => exitCode === null).map((child) => once(child, "exit")));
    await drover.close();
    await Promise.all(place.nodes.map(flush));
  }
}

/** Starts runs that are all due at one moment, and gives the time from then until the last has ended. */
async function runAll(drover: Drover, name: string, runs: number): Promise<number> {
  const leadMs = 3_000;
  const dueAt = performance.now() + leadMs;
  await Promise.all(
    Array.from({ length: runs }, (_, index) =>
      drover.start("scale", "go", {
        runId: `${name}-${index}`,
        delayMs: Math.max(1, Math.round(dueAt - performance.now())),
      }),
    ),
  );
  if (performance.now() > dueAt) throw new Error("the runs could not be started in time: the machine is too busy");
  const before = (await drover.count()).completed;
  for (;;) {
    await sleep(20);
    const { completed, failed } = await drover.count();
    if (failed > 0) throw new Error("a run failed");
    if (completed - before >= runs) return performance.now() - dueAt;
  }
}

async function startWorker(options: ScaleWorkerOptions): Promise<ChildProcess> {
  const file = fileURLToPath(new URL("scale-worker.ts", import.meta.url));
  const child = fork(file, [JSON.stringify(options)], { stdio: ["ignore", "inherit", "inherit", "ipc"] });
  endWithUs(child);
  const ended = once(child, "exit").then(() => {
    throw new Error("a worker ended before it was ready");
  });
  await Promise.race([once(child, "message"), ended]);
  ended.catch(() => {});
  return child;
}

async function ask(child: ChildProcess, what: "begin" | "end"): Promise<unknown> {
  const answer = once(child, "message");
  child.send(what);
  return (await answer)[0];
}

async function withRedis<T>(url: string, use: (redis: Redis) => Promise<T>): Promise<T> {
  const redis = new Redis(url);
  try {
    return await use(redis);
  } finally {
    redis.disconnect();
  }
}

const flush = (url: string): Promise<unknown> => withRedis(url, (redis) => redis.flushall());

async function redisCpuMs({ nodes }: Place): Promise<number> {
  const used = await Promise.all(
    nodes.map(async (url) => {
      const info = await withRedis(url, (redis) => redis.info("cpu"));
      const read = (name: string): number => Number(new RegExp(`^${name}:(.+)$`, "m").exec(info)?.[1] ?? 0);
      return (read("used_cpu_user") + read("used_cpu_sys")) * 1_000;
    }),
  );
  return used.reduce((sum, ms) => sum + ms, 0);
}

async function measureAll(places: readonly Place[]): Promise<ScaleRow[]> {
  const rows: ScaleRow[] = [];
  for (const place of places) {
    for (const latencyMs of toNumbers(flags.latency)) {
      let alone: number | undefined;
      for (const workers of toNumbers(flags.workers)) {
        say(`${place.name}, model ${latencyMs} ms, ${workers} worker(s)`);
        const samples: Sample[] = [];
        for (let count = 0; count < repeats; count += 1) samples.push(await measure(place, latencyMs, workers));
        const middle = (field: keyof Sample): number => median(samples.map((sample) => sample[field]));
        const perSecond = middle("perSecond");
        alone ??= perSecond / workers;
        const cpu = { workerCpu: middle("workerCpu"), redisCpu: middle("redisCpu") };
        rows.push({
          ...{ place: place.name, masters: place.nodes.length, latencyMs, slots: slotsOf(latencyMs), workers },
          ...{ perSecond, ...cpu },
          efficiency: perSecond / (alone * workers),
        });
      }
    }
  }
  return rows;
}

function print(rows: readonly ScaleRow[]): void {
  const lines = rows.map(({ place, latencyMs, workers, perSecond, efficiency, workerCpu, redisCpu }) => [
    place,
    `${latencyMs} ms`,
    String(workers),
    perSecond.toFixed(0),
    `${(efficiency * 100).toFixed(0)} %`,
    workerCpu.toFixed(0),
    redisCpu.toFixed(0),
  ]);
  const head = ["Redis", "model", "workers", "steps/s", "efficiency", "worker CPU µs/step", "Redis CPU µs/step"];
  for (const cells of [head, head.map(() => "---"), ...lines]) process.stdout.write(`| ${cells.join(" | ")} |\n`);
  const load = loadavg()[0] ?? 0;
  process.stdout.write(`\n${availableParallelism()} cores, load ${load.toFixed(1)} at the end, ${repeats} repeats\n`);
}

openScratch("drover-scale-", "bench:scale: stopped before its end");
const places = await openPlaces();
try {
  const rows = await measureAll(places);
  if (flags.json) process.stdout.write(`${JSON.stringify({ cores: availableParallelism(), rows })}\n`);
  else print(rows);
} finally {
  await Promise.all(places.map((place) => place.stop()));
}
