// npm run bench:memory [-- --steps 1000000] [--minutes 60] [--turns 200] [--redis URL]
//
// Whether a worker's memory stays bounded: one process takes so many steps of runs that are removed soon after they end,
// with a model of no time, and says what it holds on the way. Stops early when the minutes are over. Exits 1 if it grew.

import { parseArgs } from "node:util";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import Table from "cli-table3";
import { Redis } from "ioredis";
import { z } from "zod";
import { openScratch } from "../scripts/scratch/scratch.ts";
import { startEmbeddedRedis } from "../src/embedded/redis.ts";
import { createDrover, type Drover, defineAgent, defineTool } from "../src/index.ts";
import type { ModelClient } from "../src/ports.ts";

const { values: flags } = parseArgs({
  options: {
    steps: { type: "string", default: "1000000" },
    minutes: { type: "string", default: "60" },
    turns: { type: "string", default: "200" },
    samples: { type: "string", default: "20" },
    redis: { type: "string" },
  },
});
const steps = Number(flags.steps);
const turns = Number(flags.turns);
const samples = Number(flags.samples);
const until = performance.now() + Number(flags.minutes) * 60_000;
const runsAtOnce = 20;
/** A turn is a model step and a tool step; the last one has no call. */
const stepsPerRun = 2 * turns - 1;
const prefix = "{drover-memory}";
const mib = 1_048_576;

setFlagsFromString("--expose-gc");
const collect = runInNewContext("gc") as () => void;

const usage = { inputTokens: 10, outputTokens: 5, cachedTokens: 0 };
const client: ModelClient = {
  async call({ turn }) {
    const toolCalls = turn >= turns ? [] : [{ id: `c${turn}`, name: "look", arguments: `{"topic":"day ${turn}"}` }];
    const reply = { content: turn >= turns ? "done" : null, toolCalls };
    return { type: "reply", reply, finishReason: "stop", usage, dropped: [] };
  },
};
const look = defineTool({
  name: "look",
  description: "Looks.",
  parameters: z.object({ topic: z.string() }),
  effect: "read",
  execute: ({ topic }) => `sunny on ${topic}`,
});
const agent = defineAgent({
  name: "soak",
  instructions: "",
  model: { model: "instant", provider: "drover", retry: { attempts: 3, delayMs: 100 }, client },
  tools: [look],
  limits: { maxTurns: 100_000 },
});

type Sample = { steps: number; seconds: number; rss: number; heap: number; redis: number; keys: number };

async function take(redis: Redis, done: number, startedAt: number): Promise<Sample> {
  collect();
  const { rss, heapUsed } = process.memoryUsage();
  const info = await redis.info("memory");
  return {
    steps: done,
    seconds: (performance.now() - startedAt) / 1_000,
    rss: rss / mib,
    heap: heapUsed / mib,
    redis: Number(/used_memory:(\d+)/.exec(info)?.[1]) / mib,
    keys: await redis.dbsize(),
  };
}

/** Keeps so many runs going until so many have ended; each that ends is replaced by another. */
async function work(drover: Drover, runs: number, onEnd: (ended: number) => Promise<void>): Promise<void> {
  let started = 0;
  let ended = 0;
  const lane = async (): Promise<void> => {
    while (started < runs && performance.now() < until) {
      started += 1;
      const run = await drover.start(agent, "go", { runId: `soak-${started}` });
      const { status } = await run.result();
      if (status !== "completed") throw new Error(`${run.id} ended as ${status}`);
      ended += 1;
      await onEnd(ended);
    }
  };
  await Promise.all(Array.from({ length: runsAtOnce }, lane));
}

/** Growth from the second quarter to the last, of medians: the first is warming up. */
function growth(all: readonly Sample[], of: (sample: Sample) => number): number {
  const quarter = Math.max(1, Math.floor(all.length / 4));
  const middle = (some: readonly Sample[]): number => some.map(of).toSorted((a, b) => a - b)[some.length >> 1] ?? 0;
  return middle(all.slice(-quarter)) - middle(all.slice(quarter, 2 * quarter));
}

async function main(url: string): Promise<boolean> {
  const redis = new Redis(url);
  const retention = { completed: 1_000, failed: 1_000, cancelled: 1_000, rejected: 1_000 };
  const drover = createDrover({ redis: url, prefix, agents: [agent], retention });
  const worker = await drover.work({ concurrency: 50 });
  const runs = Math.max(runsAtOnce, Math.ceil(steps / stepsPerRun));
  const every = Math.max(1, Math.floor(runs / samples));
  const startedAt = performance.now();
  const taken: Sample[] = [await take(redis, 0, startedAt)];
  await work(drover, runs, async (ended) => {
    if (ended % every !== 0) return;
    const sample = await take(redis, ended * stepsPerRun, startedAt);
    taken.push(sample);
    process.stderr.write(`  ${sample.steps} steps, RSS ${sample.rss.toFixed(0)} MiB\n`);
  });
  await worker.stop();
  await drover.close();
  redis.disconnect();
  const table = new Table({
    head: ["steps", "seconds", "RSS MiB", "heap MiB after collection", "Redis MiB", "keys in Redis"],
    style: { head: [], border: [] },
  });
  for (const { steps: at, seconds, rss, heap, redis: used, keys } of taken) {
    table.push([at, seconds.toFixed(0), rss.toFixed(1), heap.toFixed(1), used.toFixed(1), keys]);
  }
  console.log(table.toString());
  const [heap, rss, used] = [
    growth(taken, (one) => one.heap),
    growth(taken, (one) => one.rss),
    growth(taken, (one) => one.redis),
  ];
  const isBounded = heap < 8 && rss < 48 && used < 16;
  const total = (taken.at(-1)?.steps ?? 0).toLocaleString("en");
  console.log(
    `${total} steps in one worker process: from the second quarter to the last the heap grew by ${heap.toFixed(1)} MiB, ` +
      `RSS by ${rss.toFixed(1)} MiB, Redis by ${used.toFixed(1)} MiB: ${isBounded ? "bounded" : "NOT bounded"}.`,
  );
  return isBounded;
}

const dir = openScratch("drover-memory-", "bench:memory: stopped before its end");
const embedded = flags.redis ? undefined : await startEmbeddedRedis({ dir });
try {
  process.exitCode = (await main(flags.redis ?? embedded?.url ?? "")) ? 0 : 1;
} finally {
  await embedded?.stop();
}
