import { Queue } from "bullmq";
import { afterEach, beforeEach, describe, expect, inject, test, vi } from "vitest";
import { z } from "zod";
import { defineAgent } from "../src/define-agent.ts";
import { createDrover, type Drover } from "../src/drover.ts";
import { createFleetReader } from "../src/fleet.ts";
import type { FleetReader } from "../src/ports.ts";
import { connect } from "../src/redis/connection.ts";
import { createRedisFleetSwitch } from "../src/redis/fleet-switch.ts";
import { createRedisGates } from "../src/redis/gates.ts";
import { createRedisPresence } from "../src/redis/presence.ts";
import { createSilentLogger } from "../src/telemetry/logger.ts";
import { scriptedModel } from "../src/testing/scripted-model.ts";
import { defineTool } from "../src/tools/define-tool.ts";
import { worker } from "./contract/presence.contract.ts";
import { created } from "./contract/run-fixtures.ts";
import { type StoreSetup, setUpStore } from "./redis/setup.ts";
import { eventually } from "./support/eventually.ts";
import { commandsDuring } from "./support/monitor.ts";
import { startTestRedis } from "./support/redis.ts";

const url = inject("redisUrl");

function readerOf({ connection, keys, store }: StoreSetup): FleetReader {
  const presence = createRedisPresence({ connection, keys });
  const gates = createRedisGates({ connection, keys });
  const fleetSwitch = createRedisFleetSwitch({ connection, keys });
  return createFleetReader({ connection, keys, shards: [keys], store, presence, fleetSwitch, gates });
}

