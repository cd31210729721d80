// A bare BullMQ chain: each job adds the next and ends. What any queue-driven loop costs at the least. Given a number of
// queues it takes them in turns, as Drover does with model and tool steps.
import { Queue, Worker } from "bullmq";
import { Redis } from "ioredis";
import { cpuMsSince, type Outcome, serve, type Task } from "./protocol.ts";

const url = process.argv[2] as string;
const connection = new Redis(url, { maxRetriesPerRequest: null });
const names = Array.from(
  { length: Number(process.argv[3] ?? 1) },
  (_, index) => `chain-${process.argv[3] ?? 1}-${index}`,
);
const prefix = "{bench}:q";
const queues = names.map((name) => new Queue(name, { connection, prefix }));
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
  await queues[data.step % queues.length]?.add("step", data, {
    jobId: `${data.step}-0-${data.runId}`,
    removeOnComplete: true,
    removeOnFail: true,
  });
}

const workers = names.map(
  (name) =>
    new Worker<Data>(name, work, {
      connection,
      prefix,
      concurrency: 100 / names.length,
      lockDuration: 3_000,
      stalledInterval: 1_000,
      removeOnComplete: { count: 0 },
    }),
);
await Promise.all(workers.map((worker) => worker.waitUntilReady()));

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
  return { elapsedMs: performance.now() - started, cpuMs: cpuMsSince(cpu), gaps };
}

serve(measure, async () => {
  await Promise.all([...workers, ...queues].map((part) => part.close()));
  connection.disconnect();
});
