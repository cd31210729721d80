// Catches: a worker that outlives the Drover it was started by; one that was stopped and makes its process look ill.
import { expect, inject, onTestFinished, test } from "vitest";
import { defineAgent } from "../src/define-agent.ts";
import { createDrover } from "../src/drover.ts";
import { createOwnWorkers } from "../src/own-workers.ts";
import { createSilentLogger } from "../src/telemetry/logger.ts";
import { scriptedModel } from "../src/testing/scripted-model.ts";
import type { WorkerHandle } from "../src/worker.ts";
import type { WorkerHealth } from "../src/worker-health.ts";
import { deletePrefix, testPrefix } from "./support/redis.ts";

function makeWorker(health: WorkerHealth): WorkerHandle & { stops: number } {
  const worker = {
    queues: [],
    stops: 0,
    stats: () => ({ running: 0, lastStartedAt: undefined }),
    health: async () => health,
    pause: async () => {},
    resume: async () => {},
    async stop() {
      worker.stops += 1;
    },
  };
  return worker;
}

test("a worker that is still starting when all are stopped stops as soon as it has, and is waited for", async () => {
  const workers = createOwnWorkers();
  const begun = Promise.withResolvers<WorkerHandle>();
  const starting = workers.start(() => begun.promise);
  const failure = starting.catch((error: unknown) => error);
  let ended = false;
  const stopping = workers.stop().then(() => {
    ended = true;
  });
  await new Promise((resolve) => setImmediate(resolve));
  expect(ended).toBe(false);
  const worker = makeWorker({ live: true, ready: true });
  begun.resolve(worker);
  expect(await failure).toMatchObject({ code: "stopped" });
  await stopping;
  expect(worker.stops).toBe(1);
});

test("stopping ends although a start hangs", async () => {
  const workers = createOwnWorkers();
  workers.start(() => new Promise(() => {})).catch(() => {});
  await expect(workers.stop()).resolves.toBeUndefined();
});

test("a worker that was stopped says nothing of the health of the others, and its stop is still waited for", async () => {
  const workers = createOwnWorkers();
  const ill = makeWorker({ live: false, ready: false, reason: "stuck" });
  const leave = Promise.withResolvers<void>();
  const first = await workers.start(async () => ({ ...ill, stop: () => leave.promise }));
  await workers.start(async () => makeWorker({ live: true, ready: true }));
  expect(await workers.health()).toMatchObject({ live: false, reason: "stuck" });
  const stopping = first.stop();
  expect(await workers.health()).toEqual({ live: true, ready: true });
  let ended = false;
  const all = workers.stop().then(() => {
    ended = true;
  });
  await new Promise((resolve) => setImmediate(resolve));
  expect(ended).toBe(false);
  leave.resolve();
  await Promise.all([all, stopping]);
});

test("a Drover that is closed while its worker starts leaves none", async () => {
  const url = inject("redisUrl");
  const prefix = testPrefix();
  onTestFinished(() => deletePrefix(url, prefix));
  const agent = defineAgent({ name: "a", instructions: "", model: scriptedModel(["Done."]), tools: [] });
  const drover = createDrover({ redis: url, prefix, agents: [agent], logger: createSilentLogger() });
  const failure = drover.work().catch((error: unknown) => error);
  await drover.close();
  expect(await failure).toMatchObject({ code: "stopped" });
  await expect(drover.work()).rejects.toMatchObject({ code: "stopped" });
});