describe("the fleet as it is read", () => {
  let setup: StoreSetup;
  beforeEach(() => {
    setup = setUpStore();
  });
  afterEach(() => setup.close());

  test("of an installation in which nothing is", async () => {
    const { redis, counts, at, ...rest } = await readerOf(setup).read();
    const queue = { waiting: 0, active: 0, delayed: 0, workers: 0 };
    expect(rest).toEqual({
      workers: [],
      agents: [],
      queues: ["runs", "model", "tools"].map((name) => ({ name, ...queue })),
      gates: [],
      owing: { count: 0 },
    });
    expect(Object.values(counts).every((count) => count === 0)).toBe(true);
    expect(redis.version).toMatch(/^\d+\.\d+/);
    expect(redis.usedMemoryBytes).toBeGreaterThan(100_000);
    expect(redis.clients).toBeGreaterThan(0);
    expect(redis.roundTripMs).toBeGreaterThan(0);
    expect(Math.abs(at - Date.now())).toBeLessThan(60_000);
  });

  test("tells workers, queues that they and their agents name, runs and what is owed", async () => {
    const { store, keys, connection } = setup;
    const presence = createRedisPresence({ connection, keys });
    await presence.tell(worker("w1", { queues: ["model", "tools-browser"] }), [], [], 60_000);
    await presence.tell(
      worker("w2"),
      [{ name: "a", model: "m", tools: [], queues: ["tools-gpu"], seenAt: 1 }],
      [],
      60_000,
    );
    const later = Date.now() + 3_600_000;
    const model = { attempt: 1, owedAt: 1 };
    await created(store, { runId: "now", updatedAt: 5_000, model });
    await created(store, { runId: "later", model: { ...model, notBefore: later } });
    const view = await readerOf(setup).read();
    expect(view.workers.map(({ id }) => id)).toEqual(["w1", "w2"]);
    expect(view.agents.map(({ name }) => name)).toEqual(["a"]);
    expect(view.queues.map(({ name, workers }) => [name, workers])).toEqual([
      ["runs", 0],
      ["model", 2],
      ["tools", 0],
      ["tools-browser", 1],
      ["tools-gpu", 0],
    ]);
    expect(view.counts).toMatchObject({ queued: 2, running: 0 });
    expect(view.owing).toEqual({ count: 1, oldestSince: 5_000 });
  });

  test("is read beside an agent and a worker that cannot be", async () => {
    const { keys, connection, cli } = setup;
    await createRedisPresence({ connection, keys }).tell(worker("w1"), [], [], 60_000);
    await createRedisPresence({ connection, keys }).tell(worker("w2"), [], [], 60_000);
    await cli("HSET", keys.presence.told, "w2", "{");
    await cli("HSET", keys.presence.agents, "a", "{");
    const view = await readerOf(setup).read();
    expect(view.workers.map(({ id }) => id)).toEqual(["w1"]);
    expect(view.agents).toEqual([]);
  });

  test("tells who is inside a limit, who waits, what is off and what is paused", async () => {
    const { keys, connection } = setup;
    const gates = createRedisGates({ connection, keys });
    const presence = createRedisPresence({ connection, keys });
    const known = [
      { key: "tool:t", kind: "tool" as const, name: "t", concurrency: 1 },
      { key: "model:m", kind: "model" as const, name: "m" },
    ];
    await presence.tell(worker("w1"), [], known, 60_000);
    for (const holder of ["a", "b", "c"]) {
      await gates.enter({ holder, token: holder, leaseMs: 60_000, gates: [{ key: "tool:t", concurrency: 1 }] });
    }
    const breaker = { version: 1, failures: 10, openUntil: Date.now() + 60_000, openMs: 60_000 };
    await gates.swapBreaker("tool:t", 0, breaker);
    const pausedUntil = await gates.pause("model:m", 60_000);
    expect((await readerOf(setup).read()).gates).toEqual([
      { ...known[1], inside: 0, waiting: 0, pausedUntil },
      { ...known[0], inside: 1, waiting: 2, breaker },
    ]);
  });

  test("is read once for all who look within a second, and anew after that", async () => {
    const reader = readerOf(setup);
    const views = await Promise.all(Array.from({ length: 20 }, () => reader.read()));
    expect(new Set(views).size).toBe(1);
    expect(await reader.read()).toBe(views[0]);
    await created(setup.store);
    const next = await eventually(async () => {
      const view = await reader.read();
      return view === views[0] ? undefined : view;
    });
    expect(next.counts.queued).toBe(1);
  });

  test("takes a bounded number of commands, however many runs and steps there are", async () => {
    const { store, keys } = setup;
    await Promise.all(Array.from({ length: 300 }, (_, index) => created(store, { runId: `run-${index}` })));
    const commands = await commandsDuring(url, keys.prefix, () => readerOf(setup).read());
    expect(commands.length).toBeGreaterThan(0);
    expect(commands.filter(({ source }) => source !== "lua").length).toBeLessThan(60);
  });

  test("is told as far as a host that refuses INFO lets it", async () => {
    const redis = await startTestRedis({ own: true });
    await redis.cli("ACL", "SETUSER", "drover", "on", ">secret", "~*", "&*", "+@all");
    const own = setUpStore(redis.url.replace("redis://", "redis://drover:secret@"), redis.prefix);
    await own.connection.ready(); // The client library would print that its own check is refused.
    await redis.cli("ACL", "SETUSER", "drover", "-info");
    const { redis: facts, queues } = await readerOf(own).read();
    expect(facts).toEqual({ roundTripMs: expect.any(Number) });
    expect(queues).toHaveLength(3);
    await own.connection.close();
    await redis.stop();
  });

  test("is read from a cluster too, and runs are counted and removed there", async () => {
    const redis = await startTestRedis({ args: ["--cluster-enabled", "yes"] });
    await redis.cli("CLUSTER", "ADDSLOTSRANGE", "0", "16383");
    await vi.waitFor(async () => expect(await redis.cli("CLUSTER", "INFO")).toContain("cluster_state:ok"), {
      timeout: 10_000,
    });
    const own = setUpStore(redis.url, redis.prefix);
    const gates = createRedisGates(own);
    const presence = createRedisPresence(own);
    await presence.tell(worker("w1"), [], [{ key: "tool:t", kind: "tool", name: "t", concurrency: 1 }], 60_000);
    await gates.enter({ holder: "a", token: "t", leaseMs: 60_000, gates: [{ key: "tool:t", concurrency: 1 }] });
    const queue = new Queue("model", { connection: { url: redis.url }, prefix: `${redis.prefix}:q` });
    await queue.add("model", {}, { priority: 5 });
    const run = await created(own.store, { tenant: "t1", session: "s1" });
    const view = await readerOf(own).read();
    expect(view.queues.find(({ name }) => name === "model")).toMatchObject({ waiting: 1, workers: 1 });
    expect(view.gates).toMatchObject([{ name: "t", inside: 1 }]);
    expect(await own.store.count({ tenant: "t1" })).toMatchObject({ queued: 1 });
    expect((await own.store.list({ tenant: "t1", session: "s1" })).runs).toHaveLength(1);
    expect(await own.store.remove(run)).toBe(true);
    expect(await own.store.count({ tenant: "t1" })).toMatchObject({ queued: 0 });
    await queue.close();
    await own.connection.close();
    await redis.stop();
  });

  test("of a Redis that is away is an error, and is told again when it is back", async () => {
    const redis = await startTestRedis({ own: true });
    const own = setUpStore(redis.url, redis.prefix);
    const connection = connect(redis.url, { role: "producer" });
    const reader = readerOf({ ...own, connection });
    await reader.read();
    await redis.kill9();
    await eventually(async () => {
      const failed = await reader.read().catch((error: unknown) => error);
      return failed instanceof Error || undefined;
    });
    await expect(reader.read()).rejects.toMatchObject({ code: "queue_unavailable" });
    await redis.restart();
    const view = await eventually(() => reader.read().catch(() => undefined));
    expect(view.queues).toHaveLength(3);
    await connection.close();
    await own.connection.close();
    await redis.stop();
  });
});

