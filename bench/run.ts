// npm run bench [-- --json] [--quick] [--full] [--telemetry]
//
// Pairs of a bare BullMQ chain and Drover, taken in turns in one run on one Redis, compared as ratios: both share
// whatever else the machine is doing. --telemetry: only what tracing and metrics cost.

import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import Table from "cli-table3";
import { Redis } from "ioredis";
import { startEmbeddedRedis } from "../src/embedded/redis.ts";
import { type BenchWorker, startBenchWorker, type Task } from "./protocol.ts";
import { type Estimate, estimate, median, quantile } from "./stats.ts";
import { measureTelemetry, printTelemetry } from "./telemetry.ts";

const { values: flags } = parseArgs({
  options: {
    json: { type: "boolean" },
    quick: { type: "boolean" },
    full: { type: "boolean" },
    steps: { type: "string" },
    telemetry: { type: "boolean" },
    pairs: { type: "string" },
  },
});
const pairs = Number(flags.pairs ?? (flags.quick ? 3 : 10));
const stepCounts = flags.steps?.split(",").map(Number) ?? (flags.quick ? [10, 50] : [10, 50, 200, 1_000]);

const runsAtOnce = 200;

/** The longest runs with a write are left to --full: the whole takes a quarter of an hour without them, else half of one. */
function isMeasured(steps: number, tool: Task["tool"]): boolean {
  return flags.full === true || tool === "read" || steps < 1_000;
}

const say = (line: string): void => void process.stderr.write(`${line}\n`);

type Row = {
  steps: number;
  runs: number;
  tool: Task["tool"];
  ratio: Estimate;
  chainPerSecond: number;
  droverPerSecond: number;
  cpuMsPer1000: { chain: number; drover: number };
  redisCpuMsPer1000: { chain: number; drover: number };
  commandsPerStep: { chain: number; drover: number };
  networkBytesPerStep: { chain: number; drover: number };
  storedBytesPerStep: number;
};

type Traffic = { commands: number; bytes: number; cpuMs: number };

async function traffic(redis: Redis): Promise<Traffic> {
  const info = await redis.info("all");
  const number = (name: string): number => Number(new RegExp(`^${name}:(\\d+)`, "m").exec(info)?.[1] ?? 0);
  const calls = [...info.matchAll(/^cmdstat_[^:]+:calls=(\d+)/gm)].reduce((sum, [, count]) => sum + Number(count), 0);
  const seconds = (name: string): number => Number(new RegExp(`^${name}:([\\d.]+)`, "m").exec(info)?.[1] ?? 0);
  return {
    commands: calls,
    bytes: number("total_net_input_bytes") + number("total_net_output_bytes"),
    cpuMs: (seconds("used_cpu_user") + seconds("used_cpu_sys")) * 1_000,
  };
}

/** What one measurement took of each thing, per step. */
type Sample = { perSecond: number; cpuMsPer1000: number; redisCpuMsPer1000: number; commands: number; bytes: number };

async function sample(redis: Redis, worker: BenchWorker, task: Task): Promise<Sample> {
  const before = await traffic(redis);
  const outcome = await worker.measure(task);
  const after = await traffic(redis);
  const steps = task.runs * task.steps;
  return {
    perSecond: (steps / outcome.elapsedMs) * 1_000,
    cpuMsPer1000: (outcome.cpuMs / steps) * 1_000,
    commands: (after.commands - before.commands) / steps,
    bytes: (after.bytes - before.bytes) / steps,
    redisCpuMsPer1000: ((after.cpuMs - before.cpuMs) / steps) * 1_000,
  };
}

type Workers = { chain: BenchWorker; twoQueues: BenchWorker; drover: BenchWorker };

