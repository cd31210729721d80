// Three worker processes share twelve runs, and are killed (-9) and replaced while they work. Every run completes. This
// file is its own worker: with an argument it works, without one it starts and kills.
import { equal, ok } from "node:assert/strict";
import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { calculator, createDrover, defineAgent } from "../src/index.ts";
import { scriptedModel } from "../src/testing/index.ts";
import { findRedis } from "./support/redis.ts";

const turns = 6;
const counter = defineAgent({
  name: "counter",
  instructions: "You count.",
  model: scriptedModel([
    ...Array.from({ length: turns }, (_, index) => ({
      toolCalls: [{ name: "calculator", arguments: { expression: `${index} + 1` } }],
      delayMs: 200,
    })),
    "Counted.",
  ]),
  tools: [calculator()],
});

const thisFile = fileURLToPath(import.meta.url);

async function startWorker(redis: string): Promise<ChildProcess> {
  const worker = fork(thisFile, ["work"], { env: { ...process.env, REDIS_URL: redis } });
  const exited = once(worker, "exit");
  if (await Promise.race([once(worker, "message"), exited.then(() => undefined)])) return worker;
  const [code] = await exited;
  if (code !== null) throw new Error(`a worker ended by itself with code ${code}`);
  return startWorker(redis); // killed before it was ready
}

async function main(): Promise<void> {
  const redis = await findRedis();
  const drover = createDrover({ redis });
  const workers = await Promise.all([startWorker(redis), startWorker(redis), startWorker(redis)]);
  const runs = await Promise.all(Array.from({ length: 12 }, () => drover.start("counter", "Count.")));
  let killed = 0;
  for await (const event of runs[0]?.events() ?? []) {
    if (event.type !== "model_answered" || event.turn % 3 !== 0) continue;
    const [victim] = workers.splice(0, 1);
    console.log(`run 1 is at turn ${event.turn}: kill -9 ${victim?.pid}`);
    victim?.kill("SIGKILL");
    killed += 1;
    workers.push(await startWorker(redis));
  }
  const results = await Promise.all(runs.map((run) => run.result({ timeoutMs: 50_000 })));
  const completed = results.filter(({ status }) => status === "completed").length;
  console.log(`${killed} workers killed; ${completed} of ${runs.length} runs completed`);
  ok(killed >= 2);
  equal(completed, runs.length);
  for (const run of runs) {
    const roles = (await run.transcript()).map((message) => message.role).join(" ");
    equal(roles, ["user", ...Array(turns).fill("assistant tool"), "assistant"].join(" ")); // nothing lost, nothing twice
  }
  await drover.close();
  for (const worker of workers) worker.kill("SIGTERM");
}

if (process.argv[2] === "work") {
  const drover = createDrover({ redis: process.env.REDIS_URL, agents: [counter] });
  await drover.work();
  process.once("SIGTERM", () => void drover.close().then(() => process.exit()));
  process.send?.("ready");
} else await main();
