// Catches: what another program writes into our sorted sets and lists stops whoever reads them, or keeps them for ever.
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { sweep } from "../../src/engine/sweep.ts";
import { createRedisResponseStore } from "../../src/redis/response-store.ts";
import { readOwing } from "../../src/redis/server-facts.ts";
import { manualClock } from "../../src/testing/manual-clock.ts";
import { createMemoryStepQueue } from "../../src/testing/memory-step-queue.ts";
import { change, committed, created } from "../contract/run-fixtures.ts";
import { begin, session } from "../contract/session-fixtures.ts";
import { collectWarnings, type StoreSetup, setUpStore } from "./setup.ts";

let setup: StoreSetup;
beforeEach(() => {
  setup = setUpStore();
});
afterEach(() => setup.close());

const at = 1_000_000;
/** None is a member of ours; some come before all of ours, some between them, some after. */
const foreign = [
  "",
  " ",
  "#",
  "0",
  "000",
  "0000000010000",
  "000000001000001",
  "5:x",
  "000000001000001:é",
  "x",
  "é",
  "~",
];

async function spoil(key: string): Promise<void> {
  await setup.cli("ZADD", key, ...foreign.flatMap((member) => ["0", member]));
}

describe("a listing that another program writes into", () => {
  test("tells when its oldest run was created", async () => {
    const { store, keys } = setup;
    for (const list of keys.listsByStatus) await spoil(list);
    expect(await store.oldestCreation()).toBeUndefined();
    await created(store, { runId: "young", createdAt: at + 5 });
    await created(store, { runId: "old", createdAt: at, status: "waiting", model: undefined });
    expect(await store.oldestCreation()).toBe(at);
  });

  test("keeps what may be older if all that it begins with is none of ours", async () => {
    const { store, keys, cli } = setup;
    const flood = Array.from({ length: 30 }, (_, index) => ["0", `0000 ${index}`]).flat();
    await cli("ZADD", keys.listByStatus("queued"), ...flood);
    await created(store, { runId: "run-a", createdAt: at });
    expect(await store.oldestCreation()).toBe(0);
  });

  test("is paged through, each run once", async () => {
    const { store, keys, cli } = setup;
    const runIds = Array.from({ length: 7 }, (_, index) => `run-${index}`);
    for (const [index, runId] of runIds.entries()) await created(store, { runId, createdAt: at + index, tenant: "t" });
    const lists = [...keys.listsByStatus, keys.listByTenant("t"), keys.listByAgent("assistant")];
    for (const list of lists) {
      await spoil(list);
      await cli(
        "ZADD",
        list,
        "0",
        "000000000000007:run-3",
        "0",
        "000000001000006:run-3",
        "0",
        "x".repeat(16) + "run-4",
      );
    }
    for (const filter of [{}, { tenant: "t" }, { tenant: "t", agent: "assistant" }, { search: "run" }]) {
      for (const limit of [1, 2, 100]) {
        const found: string[] = [];
        let cursor: string | undefined;
        do {
          const page = await store.list({ ...filter, limit, cursor });
          found.push(...page.runs.map(({ runId }) => runId));
          cursor = page.cursor;
        } while (cursor !== undefined);
        expect(found).toEqual(runIds.toReversed());
      }
    }
  });

  test("ends where there is nothing else", async () => {
    const { store, keys, cli } = setup;
    const flood = Array.from({ length: 5_100 }, (_, index) => ["0", `0000 ${index}`]).flat();
    await cli("ZADD", keys.listByStatus("queued"), ...flood);
    let cursor: string | undefined;
    let pages = 0;
    do {
      const page = await store.list({ limit: 100, cursor });
      expect(page.runs).toEqual([]);
      cursor = page.cursor;
      pages += 1;
    } while (cursor !== undefined);
    expect(pages).toBe(1);
  });

  test("of runs that have ended is rid of it", async () => {
    const { store, keys, cli } = setup;
    await created(store, { runId: "over", createdAt: at, status: "completed", model: undefined, endedAt: at });
    await spoil(keys.listByStatus("completed"));
    await cli("ZADD", keys.ended("completed"), "1", "gone", "1", "a b");
    await store.removeEnded("completed", at, 100);
    expect(await store.oldestEnd("completed")).toBe(at);
    expect(await cli("ZRANGE", keys.listByStatus("completed"), "0", "-1")).toEqual(["000000001000000:over"]);
    expect((await store.count()).completed).toBe(1);
  });
});