async function measureRow(redis: Redis, workers: Workers, task: Task): Promise<Row> {
  const chain: Sample[] = [];
  const drover: Sample[] = [];
  await workers.chain.measure({ ...task, runs: 20, steps: 10 });
  await workers.drover.measure({ ...task, runs: 20, steps: 10 });
  await forget(redis);
  for (let pair = 0; pair < pairs; pair += 1) {
    say(`  ${task.steps} steps, ${task.tool}: pair ${pair + 1} of ${pairs}`);
    const order = pair % 2 === 0 ? (["chain", "drover"] as const) : (["drover", "chain"] as const);
    for (const which of order) (which === "chain" ? chain : drover).push(await sample(redis, workers[which], task));
    if (pair < pairs - 1) await forget(redis);
  }
  const of = (samples: Sample[], field: (sample: Sample) => number): number => median(samples.map(field));
  const both = (field: (sample: Sample) => number): { chain: number; drover: number } => ({
    chain: of(chain, field),
    drover: of(drover, field),
  });
  const perSecond = both((s) => s.perSecond);
  return {
    steps: task.steps,
    runs: task.runs,
    tool: task.tool,
    ratio: estimate(drover.map((s, index) => s.perSecond / (chain[index]?.perSecond ?? Number.NaN))),
    chainPerSecond: perSecond.chain,
    droverPerSecond: perSecond.drover,
    cpuMsPer1000: both((s) => s.cpuMsPer1000),
    redisCpuMsPer1000: both((s) => s.redisCpuMsPer1000),
    commandsPerStep: both((s) => s.commands),
    networkBytesPerStep: both((s) => s.bytes),
    storedBytesPerStep: (await storedBytes(redis)) / (task.runs * task.steps),
  };
}

async function* keysOf(redis: Redis, pattern: string): AsyncGenerator<string[]> {
  for await (const keys of redis.scanStream({ match: pattern, count: 1_000 })) yield keys as string[];
}

async function storedBytes(redis: Redis): Promise<number> {
  let bytes = 0;
  for await (const keys of keysOf(redis, "{drover-bench}:r:*")) {
    const sizes = await Promise.all(keys.map((key) => redis.call("MEMORY", "USAGE", key, "SAMPLES", "0")));
    bytes += sizes.reduce((sum: number, size) => sum + Number(size), 0);
  }
  return bytes;
}

/** Finished runs go, so that each pair meets the same Redis. */
async function forget(redis: Redis): Promise<void> {
  for await (const keys of keysOf(redis, "{drover-bench*}:r:*")) if (keys.length > 0) await redis.unlink(keys);
}

type Alone = Record<"chain" | "drover", { p50Ms: number; p99Ms: number }> & {
  overheadP50Ms: number;
  overheadP99Ms: number;
};

/** One run alone: the time from the start of one step's work to the start of the next one's, which takes none. */
async function measureAlone(workers: Workers): Promise<Alone> {
  const gaps = { chain: [] as number[], drover: [] as number[] };
  for (let pair = 0; pair < pairs; pair += 1) {
    for (const which of ["chain", "drover"] as const) {
      gaps[which].push(...(await workers[which].measure({ runs: 1, steps: 200, tool: "read" })).gaps.slice(10));
    }
  }
  const [chain, drover] = [gaps.chain, gaps.drover].map((list) => ({
    p50Ms: quantile(list, 0.5),
    p99Ms: quantile(list, 0.99),
  }));
  if (!chain || !drover) throw new Error("nothing was measured");
  return { chain, drover, overheadP50Ms: drover.p50Ms - chain.p50Ms, overheadP99Ms: drover.p99Ms - chain.p99Ms };
}

const f = (value: number, digits = 2): string => value.toFixed(digits);

