// Catches: a step that outlives its run and brings a part of it back, or never ends.
import { describe, expect, test } from "vitest";
import { z } from "zod";
import { defineAgent } from "../../src/define-agent.ts";
import { createMemorySignals } from "../../src/testing/memory-signals.ts";
import { type ScriptedTurn, scriptedModel } from "../../src/testing/scripted-model.ts";
import { defineTool } from "../../src/tools/define-tool.ts";
import { type Bench, makeBench, takeStep } from "./support.ts";

/** A bench with a worker that holds a step and hears of nothing, as a frozen one does, while the run is cancelled and deleted. */
async function deletedUnderway(stage: "model" | "tool") {
  const bench = makeBench();
  const began = Promise.withResolvers<void>();
  const answer = Promise.withResolvers<string>();
  const hold = (): Promise<string> => {
    began.resolve();
    return answer.promise;
  };
  const wait = defineTool({
    name: "wait",
    description: "Waits.",
    parameters: z.object({}),
    effect: "write",
    maxResultTokens: 100,
    execute: hold,
  });
  const call = { toolCalls: [{ name: "wait", arguments: {} }] };
  const late = async (): Promise<ScriptedTurn> => ({ deltas: ["late ", "text"], text: await hold() });
  const model = scriptedModel([
    ({ messages }) => {
      if (messages.at(-1)?.content === "another") return "fine";
      return stage === "tool" ? call : late();
    },
  ]);
  const agent = defineAgent({ name: "a", instructions: "", model, tools: [wait] });
  const operator = bench.process();
  const frozen = bench.process({ agents: [agent], signals: createMemorySignals() });
  await operator.client.start("a", "go", { runId: "run-a" });
  if (stage === "tool") await bench.queue.run(frozen.runStep);
  const taken = takeStep(bench);
  const step = frozen.runStep(taken.delivery);
  await began.promise;
  await operator.client.command("run-a", { type: "cancel_requested", by: "ann", reason: "over" });
  await operator.client.delete("run-a");
  return { bench, frozen, taken, step, answer: answer.resolve };
}

test.each(["model", "tool"] as const)(
  "a %s step of a run that was deleted ends, and brings nothing back",
  async (stage) => {
    const { bench, frozen, taken, step, answer } = await deletedUnderway(stage);
    answer("x ".repeat(20_000));
    const outcome = await step;
    expect(outcome).toEqual({ type: "done" });
    taken.end(outcome);
    const { store, queue } = bench;
    expect(await store.load("run-a")).toBeNull();
    expect(await store.readMessages("run-a", 0, 9)).toEqual([]);
    expect(await store.readFeed("run-a", 0, 9)).toEqual([]);
    expect((await store.readLive("run-a", "0")).deltas).toEqual([]);
    expect((await store.list({})).runs).toEqual([]);
    // What it queued along with a commit that was refused ends as it is taken.
    await queue.drain(frozen.runStep, { advanceTime: false });
    expect(queue.list()).toEqual([]);
    // Delivered once more, by a worker that died after all.
    expect(await frozen.runStep({ ...taken.delivery, deliveries: 2, lostWorkers: 1 })).toEqual({ type: "done" });
    expect(queue.list()).toEqual([]);
  },
);

test("a late step of a run that was deleted does nothing to another run that took its id", async () => {
  const { bench, frozen, taken, step, answer } = await deletedUnderway("tool");
  await bench.process().client.start("a", "another", { runId: "run-a" });
  const before = await bench.store.loadWithMessages("run-a");
  answer("x ".repeat(20_000));
  taken.end(await step);
  expect(await bench.store.loadWithMessages("run-a")).toEqual(before);
  expect(before?.messages).toEqual([{ role: "user", content: "another" }]);
  await bench.queue.drain(frozen.runStep, { advanceTime: true });
  expect(await bench.store.load("run-a")).toMatchObject({ status: "completed", turns: 1 });
});

test("a late step changes nothing of another run that took its id and owes a step of the same name", async () => {
  const { bench, taken, step, answer } = await deletedUnderway("model");
  bench.clock.advance(1);
  const agent = defineAgent({ name: "a", instructions: "", model: scriptedModel(["of the new one"]) });
  const other = bench.process({ agents: [agent] });
  await other.client.start("a", "another", { runId: "run-a" });
  // Its first model step has the name of the late one.
  expect(bench.queue.list().map(({ step: { owedAt, index } }) => ({ owedAt, index }))).toContainEqual({
    owedAt: taken.delivery.step.owedAt,
    index: taken.delivery.step.index,
  });
  answer("of the deleted one");
  // It is delivered again, as a step of the new run.
  const outcome = await step;
  expect(outcome).toMatchObject({ type: "again" });
  taken.end(outcome);
  expect(await bench.store.load("run-a")).toMatchObject({ turns: 0, messageCount: 1 });
  await bench.queue.drain(other.runStep, { advanceTime: true });
  expect(await bench.store.readMessages("run-a", 0, 9)).toMatchObject([
    { content: "another" },
    { content: "of the new one" },
  ]);
});

test("a deletion is announced, so that who holds a step of the run lets go of it and nobody remembers it", async () => {
  const bench = makeBench();
  const heard: (string | null)[] = [];
  bench.signals.onAnnounced((runId) => heard.push(runId));
  const { client } = bench.process();
  await client.start("a", "go", { runId: "run-a" });
  await client.command("run-a", { type: "cancel_requested", by: "ann", reason: "over" });
  heard.length = 0;
  await client.delete("run-a");
  expect(heard).toEqual(["run-a"]);
});