describe("drover.fleet()", () => {
  test("shows workers of this process while they work, what is under way, and an open breaker", async () => {
    const { keys, close } = setUpStore();
    const gate = Promise.withResolvers<string>();
    const began = Promise.withResolvers<void>();
    const parameters = z.object({ n: z.number() });
    const hold = defineTool({
      name: "hold",
      description: "Waits.",
      parameters,
      effect: "read",
      queue: "slow",
      concurrency: 1,
      execute: () => {
        began.resolve();
        return gate.promise;
      },
    });
    const fail = defineTool({
      name: "fail",
      description: "Fails.",
      parameters,
      effect: "read",
      breaker: { failures: 1, openMs: 60_000 },
      execute: () => {
        throw new Error("down");
      },
    });
    const model = scriptedModel([
      {
        toolCalls: [
          { name: "hold", arguments: { n: 1 } },
          { name: "fail", arguments: { n: 2 } },
        ],
      },
      "done",
    ]);
    const agent = defineAgent({ name: "fleet", instructions: "", model, tools: [hold, fail], version: "3" });
    const options = { redis: url, prefix: keys.prefix, logger: createSilentLogger() };
    const drover: Drover = createDrover({ ...options, agents: [agent] });
    const producer = createDrover(options);
    const handle = await drover.work({ concurrency: 7 });
    const run = await drover.start(agent, "go");
    await began.promise;
    const view = await eventually(async () => {
      const seen = await producer.fleet();
      return seen.workers.length === 1 && seen.gates.some(({ breaker }) => breaker?.openUntil) ? seen : undefined;
    });
    expect(view.workers).toMatchObject([{ pid: process.pid, concurrency: 7 * 4, agents: ["fleet"] }]);
    expect(view.agents).toMatchObject([{ name: "fleet", model: "scripted", tools: ["hold", "fail"], version: "3" }]);
    expect(view.queues.find(({ name }) => name === "tools-slow")).toMatchObject({ active: 1, workers: 1 });
    expect(view.gates.find(({ name }) => name === "hold")).toMatchObject({ kind: "tool", concurrency: 1, inside: 1 });
    expect(view.gates.find(({ name }) => name === "fail")?.breaker?.openUntil).toBeGreaterThan(view.at);
    expect(view.counts.running + view.counts.waiting).toBe(1);
    gate.resolve("x");
    await run.result({ timeoutMs: 10_000 });
    await handle.stop();
    const after = await eventually(async () => {
      const seen = await producer.fleet();
      return seen.workers.length === 0 ? seen : undefined;
    });
    expect(after.counts.completed).toBe(1);
    expect(after.queues.every(({ workers }) => workers === 0)).toBe(true);
    await drover.close();
    await producer.close();
    await expect(producer.fleet()).rejects.toMatchObject({ code: "stopped" });
    await close();
  });
});

test("drover.pauseAll() takes hold of a fleet whose Redis is full, and resumeAll() lets it go", async () => {
  const redis = await startTestRedis({ own: true });
  const options = { redis: redis.url, prefix: redis.prefix, logger: createSilentLogger() };
  const agent = defineAgent({ name: "paused", instructions: "", model: scriptedModel(["done"]) });
  const drover = createDrover({ ...options, agents: [agent] });
  const operator = createDrover(options);
  await drover.work();
  const run = await drover.start(agent, "go");
  await run.result({ timeoutMs: 10_000 });
  await redis.cli("CONFIG", "SET", "maxmemory", "1");
  await expect(drover.start(agent, "go")).rejects.toMatchObject({ code: "queue_unavailable" });
  const paused = await operator.pauseAll({ by: "ann", reason: "its memory is full", waitMs: 30_000 });
  expect(paused).toMatchObject({ applied: true, by: "ann", workers: 1, taking: 0 });
  expect((await operator.fleet()).paused).toMatchObject({ by: "ann" });
  expect(await operator.resumeAll()).toBe(true);
  expect(await operator.resumeAll()).toBe(false);
  await operator.close();
  await drover.close();
  await redis.stop();
});
