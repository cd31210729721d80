// Catches: a listing, a page, a metric or a sweep that stops Redis for everybody when there are many runs.
import { fork } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { expect, onTestFinished, test } from "vitest";
import { openBackend } from "../../src/backend.ts";
import { examineRedis } from "../../src/cli/doctor/redis.ts";
import { prepare } from "../../src/drover.ts";
import { sweep } from "../../src/engine/sweep.ts";
import { createDroverServer } from "../../src/server/create-server.ts";
import { createSilentLogger } from "../../src/telemetry/logger.ts";
import { startTestRedis } from "../support/redis.ts";
import { makeWorld } from "../support/world.ts";
import { tellFigure } from "./support/figure.ts";
import { isLong } from "./support/seed.ts";

const runCount = isLong ? 100_000 : 5_000;
/** Among many other tests a command may wait for a core in the middle of its work: the short form sees gross ones alone. */
const slowMs = isLong ? 50 : 250;
const pinger = fileURLToPath(new URL("support/pinger.ts", import.meta.url));

/** Resolves with how to end it: by which it tells the longest wait for an answer. */
async function startPinger(url: string): Promise<() => Promise<number>> {
  const child = fork(pinger, [url], { stdio: "ignore" });
  onTestFinished(() => void child.kill("SIGKILL"));
  await once(child, "message");
  return async () => {
    child.send("end");
    const [worstMs] = (await once(child, "message")) as [number];
    return worstMs;
  };
}

test("[Q25] with many parked runs no listing, page or sweep is slow for others", async () => {
  const server = await startTestRedis({ own: true });
  onTestFinished(() => server.stop());
  const world = await makeWorld({ respond: () => "unused", server });
  const { drover, redis } = world;
  for (let from = 0; from < runCount; from += 500) {
    await Promise.all(
      Array.from({ length: 500 }, (_, index) => {
        const runId = `parked-${from + index}`;
        const metadata = { customer: `c${index % 10}` };
        return drover.start("e2e", "go", { runId, delayMs: 86_400_000, metadata, tenant: `t${index % 2}` });
      }),
    );
  }
  const http = createDroverServer({
    redis: server.url,
    prefix: world.prefix,
    http: { keyless: true },
    logger: createSilentLogger(),
  });
  onTestFinished(() => http.close());
  const { backendOptions } = prepare({ redis: server.url, prefix: world.prefix, logger: createSilentLogger() });
  const backend = openBackend(backendOptions, "producer");
  onTestFinished(() => backend.close());
  const idle = await startPinger(server.url);
  const idleWorstMs = await new Promise<number>((resolve) => setTimeout(() => void idle().then(resolve), 500));
  await redis.config("SET", "slowlog-log-slower-than", String(slowMs * 1_000));
  await redis.slowlog("RESET");
  const stop = await startPinger(server.url);
  const get = async (path: string): Promise<void> => {
    const response = await http.fetch(new Request(`http://127.0.0.1${path}`), { address: "127.0.0.1" });
    expect([path, response.status]).toEqual([path, 200]);
    await response.arrayBuffer();
  };
  const filters = [
    {},
    { limit: 100 },
    { status: "queued" as const },
    { agent: "e2e", status: "queued" as const },
    { tenant: "t1", metadata: { customer: "c3" } },
    { search: "parked-49" },
    { search: "nothing" },
    { createdBefore: 1 },
  ];
  for (const filter of filters) {
    const page = await drover.list(filter);
    expect(page.runs.length).toBeLessThanOrEqual(100);
  }
  // Whoever asks for all gets the hard maximum.
  expect((await drover.list({ limit: 1_000_000 })).runs.length).toBe(1_000);
  expect((await drover.count()).queued).toBe(runCount);
  await drover.fleet();
  for (const path of [
    "/runs",
    "/runs?status=queued",
    "/counts",
    "/fleet",
    "/",
    "/ui/queues/api/queues?activeQueue=model&status=delayed&page=1",
    "/metrics",
  ]) {
    await get(path);
  }
  await examineRedis(server.url, world.prefix);
  await sweep(backend);
  // As if all owed a step for long: nothing is missing, all of it is looked at.
  for await (const page of redis.zscanStream(world.keys.owing, { count: 1_000 })) {
    const pairs = page as string[];
    const due = pairs.filter((_entry, index) => index % 2 === 0).flatMap((member) => ["1", member]);
    if (due.length > 0) await redis.zadd(world.keys.owing, ...due);
  }
  await sweep(backend);
  const worstMs = await stop();
  const slow = (await redis.slowlog("GET", 10)) as [number, number, number, string[]][];
  expect(slow.map(([, , micros, command]) => `${micros} ${command.join(" ").slice(0, 100)}`)).toEqual([]);
  // The machine is shared: what an idle Redis takes is not a listing's fault.
  expect(worstMs).toBeLessThan(slowMs + 2 * idleWorstMs);
  tellFigure(
    "Q25",
    `${runCount} parked runs: the longest wait for Redis beside listings, pages and sweeps was ${worstMs.toFixed(1)} ms, ` +
      `${idleWorstMs.toFixed(1)} ms without them; no command above ${slowMs} ms`,
  );
});