test("what is noted as owing and is none of ours is forgotten, and holds up no run", async () => {
  const { store, keys, cli } = setup;
  await created(store, { runId: "run-a", createdAt: at });
  await cli("ZADD", keys.owing, "-inf", "run-a:messages", "1", "", "2", "a b", "3", "12", "inf", "late one");
  const clock = manualClock(at + 60_000);
  const { logger, warnings } = collectWarnings();
  const deps = { store, queue: createMemoryStepQueue({ clock }), clock, logger };
  expect(await sweep(deps)).toBe(1);
  expect(await cli("ZRANGE", keys.owing, "0", "-1")).toEqual(["run-a", "late one"]);
  expect(warnings.filter((line) => line.includes("could not be swept"))).toEqual([]);
  expect((await store.readMessages("run-a", 0, 9)).length).toBe(1);
});

test("times without an end are numbers", async () => {
  const { store, keys, cli, connection } = setup;
  await cli("ZADD", keys.ended("completed"), "inf", "late");
  expect(await store.oldestEnd("completed")).toBe(Number.MAX_SAFE_INTEGER);
  await cli("ZADD", keys.ended("completed"), "-inf", "early");
  expect(await store.oldestEnd("completed")).toBe(0);
  expect(await store.removeEnded("completed", at, 9)).toEqual({ removed: [], kept: 0 });
  expect(await store.oldestEnd("completed")).toBe(Number.MAX_SAFE_INTEGER);
  await cli("ZADD", keys.owing, "-inf", "early");
  expect(await readOwing(connection, keys, at)).toEqual({ count: 1, oldestSince: 0 });
});

test("a run goes on, ends and goes though another program wrote into what counts it", async () => {
  const { store, keys, cli } = setup;
  const spoilt = async (...statuses: string[]): Promise<void> => {
    for (const key of [keys.counts, keys.countsOfTenant("t")]) {
      await cli("HSET", key, ...statuses.flatMap((status) => [`${status} assistant`, "many"]));
    }
  };
  await spoilt("queued", "running", "completed");
  const queued = await created(store, { runId: "run-a", tenant: "t" });
  expect(await store.count({ tenant: "t" })).toMatchObject({ queued: 1 });
  const running = await committed(store, change(queued, { status: "running" }));
  const ended = await committed(store, change(running, { status: "completed", model: undefined, endedAt: at }));
  expect(await store.count({ agent: "assistant" })).toMatchObject({ queued: 0, running: 0, completed: 1 });
  await spoilt("completed");
  expect(await store.remove(ended)).toBe(true);
  expect(await cli("EXISTS", keys.counts, keys.countsOfTenant("t"))).toBe(0);
  await created(store, { runId: "run-b" });
  await spoilt("queued");
  await cli("HDEL", keys.run("run-b").head, "head");
  expect(await store.removeDamaged("run-b")).toMatchObject({ why: "head is gone" });
  expect(await cli("HGET", keys.counts, "queued assistant")).toBeNull();
});

test("counts in which there are other words are numbers", async () => {
  const { store, keys, cli } = setup;
  await created(store, { runId: "run-a" });
  await cli("HSET", keys.counts, "running assistant", "many", "failed assistant", "-3", "x", "y");
  const counts = { ...Object.fromEntries(Object.keys(await store.count()).map((status) => [status, 0])), queued: 1 };
  expect(await store.count({ agent: "assistant" })).toEqual(counts);
});

test("[G3] the line of a session is rid of what no run has put there, and input finds its way past it", async () => {
  const { store, keys, cli } = setup;
  const { line } = keys.session(session);
  await begin(store, "first");
  await begin(store, "second");
  await cli(
    "LPUSH",
    line,
    "",
    "x",
    "NaN:x",
    ":first",
    "01:first",
    "1e3:first",
    "9".repeat(20) + ":x",
    "1:\u00e9",
    "1:",
    "2",
  );
  expect(await store.claimInput(session, "input", "hash")).toMatchObject({ runId: "input" });
  expect((await store.readSession(session, 1)).line).toEqual([{ runId: "first", round: 1 }]);
  expect(await cli("LRANGE", line, "0", "-1")).toEqual(["1:first", "1:second"]);
  expect(await store.claimInput(session, "other", "hash")).toMatchObject({ runId: "first" });
});

test("responses are looked at for removal past those whose record is none", async () => {
  const { connection, keys, cli } = setup;
  const responses = createRedisResponseStore({ connection, keys });
  const record = { runId: "run-a", createdAt: 1, afterSeq: 0, request: {} };
  for (const id of ["whole", "text", "type", "gone"]) await responses.create({ ...record, id });
  await cli("HSET", keys.response("text").head, "record", "x");
  await cli("DEL", keys.response("type").head, keys.response("gone").head);
  await cli("SET", keys.response("type").head, "x");
  const due = Object.fromEntries((await responses.due(2, 9)).map(({ id, runId }) => [id, runId]));
  expect(due).toEqual({ whole: "run-a", text: null, type: null, gone: undefined });
});