test("what a process remembers of a deleted run does not stand in the way of another one that took its id", async () => {
  const bench = makeBench();
  const looked: number[] = [];
  const look = defineTool({
    name: "look",
    description: "Looks.",
    parameters: z.object({ n: z.number() }),
    effect: "read",
    execute: ({ n }) => `seen ${looked.push(n)}`,
  });
  const turns = [1, 2].map((n) => ({ toolCalls: [{ name: "look", arguments: { n } }] }));
  const agent = defineAgent({ name: "a", instructions: "", model: scriptedModel([...turns, "done"]), tools: [look] });
  // It does not hear of the deletion.
  const deaf = bench.process({ agents: [agent], signals: createMemorySignals() });
  const other = bench.process({ agents: [agent] });
  await other.client.start("a", "go", { runId: "run-a" });
  for (let step = 0; step < 3; step += 1) await bench.queue.run(deaf.runStep);
  await other.client.command("run-a", { type: "cancel_requested", by: "ann", reason: "over" });
  await other.client.delete("run-a");
  await bench.queue.drain(other.runStep, { advanceTime: false });
  bench.clock.advance(1);
  await other.client.start("a", "another", { runId: "run-a" });
  await bench.queue.run(other.runStep);
  looked.length = 0;
  // A tool's step, of which the head alone is read.
  await bench.queue.run(deaf.runStep);
  expect(await bench.store.load("run-a")).toMatchObject({ turns: 1, calls: [], model: { attempt: 1 } });
  await bench.queue.drain(deaf.runStep, { advanceTime: false });
  expect(await bench.store.load("run-a")).toMatchObject({ status: "completed", turns: 3 });
  expect(looked).toEqual([1, 2]);
});

describe("input of a session that was to enter a run which was deleted, and whose id another run has", () => {
  const busy = { runId: "run-a", session: "s" };
  const more = { runId: "more", session: "s", whenBusy: "inject" } as const;

  async function replaced(bench: Bench): Promise<void> {
    const engine = bench.process();
    await engine.client.command("run-a", { type: "cancel_requested", by: "ann", reason: "over" });
    await bench.queue.drain(engine.runStep, { advanceTime: true });
    await engine.client.delete("run-a");
    await engine.client.start("a", "another", { runId: "run-a" });
  }

  test("that other run neither gets it nor passes for having taken it", async () => {
    const bench = makeBench();
    const { client } = bench.process();
    await client.start("a", "go", busy);
    expect((await client.start("a", "input", more)).runId).toBe("run-a");
    await replaced(bench);
    await expect(client.start("a", "input", more)).rejects.toMatchObject({ code: "not_found" });
    expect(await bench.store.load("run-a")).toMatchObject({ pendingInput: [] });
  });

  test("nor if the input was not given yet: it gets a run of its own", async () => {
    const bench = makeBench();
    const { client } = bench.process();
    await client.start("a", "go", busy);
    // Decided, and no more.
    const load = async (): Promise<never> => Promise.reject(new Error("this process died"));
    const dying = bench.process({ store: { ...bench.store, load } });
    await expect(dying.client.start("a", "input", more)).rejects.toThrow("died");
    await replaced(bench);
    expect((await client.start("a", "input", more)).runId).toBe("more");
    expect(await bench.store.load("run-a")).toMatchObject({ pendingInput: [] });
  });
});

test("who waits for the result of a run that is deleted gets no other's", async () => {
  const bench = makeBench();
  const { client } = bench.process();
  await client.start("a", "go", { runId: "run-a" });
  const loads: string[] = [];
  const found = Promise.withResolvers<void>();
  const load: Bench["store"]["load"] = async (runId) => {
    const run = await bench.store.load(runId);
    if (loads.push(runId) === 1) found.resolve();
    return run;
  };
  // It does not hear of the end either.
  const deaf = bench.process({ signals: createMemorySignals(), store: { ...bench.store, load } });
  const result = deaf.handle("run-a").result({ timeoutMs: 10_000 });
  const ending = result.catch((error: unknown) => error);
  await found.promise;
  await client.command("run-a", { type: "cancel_requested", by: "ann", reason: "over" });
  await client.delete("run-a");
  bench.clock.advance(1);
  const agent = defineAgent({ name: "a", instructions: "", model: scriptedModel(["not for everybody"]) });
  const other = bench.process({ agents: [agent] });
  await other.client.start("a", "another", { runId: "run-a" });
  await bench.queue.drain(other.runStep, { advanceTime: false });
  expect(await ending).toMatchObject({ code: "not_found" });
});

test("a deletion whose reply was lost does not delete another run that took the id", async () => {
  const bench = makeBench();
  const { client } = bench.process();
  const cancelled = async (): Promise<void> => {
    await client.start("a", "go", { runId: "run-a" });
    await client.command("run-a", { type: "cancel_requested", by: "ann", reason: "over" });
  };
  await cancelled();
  // The store is asked once more, and finds a run that is not the one it was to remove.
  let isLost = true;
  const remove: Bench["store"]["remove"] = async (run) => {
    const removed = await bench.store.remove(run);
    if (!isLost) return removed;
    isLost = false;
    bench.clock.advance(1);
    await cancelled();
    return bench.store.remove(run);
  };
  await bench.process({ store: { ...bench.store, remove } }).client.delete("run-a");
  expect(await bench.store.load("run-a")).toMatchObject({ status: "cancelled" });
});
