// Catches: a damaged run that nobody can delete; a deletion that takes a whole run for a damaged one, or another's keys.
import { expect, test } from "vitest";
import { DroverError } from "../../src/core/errors.ts";
import { deleteRun } from "../../src/engine/delete-run.ts";
import type { RunStore } from "../../src/ports.ts";
import { createSilentLogger } from "../../src/telemetry/logger.ts";
import { makeBench } from "./support.ts";

const unreadable = new DroverError("invalid", "The stored record is damaged.");
const damage = { why: "it is not JSON" };

/** Deletes over a store with some methods of its own; tells what was asked for as damaged, and announced. */
function makeScene(changed: Partial<RunStore> = {}) {
  const bench = makeBench();
  const told: string[] = [];
  const store: RunStore = {
    ...bench.store,
    ...changed,
    removeDamaged: async (runId) => {
      told.push(`look ${runId}`);
      return (changed.removeDamaged ?? bench.store.removeDamaged)(runId);
    },
  };
  const announce = async (runId: string): Promise<void> => void told.push(`announce ${runId}`);
  const advance = async () => ({ run: null, change: null });
  const { queue } = bench;
  const deps = { store, queue, advance, signals: { ...bench.signals, announce }, logger: createSilentLogger() };
  const engine = bench.process();
  return { bench, told, engine, start: () => engine.client.start("a", "go", { runId: "run-a" }), deps };
}

test("a record that cannot be read is removed, and said to have been damaged", async () => {
  const load = async (): Promise<never> => {
    throw unreadable;
  };
  const { deps, told } = makeScene({ load, removeDamaged: async () => damage });
  expect(await deleteRun(deps, "run-a")).toEqual({ damage: damage.why });
  expect(told).toEqual(["look run-a", "announce run-a"]);
});

test("so is one that can be read and not be changed, and what is left of one that is gone", async () => {
  const { deps, start } = makeScene({ removeDamaged: async () => damage });
  await start();
  expect(await deleteRun(deps, "run-a")).toEqual({ damage: damage.why });
  expect(await deleteRun(deps, "run-b")).toEqual({ damage: damage.why });
});

test("a run that is whole is refused as ever, and one that ended goes without a second look", async () => {
  const { deps, told, start, engine } = makeScene();
  await start();
  await expect(deleteRun(deps, "run-a")).rejects.toMatchObject({ code: "not_allowed" });
  await expect(deleteRun(deps, "run-b")).rejects.toMatchObject({ code: "not_found" });
  await engine.handle("run-a").cancel();
  told.length = 0;
  expect(await deleteRun(deps, "run-a")).toEqual({});
  expect(told).toEqual(["announce run-a"]);
});

test("the error stays if the record was mended meanwhile, and other trouble is no damage", async () => {
  const scene = makeScene({ load: () => Promise.reject(unreadable) });
  await expect(deleteRun(scene.deps, "run-a")).rejects.toBe(unreadable);
  for (const code of ["queue_unavailable", "unsupported"] as const) {
    const trouble = new DroverError(code, "trouble");
    const other = makeScene({ load: () => Promise.reject(trouble), removeDamaged: async () => damage });
    await expect(deleteRun(other.deps, "run-a")).rejects.toBe(trouble);
    expect(other.told).toEqual([]);
  }
});

test("what is no run's id is no run, though it may name a key of one", async () => {
  const { deps, told } = makeScene({ removeDamaged: async () => damage });
  await expect(deleteRun(deps, "run-a:messages")).rejects.toMatchObject({ code: "not_found" });
  expect(told).toEqual([]);
});
