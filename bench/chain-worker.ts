// A bare BullMQ chain: each job adds the next and ends. What any queue-driven loop costs at the least.
import { Queue, Worker } from "bullmq";
import { Redis } from "ioredis";
import { cpuMsSince, type Outcome, serve, type Task } from "./protocol.ts";

const url = process.argv[2] as string;
const connection = new Redis(url, { maxRetriesPerRequest: null });
const queue = new Queue("chain", { connection, prefix: "{bench}:q" });
type Data = { runId: string; step: number; steps: number };

let left = 0;
let finished: () => void = () => {};
let gaps: number[] = [];
let lastAt = 0;

async function work({ data }: { data: Data }): Promise<string> {
  const { runId, step, steps } = data;
  if (runId.endsWith("-0")) {
    const now = performance.now();
    if (lastAt > 0) gaps.push(now - lastAt);
    lastAt = now;
  }
  if (step < steps) await add({ runId, step: step + 1, steps });
  else if (--left === 0) finished();
  return "ok";
}

async function add(data: Data): Promise<void> {
  await queue.add("step", data, { jobId: `${data.step}-0-${data.runId}`, removeOnComplete: true, removeOnFail: true });
}

const worker = new Worker<Data>("chain", work, {
  connection,
  prefix: "{bench}:q",
  concurrency: 100,
  lockDuration: 3_000,
  stalledInterval: 1_000,
  removeOnComplete: { count: 0 },
});
await worker.waitUntilReady();

let round = 0;
async function measure({ runs, steps }: Task): Promise<Outcome> {
  left = runs;
  gaps = [];
  lastAt = 0;
  round += 1;
  const cpu = process.cpuUsage();
  const started = performance.now();
  const done = new Promise<void>((resolve) => {
    finished = resolve;
  });
  await Promise.all(Array.from({ length: runs }, (_, index) => add({ runId: `c${round}-${index}`, step: 1, steps })));
  await done;
  return { elapsedMs: performance.now() - started, cpuMs: cpuMsSince(cpu), gaps, parts: {} };
}

serve(measure, async () => {
  await worker.close();
  await queue.close();
  connection.disconnect();
});
