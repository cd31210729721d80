// Catches: a run that owes something which is in no queue, and that no sweep finds; a sweep that disturbs healthy runs.
import { expect, test } from "vitest";
import { DroverError } from "../../src/core/errors.ts";
import { sweep } from "../../src/engine/sweep.ts";
import { createSilentLogger } from "../../src/telemetry/logger.ts";
import { type Bench, makeBench } from "./support.ts";

const logger = createSilentLogger();

/** Starts runs whose first step is lost. */
async function strand(bench: Bench, count: number): Promise<void> {
  const engine = bench.process();
  for (let index = 0; index < count; index += 1) {
    await engine.client.start("a", "go", { runId: `stranded-${String(index).padStart(3, "0")}` });
    bench.clock.advance(1);
  }
  for (const { step } of bench.queue.list()) bench.queue.drop(step);
}

test("[G2] queues what is missing of every run, on however many pages, past a record that cannot be read", async () => {
  const bench = makeBench();
  await strand(bench, 250);
  const load = async (runId: string): ReturnType<typeof bench.store.load> => {
    if (runId === "stranded-003") throw new DroverError("invalid", "damaged");
    return bench.store.load(runId);
  };
  bench.clock.advance(6_000);
  let counted = 0;
  const telemetry = {
    count: ({ what }: { what: string }, by = 1): void => {
      if (what === "sweep_repair") counted += by;
    },
  };
  expect(await sweep({ ...bench, store: { ...bench.store, load }, logger, telemetry })).toBe(249);
  expect(bench.queue.list().length).toBe(249);
  expect(await sweep({ ...bench, logger, telemetry })).toBe(1);
  expect(await sweep({ ...bench, logger, telemetry })).toBe(0);
  expect(counted).toBe(250);
});

test("runs that cannot be read, those of a newer version say, are told of in one line a sweep", async () => {
  const bench = makeBench();
  await strand(bench, 150);
  const lines: [fields: Record<string, unknown>, message: string][] = [];
  const load = async (runId: string): ReturnType<typeof bench.store.load> => {
    if (runId !== "stranded-007") throw new DroverError("unsupported", `${runId} is of a newer version`);
    return bench.store.load(runId);
  };
  const warn = (fields: Record<string, unknown>, message: string): void => void lines.push([fields, message]);
  bench.clock.advance(6_000);
  expect(await sweep({ ...bench, store: { ...bench.store, load }, logger: { ...logger, warn } })).toBe(1);
  expect(lines.filter(([, message]) => message === "a run could not be swept")).toEqual([
    [{ runId: "stranded-000", error: "stranded-000 is of a newer version", others: 148 }, "a run could not be swept"],
  ]);
});

test("leaves alone a run whose step is on its way, or not due yet", async () => {
  const bench = makeBench();
  const looked: string[] = [];
  const load = async (runId: string): ReturnType<typeof bench.store.load> => {
    looked.push(runId);
    return bench.store.load(runId);
  };
  const engine = bench.process();
  await engine.client.start("a", "go", { runId: "later", delayMs: 60_000 });
  bench.clock.advance(10_000);
  await engine.client.start("a", "go", { runId: "young" });
  expect(await sweep({ ...bench, store: { ...bench.store, load }, logger })).toBe(0);
  expect(looked).toEqual([]);
});
