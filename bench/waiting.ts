// npm run bench:waiting [-- --runs 100000] [--wake 1000] [--redis URL]
//
// Runs that wait on approvals: what each takes in Redis by kind of key, whether anything of theirs is left in queues or
// timers, and whether looking at all of them or waking some holds a Redis up.

import { once } from "node:events";
import { parseArgs } from "node:util";
import { Worker } from "node:worker_threads";
import Table from "cli-table3";
import { Redis } from "ioredis";
import { z } from "zod";
import { openScratch } from "../scripts/scratch/scratch.ts";
import { startEmbeddedRedis } from "../src/embedded/redis.ts";
import { createDrover, type Drover, defineAgent, defineTool } from "../src/index.ts";
import type { ModelClient } from "../src/ports.ts";

const { values: flags } = parseArgs({
  options: {
    runs: { type: "string", default: "100000" },
    wake: { type: "string", default: "1000" },
    redis: { type: "string" },
  },
});
const count = Number(flags.runs);
const toWake = Math.min(Number(flags.wake), count);
const startedAtOnce = 500;
const prefix = "{drover-waiting}";
const slowMs = 50;

const say = (line: string): void => void process.stderr.write(`${line}\n`);

const usage = { inputTokens: 10, outputTokens: 5, cachedTokens: 0 };
const input = "Refund the last order of this customer.";
const client: ModelClient = {
  async call({ runId, turn }) {
    const toolCalls = turn > 1 ? [] : [{ id: "call_1", name: "refund", arguments: JSON.stringify({ order: runId }) }];
    const reply = { content: turn > 1 ? "done" : null, toolCalls };
    return { type: "reply", reply, finishReason: "stop", usage, dropped: [] };
  },
};
const refund = defineTool({
  name: "refund",
  description: "Refunds an order.",
  parameters: z.object({ order: z.string() }),
  effect: "irreversible",
  execute: () => "refunded",
});
const agent = defineAgent({
  name: "support",
  instructions: "You help customers.",
  model: { model: "instant", provider: "drover", retry: { attempts: 3, delayMs: 100 }, client },
  tools: [refund],
});

const runIdOf = (index: number): string => `run-${String(index).padStart(7, "0")}`;

async function usedMemory(redis: Redis): Promise<number> {
  return Number(/used_memory:(\d+)/.exec(await redis.info("memory"))?.[1]);
}

async function sizeOf(redis: Redis, key: string): Promise<number> {
  return Number((await redis.call("MEMORY", "USAGE", key, "SAMPLES", "0")) ?? 0);
}

type Pings = { worst(): Promise<number>; stop(): Promise<unknown> };

/** A client in a thread of its own: what it waits for is Redis, not this process. */
function watchPings(url: string): Pings {
  const thread = new Worker(new URL("./ping-thread.ts", import.meta.url), { workerData: url });
  return {
    async worst() {
      const answer = once(thread, "message");
      thread.postMessage("worst");
      return Number((await answer)[0]);
    },
    stop: () => thread.terminate(),
  };
}

async function startAll(drover: Drover): Promise<void> {
  for (let from = 0; from < count; from += startedAtOnce) {
    const size = Math.min(startedAtOnce, count - from);
    await Promise.all(
      Array.from({ length: size }, (_, index) => drover.start(agent, input, { runId: runIdOf(from + index) })),
    );
    if (from % 20_000 === 0) say(`  ${from} of ${count} started`);
  }
  for (;;) {
    const { waiting } = await drover.count();
    if (waiting >= count) return;
    await new Promise((resolve) => setTimeout(resolve, 200));
  }
}

/** Bytes of each kind of key per run, from a sample of runs, and of the indexes that all share. */
async function measureKeys(redis: Redis): Promise<[string, number][]> {
  const sampled = Array.from({ length: Math.min(500, count) }, (_, index) =>
    runIdOf(Math.floor((index * count) / Math.min(500, count))),
  );
  const kinds = ["", ":messages", ":feed", ":results", ":outputs", ":live"];
  const rows: [string, number][] = [];
  for (const kind of kinds) {
    let bytes = 0;
    for (const runId of sampled) bytes += await sizeOf(redis, `${prefix}:r:run:${runId}${kind}`);
    rows.push([kind === "" ? "head" : kind.slice(1), bytes / sampled.length]);
  }
  const perRun = /:run:run-/;
  for await (const keys of redis.scanStream({ match: `${prefix}:r:*`, count: 1_000 })) {
    for (const key of keys as string[]) {
      if (perRun.test(key)) continue;
      rows.push([key.slice(prefix.length + 3), (await sizeOf(redis, key)) / count]);
    }
  }
  return rows.filter(([, bytes]) => bytes >= 0.5);
}

/** What queues hold: jobs and members of their lists and sets. */
async function queueLeftovers(redis: Redis): Promise<{ jobs: number; keys: string[] }> {
  const found: string[] = [];
  for await (const keys of redis.scanStream({ match: `${prefix}:q:*`, count: 1_000 }))
    found.push(...(keys as string[]));
  const jobs = found.filter((key) => /:\d+-\d+-run-/.test(key)).length;
  return { jobs, keys: found.filter((key) => !/:\d+-\d+-run-/.test(key)).map((key) => key.slice(prefix.length + 3)) };
}

