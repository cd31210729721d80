// npm run bench:against -- PATH [--pairs 10] [--steps 50]
//
// Pairs of this checkout and another one (PATH, installed with npm ci), taken in turns in one run, each on a Redis of its
// own: what a change costs or gains per step.

import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { parseArgs } from "node:util";
import { startEmbeddedRedis } from "../src/embedded/redis.ts";
import { startBenchWorker, type Task } from "./protocol.ts";
import { estimate, median } from "./stats.ts";

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { pairs: { type: "string", default: "10" }, steps: { type: "string", default: "50" } },
});
const [path] = positionals;
if (path === undefined)
  throw new Error("expected the path of another checkout: npm run bench:against -- ../drover-main");

const task: Task = { runs: 200, steps: Number(values.steps), tool: "read" };
const steps = task.runs * task.steps;
const dir = await mkdtemp(join(tmpdir(), "drover-bench-"));
const servers = await Promise.all(["ours", "other"].map((name) => startEmbeddedRedis({ dir: join(dir, name) })));
const [ours, other] = await Promise.all(
  ["drover-worker.ts", resolve(path, "bench/drover-worker.ts")].map((file, index) =>
    startBenchWorker(file, servers[index]?.url ?? ""),
  ),
);
if (!ours || !other) throw new Error("a worker did not start");
try {
  const micros: { ours: number[]; other: number[] } = { ours: [], other: [] };
  const cpu: { ours: number[]; other: number[] } = { ours: [], other: [] };
  for (const worker of [ours, other]) await worker.measure({ ...task, steps: 10 });
  for (let pair = 0; pair < Number(values.pairs); pair += 1) {
    process.stderr.write(`  pair ${pair + 1} of ${values.pairs}\n`);
    const order = pair % 2 === 0 ? (["ours", "other"] as const) : (["other", "ours"] as const);
    for (const which of order) {
      const outcome = await (which === "ours" ? ours : other).measure(task);
      micros[which].push((outcome.elapsedMs / steps) * 1_000);
      cpu[which].push((outcome.cpuMs / steps) * 1_000);
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
  const both = (list: { ours: number[]; other: number[] }): string =>
    `${median(list.ours).toFixed(0)} µs here, ${median(list.other).toFixed(0)} µs there`;
  console.log(`Time per step: ${both(micros)}; ratio ${ratio(micros)}.`);
  console.log(`CPU of the worker per step: ${both(cpu)}; ratio ${ratio(cpu)}.`);
} finally {
  await Promise.all([ours.stop(), other.stop()]);
  await Promise.all(servers.map((server) => server.stop()));
  await rm(dir, { recursive: true, force: true });
}
