// Catches: runs that stay for ever though they should go, runs that go though they should stay, a sweep without an end.
import { expect, test } from "vitest";
import { DamagedRecord, DroverError } from "../../src/core/errors.ts";
import type { Run } from "../../src/core/run.ts";
import { createRetentionTurn, type RetentionDeps, removeExpired } from "../../src/engine/retention.ts";
import { startSweeper } from "../../src/engine/sweep.ts";
import type { Count, KnownAgent, Logger } from "../../src/ports.ts";
import { createSilentLogger } from "../../src/telemetry/logger.ts";
import { createMemoryPresence, createMemoryResponseStore } from "../../src/testing/memory-operators.ts";
import { type Bench, makeBench } from "./support.ts";

const hour = 3_600_000;

/** Runs that were cancelled now. */
async function cancelled(bench: Bench, names: string[], session?: string): Promise<void> {
  const { client, runStep } = bench.process();
  for (const runId of names) {
    await client.start("a", "go", { runId, ...(session === undefined ? {} : { session }) });
    await client.command(runId, { type: "cancel_requested", by: "t", reason: "r" });
  }
  // A run in a session has the next one to tell.
  for (let taken = bench.queue.take(); taken; taken = bench.queue.take()) taken.end(await runStep(taken.delivery));
}

function depsOf(bench: Bench): RetentionDeps & { counts: Count[]; lines: unknown[]; announced: string[] } {
  const counts: Count[] = [];
  const lines: unknown[] = [];
  const announced: string[] = [];
  const logger: Logger = { ...createSilentLogger(), info: (fields) => void lines.push(fields) };
  const telemetry = { count: (of: Count, by = 1): void => void counts.push(...Array.from({ length: by }, () => of)) };
  const signals = { announce: async (runId: string): Promise<void> => void announced.push(runId) };
  return { ...bench, signals, logger, telemetry, counts, lines, announced };
}

test("removes what is older than its status's age, counts it, tells of it and logs one line", async () => {
  const bench = makeBench();
  const deps = depsOf(bench);
  await cancelled(bench, ["old-1", "old-2"]);
  bench.clock.advance(2 * hour);
  await cancelled(bench, ["young"]);
  expect(await removeExpired(deps, {})).toEqual({});
  expect(await removeExpired(deps, { failed: hour, cancelled: 0 })).toEqual({});
  expect(await removeExpired(deps, { cancelled: 3 * hour })).toEqual({});
  expect(deps.lines).toEqual([]);
  expect(await removeExpired(deps, { cancelled: hour })).toEqual({ cancelled: 2 });
  expect(deps.lines).toEqual([{ cancelled: 2 }]);
  expect(deps.announced).toEqual(["old-1", "old-2"]);
  expect(deps.counts).toEqual(Array.from({ length: 2 }, () => ({ what: "run_removed", status: "cancelled" })));
  expect((await bench.store.list({})).runs.map(({ runId }) => runId)).toEqual(["young"]);
});

test("goes on page by page, and leaves the rest to the next look when its time is up", async () => {
  const bench = makeBench();
  const deps = depsOf(bench);
  await cancelled(
    bench,
    Array.from({ length: 250 }, (_, index) => `run-${index}`),
  );
  bench.clock.advance(2 * hour);
  const pages: number[] = [];
  const clock = {
    now: () => bench.clock.now(),
    // Between two pages a second passes.
    sleep: async () => bench.clock.advance(1_000),
  };
  const removeEnded: typeof bench.store.removeEnded = async (...page) => {
    pages.push(page[2]);
    return bench.store.removeEnded(...page);
  };
  const store = { ...bench.store, removeEnded };
  expect(await removeExpired({ ...deps, store, clock }, { cancelled: hour })).toEqual({ cancelled: 250 });
  expect(pages).toEqual([100, 100, 100]);
  await cancelled(
    bench,
    Array.from({ length: 400 }, (_, index) => `run-${index}`),
  );
  bench.clock.advance(2 * hour);
  expect(await removeExpired({ ...deps, store, clock }, { cancelled: hour })).toEqual({ cancelled: 300 });
  expect(await removeExpired({ ...deps, store, clock }, { cancelled: hour })).toEqual({ cancelled: 100 });
});

