// Asks a Redis for a sign of life about every millisecond, in a process of its own, and tells at its end how long the
// longest answer took, in ms.
import { setTimeout as sleep } from "node:timers/promises";
import { Redis } from "ioredis";

const client = new Redis(process.argv[2] ?? "");
let worstMs = 0;
let over = false;
process.once("message", () => {
  over = true;
});
await client.ping();
process.send?.("ready");
while (!over) {
  const sentAt = performance.now();
  await client.ping();
  worstMs = Math.max(worstMs, performance.now() - sentAt);
  await sleep(1);
}
process.send?.(worstMs);
client.disconnect();
process.disconnect();