function timers(): number {
  return process.getActiveResourcesInfo().filter((name) => name === "Timeout").length;
}

type Look = { what: string; calls: number; ms: number; worstPingMs: number };

async function measureLooks(drover: Drover, pings: Pings): Promise<Look[]> {
  const looks: Look[] = [];
  const look = async (what: string, act: () => Promise<number>): Promise<void> => {
    await pings.worst();
    const startedAt = performance.now();
    const calls = await act();
    looks.push({ what, calls, ms: performance.now() - startedAt, worstPingMs: await pings.worst() });
  };
  const pages = async (limit: number, most: number): Promise<number> => {
    let cursor: string | undefined;
    for (let page = 1; ; page += 1) {
      cursor = (await drover.list({ status: "waiting", limit, cursor })).cursor;
      if (cursor === undefined || page >= most) return page;
    }
  };
  await look("nothing, for two seconds", async () => {
    await new Promise((resolve) => setTimeout(resolve, 2_000));
    return 0;
  });
  await look("first page of 50 waiting", () => pages(50, 1));
  await look("all waiting, pages of 1,000", () => pages(1_000, Number.POSITIVE_INFINITY));
  await look("search that nobody fits", async () => (await drover.list({ search: "zzz" })).runs.length + 1);
  await look("count", async () => Number((await drover.count()).waiting > 0));
  await look("fleet", async () => Number((await drover.fleet()).owing.count >= 0));
  await look(`approve ${toWake}, to their ends`, async () => {
    for (let from = 0; from < toWake; from += 50) {
      const some = Array.from({ length: Math.min(50, toWake - from) }, (_, index) => drover.get(runIdOf(from + index)));
      await Promise.all(some.map((run) => run.approve("call-1-1", { by: "bench" })));
      await Promise.all(some.map((run) => run.result()));
    }
    return toWake;
  });
  return looks;
}

const f = (value: number, digits = 0): string =>
  value.toLocaleString("en", { maximumFractionDigits: digits, minimumFractionDigits: digits });

function table(head: string[], rows: string[][]): string {
  const made = new Table({ head, style: { head: [], border: [] } });
  made.push(...rows);
  return made.toString();
}

async function main(url: string): Promise<void> {
  const redis = new Redis(url);
  const drover = createDrover({ redis: url, prefix, agents: [agent] });
  const worker = await drover.work({ concurrency: 50 });
  // What one installation costs whatever is in it: scripts, queues, the agent.
  const warm = await drover.start(agent, input, { runId: "warm" });
  await warm.cancel({ by: "bench", reason: "warm" });
  const before = await usedMemory(redis);
  const timersBefore = timers();
  say(`  starting ${count} runs`);
  await startAll(drover);
  // A sweep, and what streams of live text may hold, are over.
  await new Promise((resolve) => setTimeout(resolve, 6_000));
  const perRun = ((await usedMemory(redis)) - before) / count;
  const kinds = await measureKeys(redis);
  const { jobs, keys } = await queueLeftovers(redis);
  console.log(`${f(count)} runs waiting on an approval: ${f(perRun)} bytes each in Redis (used_memory).`);
  console.log(
    table(
      ["kind of key", "bytes a run"],
      kinds.map(([kind, bytes]) => [kind, f(bytes)]),
    ),
  );
  console.log(`Jobs of theirs in queues: ${jobs}. Keys of queues: ${keys.toSorted().join(", ")}.`);
  console.log(`Timers in this process (producer and worker): ${timersBefore} before, ${timers()} with them waiting.`);
  await redis.config("SET", "slowlog-log-slower-than", String(slowMs * 1_000));
  await redis.slowlog("RESET");
  const pings = watchPings(url);
  const looks = await measureLooks(drover, pings);
  await pings.stop();
  const slow = (await redis.slowlog("GET", 10)) as [number, number, number, string[]][];
  console.log(
    table(
      ["looking and waking", "calls", "ms in all", "worst ping of a side client, ms"],
      looks.map(({ what, calls, ms, worstPingMs }) => [what, f(calls), f(ms), f(worstPingMs, 1)]),
    ),
  );
  const named = slow.map(
    ([, , us, [name, ...args]]) => `${name} ${args.length} arguments ${(us / 1_000).toFixed(0)} ms`,
  );
  console.log(`Commands over ${slowMs} ms (SLOWLOG): ${[slow.length, ...named].join(", ")}.`);
  await worker.stop();
  await drover.close();
  redis.disconnect();
}

const dir = openScratch("drover-waiting-", "bench:waiting: stopped before its end");
const embedded = flags.redis ? undefined : await startEmbeddedRedis({ dir });
try {
  await main(flags.redis ?? embedded?.url ?? "");
} finally {
  await embedded?.stop();
}