test("a session's transcript goes with its last run", async () => {
  const bench = makeBench();
  await cancelled(bench, ["one", "two"], "s1");
  bench.clock.advance(2 * hour);
  expect(await removeExpired(depsOf(bench), { cancelled: hour })).toEqual({ cancelled: 2 });
  expect(await bench.store.readSession("s1", 9)).toEqual({ line: [], messageCount: 0 });
  expect(await bench.store.removeIdleSessions(Number.MAX_SAFE_INTEGER, 9)).toBe(0);
});

test("responses go with their runs, also where a run was deleted by hand or never came to be", async () => {
  const bench = makeBench();
  const responses = createMemoryResponseStore(bench);
  const deps = { ...depsOf(bench), responses };
  await cancelled(bench, ["old", "young"]);
  const record = { createdAt: bench.clock.now(), afterSeq: 0, request: {} };
  await responses.create({ ...record, id: "resp_old", runId: "old" });
  await responses.create({ ...record, id: "next_resp_old", runId: "old" });
  await responses.create({ ...record, id: "resp_never", runId: "never" });
  await bench.process().client.start("a", "go", { runId: "waits" });
  await responses.create({ ...record, id: "resp_waits", runId: "waits" });
  bench.clock.advance(2 * hour);
  await removeExpired(deps, { cancelled: hour, failed: 5 * hour });
  for (const id of ["resp_old", "next_resp_old", "resp_never"]) expect(await responses.get(id)).toBeUndefined();
  expect(await responses.get("resp_waits")).toBeDefined();
  // It is looked at when its run's own age says so, and not each time.
  expect(await responses.due(bench.clock.now() - hour, 9)).toEqual([]);
  await bench.process().client.command("waits", { type: "cancel_requested", by: "t", reason: "r" });
  bench.clock.advance(hour + 1);
  await removeExpired(deps, { cancelled: hour, failed: 5 * hour });
  expect(await responses.get("resp_waits")).toBeUndefined();
});

test("a response of which nobody can tell whether its run is there is put off, and holds up no other", async () => {
  const bench = makeBench();
  const responses = createMemoryResponseStore(bench);
  const record = { createdAt: bench.clock.now(), afterSeq: 0, request: {} };
  for (const id of ["damaged", "unread", "gone"]) await responses.create({ ...record, id, runId: id });
  const load = async (runId: string): Promise<Run | null> => {
    if (runId === "damaged") throw new DamagedRecord("run damaged", "head is not JSON");
    return bench.store.load(runId);
  };
  const due: typeof responses.due = async (...page) =>
    (await responses.due(...page)).map(({ id, runId }) => ({ id, runId: id === "unread" ? null : runId }));
  bench.clock.advance(2 * hour);
  const deps = { ...depsOf(bench), store: { ...bench.store, load }, responses: { ...responses, due } };
  await removeExpired(deps, { cancelled: hour });
  expect(await responses.get("gone")).toBeUndefined();
  expect(await responses.due(bench.clock.now(), 9)).toEqual([]);
  expect((await responses.due(bench.clock.now() + 1, 9)).map(({ id }) => id)).toEqual(["damaged", "unread"]);
});

test("what stands in the way of one part holds up no other, and is told", async () => {
  const bench = makeBench();
  const presence = createMemoryPresence(bench);
  const worker = { id: "w", host: "h", pid: 1, version: "1", startedAt: 0, seenAt: 0, queues: [], concurrency: 1 };
  const old: KnownAgent = { name: "old", model: "m", tools: [], seenAt: 0 };
  await presence.tell({ ...worker, running: 0, agents: [] }, [old], [], 1_000);
  await cancelled(bench, ["one", "two"], "s1");
  bench.clock.advance(2 * hour);
  const broken = async (): Promise<never> => {
    throw new DroverError("invalid", "another type");
  };
  const removeEnded: typeof bench.store.removeEnded = (status, ...page) =>
    status === "completed" ? broken() : bench.store.removeEnded(status, ...page);
  const store = { ...bench.store, removeEnded, oldestCreation: broken };
  const deps = { ...depsOf(bench), store, presence };
  await expect(removeExpired(deps, { completed: hour, cancelled: hour })).rejects.toThrow("another type");
  expect(await bench.store.count()).toMatchObject({ cancelled: 0 });
  expect((await bench.store.readSession("s1", 9)).messageCount).toBe(0);
  expect(await presence.agents()).toEqual([]);
});

