// Catches: a step delivered too late, too early, twice or after the run went on, that does something or loses something.
import { describe, expect, test } from "vitest";
import { DroverError } from "../../src/core/errors.ts";
import { noUsage } from "../../src/core/run.ts";
import { defineAgent } from "../../src/define-agent.ts";
import type { ModelOutcome } from "../../src/ports.ts";
import { scriptedModel } from "../../src/testing/index.ts";
import { type Agent, abortable, makeBench, takeStep } from "./support.ts";

const busy = { class: "transient" as const, code: "busy", message: "busy", retryAfterMs: 60_000 };
const aborted = { class: "aborted" as const, code: "aborted", message: "stopped" };

/** An agent whose model is this function. */
function makeAgent(call: (signal: AbortSignal) => Promise<ModelOutcome>): Agent {
  const model = scriptedModel([]);
  const client: typeof model.client = { call: ({ signal }) => call(signal) };
  return defineAgent({ name: "a", instructions: "Answer.", model: { ...model, client } });
}

const reply = (text: string): ModelOutcome => ({
  type: "reply",
  reply: { content: text, toolCalls: [] },
  finishReason: "stop",
  usage: { ...noUsage, inputTokens: 5 },
  dropped: [],
});
const failure = (): ModelOutcome => ({ type: "failure", failure: busy, usage: noUsage, dropped: [] });

describe("a step that is not owed any more", () => {
  test("[G2] calls nothing and queues what is owed instead", async () => {
    const bench = makeBench();
    let calls = 0;
    const agent = makeAgent(async () => {
      calls += 1;
      return failure();
    });
    const engine = bench.process({ agents: [agent] });
    await engine.client.start("a", "go", { runId: "late" });
    const taken = takeStep(bench);
    taken.end(await engine.runStep(taken.delivery));
    const [next] = bench.queue.list();
    if (!next) throw new Error("no next attempt is queued");
    bench.queue.drop(next.step);
    expect(await engine.runStep({ ...taken.delivery, deliveries: 2 })).toEqual({ type: "done" });
    expect(calls).toBe(1);
    expect(bench.queue.list()).toEqual([next]);
  });

  test("is taken out of its queue, though it would have waited there for long", async () => {
    const bench = makeBench();
    const engine = bench.process({ agents: [makeAgent(async () => failure())] });
    await engine.client.start("a", "go", { runId: "gone" });
    await bench.queue.run(engine.runStep);
    expect(bench.queue.list()).toMatchObject([{ state: "delayed" }]);
    await engine.handle("gone").cancel();
    expect(bench.queue.list()).toEqual([]);
  });

  test("counts the tokens of an answer that came too late, once", async () => {
    const bench = makeBench();
    const answer = Promise.withResolvers<ModelOutcome>();
    const called = Promise.withResolvers<void>();
    const agent = makeAgent(() => {
      called.resolve();
      return answer.promise;
    });
    const signals = { ...bench.signals, onAnnounced: () => () => {} };
    const engine = bench.process({ agents: [agent], signals });
    await engine.client.start("a", "go", { runId: "paid" });
    const taken = takeStep(bench);
    const outcome = engine.runStep(taken.delivery);
    await called.promise;
    await bench.process().handle("paid").cancel();
    answer.resolve(reply("late"));
    expect(await outcome).toEqual({ type: "done" });
    const run = await bench.store.load("paid");
    expect(run).toMatchObject({ status: "cancelled", turns: 0, usage: { inputTokens: 5 } });
    expect(run?.messageCount).toBe(1);
  });

  test("is aborted if its run was cancelled while no announcement could be heard", async () => {
    const bench = makeBench();
    const called = Promise.withResolvers<void>();
    const agent = makeAgent(async (signal) => {
      called.resolve();
      await new Promise((resolve) => signal.addEventListener("abort", resolve));
      return { type: "failure", failure: aborted, usage: noUsage, dropped: [] };
    });
    const engine = bench.process({ agents: [agent] });
    await engine.client.start("a", "go", { runId: "deaf" });
    const outcome = engine.runStep(takeStep(bench).delivery);
    await called.promise;
    await bench
      .process({ signals: { ...bench.signals, announce: async () => {} } })
      .handle("deaf")
      .cancel();
    bench.signals.loseAnnouncements();
    expect(await outcome).toEqual({ type: "done" });
    expect(engine.runningSteps()).toBe(0);
  });
});

