// The server of bench/watchers.ts, in a process of its own.

import { createDroverServer } from "../src/server.ts";
import type { ServerStats } from "./watchers-protocol.ts";

const [, , redis = "", prefix = ""] = process.argv;
const server = createDroverServer({ redis, prefix, http: { keyless: true } });
const { url } = await server.listen();

let peakRssBytes = 0;
let cpu = process.cpuUsage();
const sampling = setInterval(() => {
  peakRssBytes = Math.max(peakRssBytes, process.memoryUsage.rss());
}, 200);

async function close(): Promise<void> {
  clearInterval(sampling);
  await server.close();
  process.disconnect();
}

process.on("message", (message: { stats?: boolean; stop?: boolean }) => {
  if (message.stats) {
    const { user, system } = process.cpuUsage(cpu);
    const stats: ServerStats = {
      peakRssBytes: Math.max(peakRssBytes, process.memoryUsage.rss()),
      cpuMs: (user + system) / 1_000,
    };
    peakRssBytes = 0;
    cpu = process.cpuUsage();
    process.send?.(stats);
  }
  if (message.stop) void close();
});
process.on("disconnect", () => process.exit(0));
process.send?.({ url });
