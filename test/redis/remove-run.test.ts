// What only removal from Redis promises: that nothing of the run is left, under a full memory too.
import { afterEach, beforeEach, expect, test } from "vitest";
import { type Run, runStatuses } from "../../src/core/run.ts";
import type { RunStore } from "../../src/ports.ts";
import { change, committed, created } from "../contract/run-fixtures.ts";
import { startTestRedis } from "../support/redis.ts";
import { atWork, everything, type StoreSetup, setUpStore } from "./setup.ts";

let setup: StoreSetup;
beforeEach(() => {
  setup = setUpStore();
});
afterEach(() => setup.close());

const delta = { turn: 1, attempt: 1, execution: "e", text: "x" };

/** The same once it has ended. */
async function ended(store: RunStore, fields: Partial<Run> = {}, bytes = 100): Promise<Run> {
  const run = await atWork(store, fields, bytes);
  return committed(store, change(run, { status: "failed", stopReason: "model_error" }));
}

test("leaves every key and index as it was before the run", async () => {
  await ended(setup.store, { runId: "other" });
  const before = await everything(setup);
  const run = await ended(setup.store, { session: "s1", model: { attempt: 1, owedAt: 1 } });
  const during = Object.keys(await everything(setup)).filter((name) => name.includes("run-a"));
  const { head, messages, results, outputs, feed, live } = setup.keys.run("run-a");
  expect(during).toEqual([head, feed, live, messages, outputs, results].toSorted());
  expect(await setup.store.remove(run)).toBe(true);
  const { [setup.keys.idleSessions]: idle, ...after } = await everything(setup);
  expect(after).toEqual(before);
  expect(idle).toEqual([["s1", expect.stringMatching(/^\d{13}$/)]]);
  expect(await setup.store.removeIdleSessions(Date.now() + 60_000, 10)).toBe(1);
  expect(await everything(setup)).toEqual(before);
});

test("a word or a result that comes too late leaves nothing behind", async () => {
  const run = await ended(setup.store);
  await setup.store.remove(run);
  await setup.store.publishLive("run-a", [delta]);
  expect(await setup.cli("EXISTS", setup.keys.run("run-a").live)).toBe(0);
  // Whoever keeps it drops it when its result is refused; should its worker die before that, it goes by itself.
  await setup.store.putOutput("run-a", "call-1-1.b", "late");
  const left = Number(await setup.cli("PTTL", setup.keys.run("run-a").outputs));
  expect(left).toBeGreaterThan(0);
  expect(left).toBeLessThanOrEqual(3_600_000);
  const again = await created(setup.store);
  await setup.store.putOutput(again.runId, "call-1-1.c", "kept");
  expect(await setup.cli("PTTL", setup.keys.run("run-a").outputs)).toBe(-1);
});

test("a run that an older version made, or ended, is in no count once it is removed", async () => {
  const { store, cli, keys } = setup;
  const none = Object.fromEntries(runStatuses.map((status) => [status, 0]));
  const old = await ended(store, { runId: "old", minReader: 4 });
  await cli("HDEL", keys.run("old").head, "counted");
  await cli("DEL", keys.counts, keys.countsOfTenant("t1"));
  const moved = await created(store, { runId: "moved", tenant: "t1", status: "running", minReader: 4 });
  // As an older version ends it: the listing follows, the counts do not.
  await cli("HSET", keys.run("moved").head, "status", "failed", "rev", "2", "tok", "older");
  const later: Run = { ...moved, status: "failed", revision: 2, token: "older" };
  expect(await store.count({ tenant: "t1" })).toEqual({ ...none, running: 1 });
  const retried = await committed(store, change(old, { status: "queued" }));
  expect(await store.count({ tenant: "t1" })).toEqual({ ...none, running: 1, queued: 1 });
  expect(await store.remove(retried)).toBe(true);
  expect(await store.remove(later)).toBe(true);
  expect(await store.count({ tenant: "t1" })).toEqual(none);
  expect(await store.count({ agent: "assistant" })).toEqual(none);
  expect(await cli("EXISTS", keys.counts, keys.countsOfTenant("t1"))).toBe(0);
});

test("works on a Redis whose memory is full, which is what makes room", async () => {
  const redis = await startTestRedis({ own: true });
  const own = setUpStore(redis.url, redis.prefix);
  const runs = [await ended(own.store, { runId: "big" }, 2_000_000), await ended(own.store, { runId: "small" })];
  await redis.cli("CONFIG", "SET", "maxmemory", "1");
  await expect(created(own.store, { runId: "another" })).rejects.toMatchObject({ code: "queue_unavailable" });
  for (const run of runs) expect(await own.store.remove(run)).toBe(true);
  expect(await redis.cli("KEYS", `${redis.prefix}*`)).toEqual([]);
  await own.connection.close();
  await redis.stop();
});

test("frees a big run in the background", async () => {
  const { cli, keys, store } = setup;
  const run = await ended(store, {}, 1_000_000);
  const before = String(await cli("INFO", "commandstats"));
  expect(await store.remove(run)).toBe(true);
  const after = String(await cli("INFO", "commandstats"));
  const calls = (info: string, name: string): number =>
    Number(new RegExp(`cmdstat_${name}:calls=(\\d+)`).exec(info)?.[1] ?? 0);
  expect(calls(after, "unlink")).toBeGreaterThan(calls(before, "unlink"));
  expect(await cli("EXISTS", keys.run("run-a").messages)).toBe(0);
});
