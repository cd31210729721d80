// Catches: a producer that hangs for minutes while Redis is away, and a client option that deafens every worker.
import { Redis } from "ioredis";
import { expect, onTestFinished, test } from "vitest";
import { defineAgent } from "../../src/define-agent.ts";
import { createDrover } from "../../src/drover.ts";
import { openai } from "../../src/openai/openai.ts";
import { toRedisOptions } from "../../src/redis/redis-options.ts";
import { createSilentLogger } from "../../src/telemetry/logger.ts";
import { eventually } from "../support/eventually.ts";
import { startTestRedis } from "../support/redis.ts";
import { makeWorld } from "../support/world.ts";
import { judge } from "./support/judge.ts";
import { seeded } from "./support/seed.ts";

const refusedMs = 2_000;
const agent = defineAgent({
  name: "e2e",
  instructions: "Do as you are told.",
  model: openai({ model: "fake", baseURL: "http://127.0.0.1:9", apiKey: "k" }),
});

test("[Q16] a start while Redis is away is refused within 2 s, with a code; afterwards starts work again", async () => {
  const { seed } = seeded();
  const server = await startTestRedis({ own: true });
  onTestFinished(() => server.stop());
  const world = await makeWorld({ respond: () => "done", server });
  await world.work();
  await (await world.drover.start("e2e", "before go", { runId: "before" })).result({ timeoutMs: 20_000 });
  await server.kill9();
  const cold = createDrover({ redis: server.url, prefix: world.prefix, logger: createSilentLogger() });
  onTestFinished(() => cold.close());
  // One whose connection was lost, and one that never had any.
  for (const [index, drover] of [world.drover, cold].entries()) {
    const startedAt = performance.now();
    const starting = drover.start("e2e", "refused go", { runId: `refused-${index}` });
    await expect(starting).rejects.toMatchObject({ code: "queue_unavailable" });
    expect(performance.now() - startedAt).toBeLessThan(refusedMs);
  }
  await server.restart();
  const run = await eventually(() => world.drover.start("e2e", "after go", { runId: "after" }).catch(() => undefined));
  expect(await run.result({ timeoutMs: 30_000 })).toMatchObject({ status: "completed" });
  await judge(world, { seed });
});

test.each([
  ["commandTimeout", { commandTimeout: 1_000 }],
  ["maxRetriesPerRequest", { maxRetriesPerRequest: 19 }],
  ["keyPrefix", { keyPrefix: "mine:" }],
  ["stringNumbers", { stringNumbers: true }],
])("[Q16] a worker whose client has the option %s is refused by name", async (option, options) => {
  const { options: given } = await makeWorld({ respond: () => "done" });
  const { hostname: host, port } = new URL(given.redisUrl);
  const instance = new Redis({ host, port: Number(port), lazyConnect: true, ...options });
  onTestFinished(() => instance.disconnect());
  for (const redis of [{ host, port: Number(port), ...options }, instance]) {
    const drover = createDrover({ redis, prefix: given.prefix, agents: [agent], logger: createSilentLogger() });
    await expect(drover.work()).rejects.toThrow(option);
    await drover.close();
  }
});

test("[Q16] the library's own limit of retries is refused where it is written down, and does not hold where it is a default", () => {
  const written = { host: "127.0.0.1", maxRetriesPerRequest: 20 };
  const node = { host: "127.0.0.1", port: 7_000 };
  for (const redis of [
    written,
    "redis://127.0.0.1?maxRetriesPerRequest=20",
    { cluster: [node], options: { redisOptions: { maxRetriesPerRequest: 20 } } },
  ]) {
    expect(() => toRedisOptions(redis, "worker")).toThrow("maxRetriesPerRequest");
    expect(toRedisOptions(redis, "producer").maxRetriesPerRequest).toBe(1);
  }
  // Of an instance nobody can tell who said so.
  const instance = new Redis({ ...written, lazyConnect: true });
  onTestFinished(() => instance.disconnect());
  expect(toRedisOptions(instance, "worker").maxRetriesPerRequest).toBeNull();
});