test("definitions go once all runs are gone that were there when they were last put, and not before", async () => {
  const bench = makeBench();
  const { store, clock } = bench;
  const deps = depsOf(bench);
  const definition = { name: "a", instructions: "", model: "m", provider: "p", tools: [], request: {}, limits: {} };
  const isKept = async (hash: string): Promise<boolean> => (await store.getDefinition(hash)) !== null;
  await bench.process().client.start("a", "go", { runId: "long" });
  await store.putDefinition("first", definition);
  clock.advance(5 * hour);
  await cancelled(bench, ["young"]);
  await store.putDefinition("second", definition);
  expect(await removeExpired(deps, { cancelled: 2 * hour })).toEqual({});
  expect(await isKept("first")).toBe(true);
  await bench.process().client.command("long", { type: "cancel_requested", by: "t", reason: "r" });
  await removeExpired(deps, { cancelled: hour });
  expect(await isKept("first")).toBe(true);
  clock.advance(hour + 1);
  await store.putDefinition("second", definition);
  await cancelled(bench, ["last"]);
  expect(await removeExpired(deps, { cancelled: hour })).toEqual({ cancelled: 2 });
  expect([await isKept("first"), await isKept("second")]).toEqual([false, true]);
  clock.advance(hour + 1);
  expect(await removeExpired(deps, { cancelled: hour })).toEqual({ cancelled: 1 });
  expect(await isKept("second")).toBe(false);
});

test("no definition goes while the oldest run is of a clock that was far ahead, and may be old", async () => {
  const bench = makeBench();
  const deps = depsOf(bench);
  const definition = { name: "a", instructions: "", model: "m", provider: "p", tools: [], request: {}, limits: {} };
  await bench.store.putDefinition("h", definition);
  const oldestCreation = async (): Promise<number> => bench.clock.now() + 5 * hour;
  bench.clock.advance(3 * hour);
  await removeExpired({ ...deps, store: { ...bench.store, oldestCreation } }, { cancelled: hour });
  expect(await bench.store.getDefinition("h")).toEqual(definition);
  await removeExpired(deps, { cancelled: hour });
  expect(await bench.store.getDefinition("h")).toBeNull();
});

test("agents that no worker has had for as long go, unless runs of theirs are left", async () => {
  const bench = makeBench();
  const presence = createMemoryPresence(bench);
  const worker = { id: "w", host: "h", pid: 1, version: "1", startedAt: 0, seenAt: 0, queues: [], concurrency: 1 };
  const agent = (name: string, seenAt: number): KnownAgent => ({ name, model: "m", tools: [], seenAt });
  const now = bench.clock.now();
  const known = [agent("a", now - 2 * hour), agent("gone", now - 2 * hour), agent("young", now)];
  await presence.tell({ ...worker, running: 0, agents: [] }, known, [], 1_000);
  await bench.process().client.start("a", "go", { runId: "waits" });
  await removeExpired({ ...depsOf(bench), presence }, { cancelled: hour });
  expect((await presence.agents()).map(({ name }) => name)).toEqual(["a", "young"]);
});

test("one process of the fleet does it, not before it has run for a while, and also when Redis takes no lease", async () => {
  const bench = makeBench();
  await cancelled(bench, ["old"]);
  bench.clock.advance(2 * hour);
  expect(createRetentionTurn(depsOf(bench), {})).toBeUndefined();
  const turn = createRetentionTurn(depsOf(bench), { cancelled: hour });
  await turn?.(5_000);
  expect(await bench.store.load("old")).not.toBeNull();
  bench.clock.advance(10_000);
  expect(await bench.store.tryLease("retention", 1_000)).toBe(true);
  await turn?.(5_000);
  expect(await bench.store.load("old")).not.toBeNull();
  const tryLease = async (): Promise<boolean> => {
    throw new DroverError("queue_unavailable", "out of memory");
  };
  const full = createRetentionTurn({ ...depsOf(bench), store: { ...bench.store, tryLease } }, { cancelled: hour });
  bench.clock.advance(10_000);
  await full?.(5_000);
  expect(await bench.store.load("old")).toBeNull();
});

test("the sweeper does it at its turns", async () => {
  const bench = makeBench();
  await cancelled(bench, ["old"]);
  const sweeper = startSweeper({ ...bench, logger: createSilentLogger() }, { retention: { cancelled: hour } });
  while (await bench.store.load("old")) {
    await bench.clock.whenSleeping();
    bench.clock.advance(hour / 4);
  }
  await sweeper.stop();
  expect(await bench.store.count()).toMatchObject({ cancelled: 0 });
});