function print(rows: Row[], alone: Alone, split: Split): void {
  const table = new Table({
    head: [
      "steps a run",
      "runs",
      "tool",
      "ratio to chain (95 %)",
      "steps/s chain",
      "steps/s Drover",
      "CPU ms/1,000",
      "Redis CPU ms/1,000",
      "commands/step",
      "net bytes/step",
      "stored bytes/step",
    ],
    style: { head: [], border: [] },
  });
  for (const r of rows) {
    const pair = ({ chain, drover }: { chain: number; drover: number }, digits = 1): string =>
      `${f(chain, digits)} → ${f(drover, digits)}`;
    table.push([
      r.steps,
      r.runs,
      r.tool,
      `${f(r.ratio.median)} (${f(r.ratio.low)} to ${f(r.ratio.high)})`,
      f(r.chainPerSecond, 0),
      f(r.droverPerSecond, 0),
      pair(r.cpuMsPer1000, 0),
      pair(r.redisCpuMsPer1000, 0),
      pair(r.commandsPerStep),
      pair(r.networkBytesPerStep, 0),
      f(r.storedBytesPerStep, 0),
    ]);
  }
  console.log(table.toString());
  const one = ({ p50Ms, p99Ms }: { p50Ms: number; p99Ms: number }): string => `p50 ${f(p50Ms)} ms, p99 ${f(p99Ms)} ms`;
  console.log(`One run alone, from step to step: chain ${one(alone.chain)}; Drover ${one(alone.drover)}.`);
  console.log(`Drover adds: p50 ${f(alone.overheadP50Ms)} ms, p99 ${f(alone.overheadP99Ms)} ms per step.`);
  const step = (rate: number): string => `${f(1e6 / rate, 0)} µs`;
  console.log(
    `Where a step's time goes, 200 runs of 50 at once: a chain on one queue ${step(split.oneQueue)}; the same chain on two queues`,
  );
  console.log(
    `in turns, as model and tool steps are, ${step(split.twoQueues)}; Drover ${step(split.drover)}. The rest is its commit and engine.`,
  );
}

/** Steps per second of a chain on one queue, of one on two queues in turns, and of Drover. */
type Split = { oneQueue: number; twoQueues: number; drover: number };

async function measureSplit(redis: Redis, workers: Workers): Promise<Split> {
  const task: Task = { runs: runsAtOnce, steps: 50, tool: "read" };
  const rates = { chain: [] as number[], twoQueues: [] as number[], drover: [] as number[] };
  for (let pair = 0; pair < pairs; pair += 1) {
    for (const which of ["chain", "twoQueues", "drover"] as const)
      rates[which].push((await sample(redis, workers[which], task)).perSecond);
    await forget(redis);
  }
  return { oneQueue: median(rates.chain), twoQueues: median(rates.twoQueues), drover: median(rates.drover) };
}

const dir = await mkdtemp(join(tmpdir(), "drover-bench-"));
const embedded = process.env.REDIS_URL ? undefined : await startEmbeddedRedis({ dir });
const url = process.env.REDIS_URL ?? embedded?.url ?? "";
const redis = new Redis(url);

async function measureSteps(): Promise<object> {
  const workers: Workers = {
    chain: await startBenchWorker("chain-worker.ts", url),
    twoQueues: await startBenchWorker("chain-worker.ts", url, { args: ["2"] }),
    drover: await startBenchWorker("drover-worker.ts", url),
  };
  try {
    const rows: Row[] = [];
    for (const tool of ["read", "write"] as const) {
      for (const steps of stepCounts.filter((count) => isMeasured(count, tool))) {
        rows.push(await measureRow(redis, workers, { runs: runsAtOnce, steps, tool }));
      }
    }
    say("  one run alone");
    const alone = await measureAlone(workers);
    say("  where the time goes");
    const split = await measureSplit(redis, workers);
    print(rows, alone, split);
    const reads = rows.filter(({ tool }) => tool === "read");
    return { ratioToChain: Object.fromEntries(reads.map((r) => [r.steps, r.ratio.median])), pairs, rows, alone, split };
  } finally {
    await Promise.all(Object.values(workers).map((worker) => worker.stop()));
  }
}

try {
  const steps = flags.telemetry ? {} : await measureSteps();
  const telemetry = await measureTelemetry(url, pairs, () => forget(redis));
  printTelemetry(telemetry);
  if (flags.json) console.log(JSON.stringify({ ...steps, telemetry }));
} finally {
  redis.disconnect();
  await embedded?.stop();
  await rm(dir, { recursive: true, force: true });
}
