// A worker process for tests. Holds every step it gets until its lock is lost; one line of JSON per delivery.
import { createStepWorker } from "../../src/bullmq/step-worker.ts";
import { connect } from "../../src/redis/connection.ts";

const [url = "", prefix = "", graceMs = "1000"] = process.argv.slice(2);

function say(line: Record<string, unknown>): void {
  process.stdout.write(`${JSON.stringify(line)}\n`);
}

const log = (level: string) => (fields: Record<string, unknown>, message: string) =>
  say({ log: level, message, ...fields });
const logger = { debug: () => undefined, info: log("info"), warn: log("warn"), error: log("error") };
const clock = {
  now: (): number => Date.now(),
  sleep: (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms)),
};

const [connection, locks] = [connect(url, { role: "worker" }), connect(url, { role: "worker" })];
const worker = createStepWorker({
  client: connection.client,
  locks: locks.client,
  connect: () => connect(url, { role: "worker" }).client,
  prefix,
  clock,
  logger,
  queues: ["runs", "model", "tools"],
  concurrency: 5,
  graceMs: Number(graceMs),
  process({ step, lostWorkers, deliveries, signal }) {
    const again = deliveries > 1 ? { redelivery: step.runId } : {};
    say({ delivery: step.runId, ...again, lostWorkers, deliveries });
    return new Promise((resolve) => {
      signal.addEventListener("abort", () => {
        say({ aborted: step.runId });
        // Only once a step has ended is its lost lock known not to be a lost worker's.
        if (signal.reason === "lock_lost") resolve({ type: "done" });
      });
    });
  },
  processStart: async () => ({ type: "done" }),
});

process.on("SIGTERM", () => {
  void worker.stop().then(async () => {
    await Promise.all([connection.close(), locks.close()]);
    say({ stopped: true });
    process.stdin.pause(); // from here the process ends by itself, or something was left open
  });
});
process.stdin.resume();
await worker.start();
say({ ready: true });
