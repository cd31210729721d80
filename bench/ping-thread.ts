// A side client of its own thread: pings every ms, and tells the longest wait since it was asked last.
import { parentPort, workerData } from "node:worker_threads";
import { Redis } from "ioredis";

const redis = new Redis(workerData as string);
let worst = 0;
parentPort?.on("message", () => {
  parentPort?.postMessage(worst);
  worst = 0;
});

for (;;) {
  const sentAt = performance.now();
  await redis.ping();
  worst = Math.max(worst, performance.now() - sentAt);
  await new Promise((resolve) => setTimeout(resolve, 1));
}
