// npm run bench [-- --json] [--quick] [--full] [--turns 10,50,200] [--pairs 10] [--fsync always] [--telemetry]
//
// Pairs of a bare BullMQ chain and Drover, taken in turns in one run on one Redis, compared as ratios: both share
// whatever else the machine is doing. A run of T turns is T model steps and T - 1 tool steps, and as many jobs of the
// chain. --fsync always: Redis writes each change to its disk before it answers. --telemetry: only what tracing and
// metrics cost.

import { parseArgs } from "node:util";
import { Redis } from "ioredis";
import { openScratch } from "../scripts/scratch/scratch.ts";
import { startEmbeddedRedis } from "../src/embedded/redis.ts";
import { measureAlone, measureFlatness } from "./alone.ts";
import { printAlone, printFlatness, printRows, printSplit, type Row, type Split } from "./print.ts";
import { type BenchWorker, startBenchWorker, type Task } from "./protocol.ts";
import { estimate, median } from "./stats.ts";
import { measureTelemetry, printTelemetry } from "./telemetry.ts";
import { readTraffic } from "./traffic.ts";

const { values: flags } = parseArgs({
  options: {
    json: { type: "boolean" },
    quick: { type: "boolean" },
    full: { type: "boolean" },
    turns: { type: "string" },
    telemetry: { type: "boolean" },
    pairs: { type: "string" },
    fsync: { type: "string" },
  },
});
const pairs = Number(flags.pairs ?? (flags.quick ? 3 : 10));
const turnCounts = flags.turns?.split(",").map(Number) ?? (flags.quick ? [10, 50] : [10, 50, 200]);
if (flags.fsync !== undefined && flags.fsync !== "always") throw new Error('--fsync: expected "always"');

const say = (line: string): void => void process.stderr.write(`${line}\n`);

/** Long runs are fewer, so that a measurement takes seconds; there are more than can be at work at once. */
const toTask = (turns: number, tool: Task["tool"]): Task => ({
  runs: turns > 50 ? 120 : 200,
  steps: 2 * turns - 1,
  tool,
});

/** What one measurement took of each thing, per step; CPU in µs. */
type Sample = { perSecond: number; cpu: number; redisCpu: number; commands: number; bytes: number };

async function sample(redis: Redis, worker: BenchWorker, task: Task): Promise<Sample> {
  const before = await readTraffic(redis);
  const outcome = await worker.measure(task);
  const after = await readTraffic(redis);
  const steps = task.runs * task.steps;
  return {
    perSecond: (steps / outcome.elapsedMs) * 1_000,
    cpu: (outcome.cpuMs / steps) * 1_000,
    commands: (after.commands - before.commands) / steps,
    bytes: (after.bytes - before.bytes) / steps,
    redisCpu: ((after.cpuMs - before.cpuMs) / steps) * 1_000,
  };
}

type Workers = { chain: BenchWorker; twoQueues: BenchWorker; drover: BenchWorker };

async function measureRow(redis: Redis, workers: Workers, turns: number, tool: Task["tool"]): Promise<Row> {
  const task = toTask(turns, tool);
  const chain: Sample[] = [];
  const drover: Sample[] = [];
  for (const worker of [workers.chain, workers.drover]) await worker.measure(task);
  await forget(redis);
  for (let pair = 0; pair < pairs; pair += 1) {
    say(`  ${turns} turns, ${tool}: pair ${pair + 1} of ${pairs}`);
    const order = pair % 2 === 0 ? (["chain", "drover"] as const) : (["drover", "chain"] as const);
    for (const which of order) (which === "chain" ? chain : drover).push(await sample(redis, workers[which], task));
    if (pair < pairs - 1) await forget(redis);
  }
  const both = (field: (sample: Sample) => number): { chain: number; drover: number } => ({
    chain: median(chain.map(field)),
    drover: median(drover.map(field)),
  });
  const perSecond = both((s) => s.perSecond);
  return {
    turns,
    runs: task.runs,
    tool,
    ratio: estimate(drover.map((s, index) => s.perSecond / (chain[index]?.perSecond ?? Number.NaN))),
    chainPerSecond: perSecond.chain,
    droverPerSecond: perSecond.drover,
    cpu: both((s) => s.cpu),
    redisCpu: both((s) => s.redisCpu),
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

async function measureSplit(redis: Redis, workers: Workers): Promise<Split> {
  const task = toTask(50, "read");
  const rates = { chain: [] as number[], twoQueues: [] as number[], drover: [] as number[] };
  for (let pair = 0; pair < pairs; pair += 1) {
    for (const which of ["chain", "twoQueues", "drover"] as const)
      rates[which].push((await sample(redis, workers[which], task)).perSecond);
    await forget(redis);
  }
  return { oneQueue: median(rates.chain), twoQueues: median(rates.twoQueues), drover: median(rates.drover) };
}

/**
 * A worker lives for days. For its first 50,000 steps or so Node still compiles what is often run, ever better, and each step
 * takes up to twice as long; a bare chain is through sooner, having less code.
 */
async function warmUp(redis: Redis, workers: readonly BenchWorker[]): Promise<void> {
  say("  warming up");
  for (const worker of workers) {
    for (const tool of ["read", "write", "read", "write"] as const) {
      await worker.measure(toTask(50, tool));
      await forget(redis);
    }
  }
}

async function measureSteps(redis: Redis, url: string): Promise<object> {
  const workers: Workers = {
    chain: await startBenchWorker("chain-worker.ts", url),
    twoQueues: await startBenchWorker("chain-worker.ts", url, { args: ["2"] }),
    drover: await startBenchWorker("drover-worker.ts", url),
  };
  try {
    await warmUp(redis, Object.values(workers));
    const rows: Row[] = [];
    for (const tool of ["read", "write"] as const) {
      // The longest runs with a write are left to --full: they take as long as all others.
      for (const turns of turnCounts.filter((count) => flags.full || tool === "read" || count <= 50))
        rows.push(await measureRow(redis, workers, turns, tool));
    }
    say("  one run alone");
    const alone = await measureAlone(workers, pairs);
    say("  a long run alone");
    const flatness = await measureFlatness(workers.drover, pairs);
    say("  where the time goes");
    const split = await measureSplit(redis, workers);
    printRows(rows);
    printAlone(alone);
    printFlatness(flatness);
    printSplit(split);
    const reads = rows.filter(({ tool }) => tool === "read");
    const ratioToChain = Object.fromEntries(reads.map((row) => [row.turns, row.ratio.median]));
    return { ratioToChain, pairs, fsync: flags.fsync, rows, alone, flatness, split };
  } finally {
    await Promise.all(Object.values(workers).map((worker) => worker.stop()));
  }
}

const dir = openScratch("drover-bench-", "bench: stopped before its end");
const embedded = process.env.REDIS_URL ? undefined : await startEmbeddedRedis({ dir });
const url = process.env.REDIS_URL || embedded?.url || "";
const redis = new Redis(url);

try {
  if (flags.fsync) {
    if (!embedded) throw new Error("--fsync: not on a Redis of yours. Leave REDIS_URL unset, or set it there by hand.");
    await redis.config("SET", "appendonly", "yes", "appendfsync", flags.fsync);
  }
  const steps = flags.telemetry ? {} : await measureSteps(redis, url);
  const telemetry = flags.fsync ? undefined : await measureTelemetry(url, pairs, () => forget(redis));
  if (telemetry) printTelemetry(telemetry);
  if (flags.json) console.log(JSON.stringify({ ...steps, telemetry }));
} finally {
  redis.disconnect();
  await embedded?.stop();
}