describe("a step that is ahead of the record", () => {
  test("[G2] waits for it, and is not ended", async () => {
    const bench = makeBench();
    let calls = 0;
    const agent = makeAgent(async () => {
      calls += 1;
      return reply("done");
    });
    const engine = bench.process({ agents: [agent] });
    await engine.client.start("a", "go", { runId: "ahead" });
    const { delivery } = takeStep(bench);
    const outcome = await engine.runStep({ ...delivery, step: { ...delivery.step, owedAt: 2 } });
    expect(outcome).toMatchObject({ type: "again" });
    expect(calls).toBe(0);
  });

  test("is not aborted by an announcement that finds the older record", async () => {
    const bench = makeBench();
    const called = Promise.withResolvers<void>();
    const answer = Promise.withResolvers<ModelOutcome>();
    let signal: AbortSignal | undefined;
    const agent = makeAgent((given) => {
      signal = given;
      called.resolve();
      return answer.promise;
    });
    const writer = bench.process({
      agents: [makeAgent(async () => ({ ...failure(), failure: { ...busy, retryAfterMs: 0 } }) as ModelOutcome)],
    });
    await writer.client.start("a", "go", { runId: "ahead" });
    const old = await bench.store.load("ahead");
    await bench.queue.run(writer.runStep);
    bench.clock.advance(1_000);
    // As after a failover: the step's own load saw the newer record, the next one sees the older.
    const engine = bench.process({ agents: [agent], store: { ...bench.store, load: async () => old } });
    const taken = takeStep(bench);
    const outcome = engine.runStep(taken.delivery);
    await called.promise;
    await bench.signals.announce("ahead");
    await new Promise(setImmediate);
    expect(signal?.aborted).toBe(false);
    answer.resolve(reply("done"));
    await outcome;
    expect(await bench.store.load("ahead")).toMatchObject({ status: "completed" });
  });
});

test("a step that is delivered before its time waits for it", async () => {
  const bench = makeBench();
  let calls = 0;
  const agent = makeAgent(async () => {
    calls += 1;
    return failure();
  });
  const engine = bench.process({ agents: [agent] });
  await engine.client.start("a", "go", { runId: "soon" });
  await bench.queue.run(engine.runStep);
  const [next] = bench.queue.list();
  if (!next) throw new Error("no next attempt is queued");
  const { runId, owedAt, index } = next.step;
  const signal = new AbortController().signal;
  const early = { step: { runId, owedAt, index }, lostWorkers: 0, deliveries: 1, signal, queuedAt: 0 };
  expect(await engine.runStep(early)).toMatchObject({ type: "again", delayMs: 60_000 });
  expect(calls).toBe(1);
});

describe("a step that is handed back", () => {
  test("[G8] goes to another worker at once, and what it spent is counted", async () => {
    const bench = makeBench();
    const called = Promise.withResolvers<void>();
    const agent = makeAgent(async (signal) => {
      called.resolve();
      await new Promise((resolve) => signal.addEventListener("abort", resolve));
      return { type: "failure", failure: aborted, usage: { ...noUsage, inputTokens: 3 }, dropped: [] };
    });
    const engine = bench.process({ agents: [agent] });
    await engine.client.start("a", "go", { runId: "back" });
    const { delivery, abort } = abortable(takeStep(bench).delivery);
    const outcome = engine.runStep(delivery);
    await called.promise;
    abort();
    expect(await outcome).toMatchObject({ type: "again", delayMs: 0 });
    expect(await bench.store.load("back")).toMatchObject({ model: { attempt: 1 }, usage: { inputTokens: 3 } });
  });
});

describe("an error", () => {
  test("[G8] of Redis delays a step with growing waits and is no crash", async () => {
    const bench = makeBench();
    const away = async (): Promise<never> => Promise.reject(new DroverError("queue_unavailable", "Redis is away"));
    const engine = bench.process({ store: { ...bench.store, loadWithMessages: away } });
    await bench.process().client.start("a", "go", { runId: "away" });
    const { delivery } = takeStep(bench);
    const waits: number[] = [];
    for (let deliveries = 1; deliveries <= 12; deliveries += 1) {
      const outcome = await engine.runStep({ ...delivery, deliveries });
      if (outcome.type === "again") waits.push(outcome.delayMs);
    }
    expect(waits.slice(0, 3)).toEqual([200, 400, 800]);
    expect(waits.at(-1)).toBe(15_000);
    expect(waits.length).toBe(12);
    expect((await bench.store.load("away"))?.model).toEqual({ attempt: 1, owedAt: 1 });
  });

  test("[G8] of Drover's own is tried five times, then ends this run with the reason", async () => {
    const bench = makeBench();
    let calls = 0;
    const agent = makeAgent(async () => {
      calls += 1;
      throw new TypeError("of our own");
    });
    const engine = bench.process({ agents: [agent] });
    await engine.client.start("a", "go", { runId: "bug" });
    await bench.queue.drain(engine.runStep, { advanceTime: true, maxDeliveries: 50 });
    expect(calls).toBe(5);
    expect(await bench.store.load("bug")).toMatchObject({
      status: "failed",
      stopReason: "poison",
      error: { code: "bug", message: expect.stringContaining("of our own") },
    });
  });
});

test("a step that is held for long writes little", async () => {
  const bench = makeBench();
  const engine = bench.process();
  await engine.client.start("nobody", "go", { runId: "held" });
  const stop = bench.clock.now() + 24 * 3_600_000;
  let held = 0;
  while (bench.clock.now() < stop) {
    const [next] = bench.queue.list();
    if (!next) throw new Error("nothing is queued");
    bench.clock.advance(Math.max(0, next.dueAt - bench.clock.now()));
    await bench.queue.run(engine.runStep);
    held += 1;
  }
  expect(held).toBeGreaterThan(5_000);
  expect(held).toBeLessThan(6_000);
  const feed = await bench.store.readFeed("held", 0, 1_000);
  expect(feed.length).toBeLessThan(20);
  expect(feed.filter(({ type }) => type === "step_held")[0]).toMatchObject({ count: 1 });
});
