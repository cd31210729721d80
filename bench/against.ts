// npm run bench:against -- PATH [--pairs 10] [--steps 50]
//
// Pairs of this checkout and another one (PATH, installed with npm ci), taken in turns in one run, each on a Redis of its
// own: what a change costs or gains per step.

import { join, resolve } from "node:path";
import { parseArgs } from "node:util";
import { Redis } from "ioredis";
import { openScratch } from "../scripts/scratch/scratch.ts";
import { startEmbeddedRedis } from "../src/embedded/redis.ts";
import { startBenchWorker, type Task } from "./protocol.ts";
import { estimate, median } from "./stats.ts";
import { readTraffic } from "./traffic.ts";

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { pairs: { type: "string", default: "10" }, steps: { type: "string", default: "50" } },
});
const [path] = positionals;
if (path === undefined)
  throw new Error("expected the path of another checkout: npm run bench:against -- ../drover-main");

const task: Task = { runs: 200, steps: Number(values.steps), tool: "read" };
const steps = task.runs * task.steps;
const dir = openScratch("drover-bench-", "bench:against: stopped before its end");
const servers = await Promise.all(["ours", "other"].map((name) => startEmbeddedRedis({ dir: join(dir, name) })));
const [ours, other] = await Promise.all(
  ["drover-worker.ts", resolve(path, "bench/drover-worker.ts")].map((file, index) =>
    startBenchWorker(file, servers[index]?.url ?? ""),
  ),
);
const clients = servers.map(({ url }) => new Redis(url));
if (!ours || !other) throw new Error("a worker did not start");
try {
  const empty = (): { ours: number[]; other: number[] } => ({ ours: [], other: [] });
  const [micros, cpu, redisCpu, commands] = [empty(), empty(), empty(), empty()];
  for (const worker of [ours, other]) await worker.measure({ ...task, steps: 10 });
  for (let pair = 0; pair < Number(values.pairs); pair += 1) {
    process.stderr.write(`  pair ${pair + 1} of ${values.pairs}\n`);
    const order = pair % 2 === 0 ? (["ours", "other"] as const) : (["other", "ours"] as const);
    for (const which of order) {
      const [worker, redis] = which === "ours" ? [ours, clients[0]] : [other, clients[1]];
      const before = await readTraffic(redis as Redis);
      const outcome = await worker.measure(task);
      const after = await readTraffic(redis as Redis);
      micros[which].push((outcome.elapsedMs / steps) * 1_000);
      cpu[which].push((outcome.cpuMs / steps) * 1_000);
      redisCpu[which].push(((after.cpuMs - before.cpuMs) / steps) * 1_000);
      commands[which].push((after.commands - before.commands) / steps);
    }
  }
  const ratio = (list: { ours: number[]; other: number[] }): string => {
    const {
      median: middle,
      low,
      high,
    } = estimate(list.ours.map((value, index) => value / (list.other[index] ?? value)));
    return `${middle.toFixed(3)} (95 %: ${low.toFixed(3)} to ${high.toFixed(3)})`;
  };
  const both = (list: { ours: number[]; other: number[] }, digits = 0, unit = " µs"): string =>
    `${median(list.ours).toFixed(digits)}${unit} here, ${median(list.other).toFixed(digits)}${unit} there`;
  console.log(`Time per step: ${both(micros)}; ratio ${ratio(micros)}.`);
  console.log(`CPU of the worker per step: ${both(cpu)}; ratio ${ratio(cpu)}.`);
  console.log(`CPU of Redis per step: ${both(redisCpu)}; ratio ${ratio(redisCpu)}.`);
  console.log(`Commands per step, those inside scripts too: ${both(commands, 1, "")}.`);
} finally {
  for (const client of clients) client.disconnect();
  await Promise.all([ours.stop(), other.stop()]);
  await Promise.all(servers.map((server) => server.stop()));
}
