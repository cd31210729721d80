// Catches: a reader of a run's feed that never learns that the run has ended, or stops before it has.
import { getEventListeners } from "node:events";
import { describe, expect, test } from "vitest";
import type { RunFeedEvent } from "../../src/core/feed.ts";
import { noUsage } from "../../src/core/run.ts";
import { defineAgent } from "../../src/define-agent.ts";
import type { Engine } from "../../src/engine/engine.ts";
import { createWatch } from "../../src/engine/watch.ts";
import { scriptedModel } from "../../src/testing/index.ts";
import { type Bench, makeBench, takeStep } from "./support.ts";

const broken = { class: "permanent" as const, code: "bad_key", message: "no" };

async function read(engine: Engine, runId: string, after?: string | number): Promise<RunFeedEvent[]> {
  const events: RunFeedEvent[] = [];
  const signal = AbortSignal.timeout(3_000);
  for await (const event of engine.handle(runId).events({ after, signal })) events.push(event);
  if (signal.aborted) throw new Error(`the feed did not end after ${events.map(({ type }) => type).join(", ")}`);
  return events;
}

/** A run that was cancelled in the middle of a model call, whose tokens were reported after the end. */
async function makeCancelled(bench: Bench): Promise<Engine> {
  const called = Promise.withResolvers<void>();
  const model = scriptedModel(["unused"]);
  const client: typeof model.client = {
    call: ({ signal }) => {
      called.resolve();
      return new Promise((resolve) => {
        const failure = { class: "aborted" as const, code: "aborted", message: "stopped" };
        const usage = { ...noUsage, inputTokens: 7 };
        signal.addEventListener("abort", () => resolve({ type: "failure", failure, usage, dropped: [] }));
      });
    },
  };
  const agent = defineAgent({ name: "slow", instructions: "Wait.", model: { ...model, client } });
  const engine = bench.process({ agents: [agent] });
  await engine.client.start("slow", "go", { runId: "cut" });
  const { delivery } = takeStep(bench);
  const outcome = engine.runStep(delivery);
  await called.promise;
  await engine.handle("cut").cancel({ by: "ann" });
  await outcome;
  return engine;
}

describe("the feed of an ended run whose usage came late", () => {
  test("ends, whichever event a reader goes on from", async () => {
    const bench = makeBench();
    const engine = await makeCancelled(bench);
    expect(await bench.store.load("cut")).toMatchObject({ status: "cancelled", usage: { inputTokens: 7 } });
    const all = await read(engine, "cut");
    expect(all.map(({ type }) => type)).toEqual(["run_created", "run_began", "run_ended", "usage_reported"]);
    for (const [index, { id }] of all.entries()) {
      expect(await read(engine, "cut", id)).toEqual(all.slice(index + 1));
    }
  });
});

test("a reader that has ended leaves no listener behind, however many share one signal", async () => {
  const bench = makeBench();
  const engine = await makeCancelled(bench);
  const { signal } = new AbortController();
  for await (const { type } of engine.handle("cut").events({ signal })) expect(type).not.toBe("");
  await engine.handle("cut").result({ signal });
  expect(getEventListeners(signal, "abort")).toEqual([]);
});

test("the feed of a run that failed and was retried goes on to the last end", async () => {
  const bench = makeBench();
  const model = scriptedModel([{ text: "done", fail: [broken] }]);
  let key = "bad";
  const client: typeof model.client = {
    call: (request) => model.client.call({ ...request, attempt: key === "bad" ? 1 : 2 }),
  };
  const agent = defineAgent({ name: "a", instructions: "Answer.", model: { ...model, client } });
  const engine = bench.process({ agents: [agent] });
  await engine.client.start("a", "go", { runId: "again" });
  await bench.queue.drain(engine.runStep, { advanceTime: true });
  key = "good";
  await engine.handle("again").retry({ by: "ann" });
  const reading = read(engine, "again");
  await bench.queue.drain(engine.runStep, { advanceTime: true });
  const committed = (events: RunFeedEvent[]): string[] =>
    events.map(({ type }) => type).filter((type) => !type.startsWith("text"));
  const types = committed(await reading);
  expect(types).toEqual([
    "run_created",
    "run_began",
    "model_failed",
    "run_ended",
    "run_retried",
    "model_answered",
    "run_ended",
  ]);
  const firstEnd = (await read(engine, "again")).find(({ type }) => type === "run_ended");
  expect(committed(await read(engine, "again", firstEnd?.id))).toEqual(types.slice(4));
});

describe.each(["alone", "shared"])("a feed that is read %s", (how) => {
  /** A reader who has seen the beginning of a run that is deleted then. */
  async function readerOfDeleted(): Promise<{ bench: Bench; events: AsyncGenerator<RunFeedEvent>; stop(): void }> {
    const bench = makeBench();
    const engine = bench.process();
    await engine.client.start("a", "go", { runId: "run-a" });
    const stopping = new AbortController();
    const options = { signal: stopping.signal };
    const watch = createWatch({ store: bench.store, signals: bench.signals });
    const events = how === "alone" ? engine.handle("run-a").events(options) : watch.events("run-a", options);
    expect(await events.next()).toMatchObject({ value: { type: "run_created" } });
    await engine.handle("run-a").cancel({ by: "ann" });
    await engine.client.delete("run-a");
    return { bench, events, stop: () => stopping.abort() };
  }

  test("is over for a reader who was slower than the run's deletion", async () => {
    const { events, stop } = await readerOfDeleted();
    await expect(events.next()).rejects.toMatchObject({ code: "not_found" });
    stop();
  });

  test("tells a slow reader nothing of another run that took the id", async () => {
    const { bench, events, stop } = await readerOfDeleted();
    bench.clock.advance(1);
    const agent = defineAgent({ name: "b", instructions: "", model: scriptedModel(["not for everybody"]) });
    const other = bench.process({ agents: [agent] });
    await other.client.start("b", "another", { runId: "run-a" });
    await bench.queue.drain(other.runStep, { advanceTime: false });
    await expect(events.next()).rejects.toMatchObject({ code: "not_found" });
    stop();
    expect((await read(other, "run-a")).at(-1)).toMatchObject({ type: "run_ended", status: "completed" });
  });
});
