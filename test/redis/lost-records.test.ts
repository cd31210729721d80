// Catches: a record that is lost or damaged and stays in the way for ever: owed, listed, counted, first in its session.
import { afterEach, beforeEach, expect, test } from "vitest";
import { sweep } from "../../src/engine/sweep.ts";
import { createSilentLogger } from "../../src/telemetry/logger.ts";
import { manualClock } from "../../src/testing/manual-clock.ts";
import { createMemoryStepQueue } from "../../src/testing/memory-step-queue.ts";
import { at, created } from "../contract/run-fixtures.ts";
import { type StoreSetup, setUpStore } from "./setup.ts";

let setup: StoreSetup;
beforeEach(() => {
  setup = setUpStore();
});
afterEach(() => setup.close());

const model = { attempt: 1, owedAt: 1 };

test("a run whose record is lost is swept once, and no other run is left out of that sweep", async () => {
  const { store, cli, keys } = setup;
  const runIds = Array.from({ length: 120 }, (_, index) => `run-${String(index).padStart(3, "0")}`);
  for (const [index, runId] of runIds.entries()) await created(store, { runId, updatedAt: at + index, model });
  for (const runId of runIds.slice(0, 50)) await cli("DEL", keys.run(runId).head);
  const loaded: string[] = [];
  const load: typeof store.load = async (runId) => {
    loaded.push(runId);
    return store.load(runId);
  };
  const clock = manualClock(at + 60_000);
  const queue = createMemoryStepQueue({ clock });
  const deps = { store: { ...store, load }, queue, clock, logger: createSilentLogger() };
  expect(await sweep(deps)).toBe(70);
  expect(loaded.toSorted()).toEqual(runIds);
  expect(await store.owing(at + 60_000, 1_000)).toEqual(runIds.slice(50));
  loaded.length = 0;
  await sweep(deps);
  expect(loaded.toSorted()).toEqual(runIds.slice(50));
});
