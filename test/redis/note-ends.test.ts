// Catches: runs that an older version ended and that therefore stay for ever, and ends noted of runs that go on.
import { afterEach, beforeEach, expect, test } from "vitest";
import type { Run } from "../../src/core/run.ts";
import { at, change, committed, created } from "../contract/run-fixtures.ts";
import { type StoreSetup, setUpStore } from "./setup.ts";

let setup: StoreSetup;
beforeEach(() => {
  setup = setUpStore();
});
afterEach(() => setup.close());

const later = at + 1_000;

/** A run that ended at `endedAt`, as if by a version that notes no ends. */
async function endedBefore(runId: string, endedAt: number, fields: Partial<Run> = {}): Promise<Run> {
  const { store, cli, keys } = setup;
  const run = await created(store, { runId, createdAt: endedAt });
  const over = await committed(store, change(run, { status: "completed", model: undefined, endedAt, ...fields }));
  await cli("ZREM", keys.ended(over.status), runId);
  return over;
}

test("ends that an older version did not note are noted, and the runs go when their time is over", async () => {
  const { store } = setup;
  await endedBefore("old-1", at + 1);
  await endedBefore("old-2", at + 2, { endedAt: undefined, updatedAt: at + 2 });
  await endedBefore("failed", at + 3, { status: "failed" });
  await created(store, { runId: "going", status: "running" });
  expect(await store.removeEnded("completed", later, 10)).toEqual({ removed: [], kept: 0 });
  expect(await store.oldestEnd("completed")).toBe(at + 1);
  expect(await store.oldestEnd("failed")).toBeUndefined();
  // One whose record does not say when it ended stays.
  expect(await store.removeEnded("completed", later, 10)).toEqual({ removed: ["old-1"], kept: 1 });
  expect((await store.list({ limit: 10 })).runs.map(({ runId }) => runId).toSorted()).toEqual([
    "failed",
    "going",
    "old-2",
  ]);
});

test("however many there are: each look goes on where the last one ended", async () => {
  const { store, cli, keys } = setup;
  await Promise.all(Array.from({ length: 620 }, (_, index) => endedBefore(`old-${index}`, at + index)));
  await store.removeEnded("completed", at, 10);
  expect(await cli("ZCARD", keys.ended("completed"))).toBe(500);
  await store.removeEnded("completed", at, 10);
  expect(await cli("ZCARD", keys.ended("completed"))).toBe(620);
  let removed = 0;
  for (let look = 0; look < 7; look += 1) removed += (await store.removeEnded("completed", later, 100)).removed.length;
  expect(removed).toBe(620);
});

test("what is only listed as ended is not noted, and what cannot be read or written is left to the next look", async () => {
  const { store, cli, keys, warnings } = setup;
  const run = await endedBefore("old", at + 1, { status: "failed" });
  const member = String(await cli("ZRANGE", keys.listByStatus("failed"), "0", "0"));
  await cli("ZADD", keys.listByStatus("completed"), "0", member);
  expect(await store.removeEnded("completed", later, 10)).toEqual({ removed: [], kept: 0 });
  expect(await store.oldestEnd("completed")).toBeUndefined();
  await cli("SET", keys.listByStatus("cancelled"), "no set");
  expect(await store.removeEnded("cancelled", later, 10)).toEqual({ removed: [], kept: 0 });
  expect(warnings.join()).toContain("could not be noted");
  await cli("HSET", keys.run("old").head, "rev", String(run.revision + 1));
  await store.removeEnded("failed", later, 10);
  expect(await store.removeEnded("failed", later, 10)).toEqual({ removed: ["old"], kept: 0 });
});
