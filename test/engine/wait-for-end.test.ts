// Catches: a caller of `result()` that is told of another run's end, waits beyond its limit, or misses the end.
import { getEventListeners } from "node:events";
import { describe, expect, test } from "vitest";
import { DroverError } from "../../src/core/errors.ts";
import { defineAgent } from "../../src/define-agent.ts";
import { waitForEnd } from "../../src/engine/wait-for-end.ts";
import type { Durable, RunStore, Signals } from "../../src/ports.ts";
import { scriptedModel } from "../../src/testing/scripted-model.ts";
import { type Bench, makeBench } from "./support.ts";

const broken = { class: "permanent" as const, code: "bad_key", message: "no" };
const away = new DroverError("queue_unavailable", "Redis is away.");

function setUp() {
  const bench = makeBench();
  const model = scriptedModel([{ text: "done", fail: [broken] }]);
  const mended = { isMended: false };
  const client: typeof model.client = {
    call: (request) => model.client.call({ ...request, attempt: mended.isMended ? 2 : 1 }),
  };
  const engine = bench.process({ agents: [defineAgent({ name: "a", instructions: "", model: { ...model, client } })] });
  return { bench, engine, mended, work: () => bench.queue.drain(engine.runStep, { advanceTime: true }) };
}

/** Ports of which the first look at a run, and the subscription, wait for the test. */
function held({ store, signals }: Bench) {
  const looked = Promise.withResolvers<void>();
  const onward = Promise.withResolvers<void>();
  const holdingStore: RunStore = {
    ...store,
    async load(runId) {
      const run = await store.load(runId);
      looked.resolve();
      await onward.promise;
      return run;
    },
  };
  const late: Signals = {
    ...signals,
    async onEnd(runId, listener) {
      await onward.promise;
      return signals.onEnd(runId, listener);
    },
  };
  return { looked: looked.promise, goOn: () => onward.resolve(), store: holdingStore, late };
}

const completed = { run: { status: "completed" }, last: { content: "done" } };

describe("whoever waits for a run's end", () => {
  test("is told of one that came while it subscribed, or while it looked", async () => {
    const { bench, engine, mended, work } = setUp();
    mended.isMended = true;
    await engine.client.start("a", "go", { runId: "one" });
    const { looked, goOn, store, late } = held(bench);
    const subscribing = waitForEnd({ store: bench.store, signals: late }, "one", {});
    const looking = waitForEnd({ store, signals: bench.signals }, "one", {});
    await looked;
    await work();
    goOn();
    expect(await subscribing).toMatchObject(completed);
    expect(await looking).toMatchObject(completed);
  });

  test("waits on if the run was retried before it could look", async () => {
    const { bench, engine, mended, work } = setUp();
    await engine.client.start("a", "go", { runId: "again" });
    const { looked, goOn, store } = held(bench);
    const waiting = waitForEnd({ store, signals: bench.signals }, "again", {});
    await looked;
    await work();
    expect(await bench.store.load("again")).toMatchObject({ status: "failed" });
    await engine.handle("again").retry();
    goOn();
    mended.isMended = true;
    await work();
    expect(await waiting).toMatchObject(completed);
  });

  test.each([false, true])("is told that it was deleted (and its id taken by another: %s)", async (isTaken) => {
    const { bench, engine } = setUp();
    await engine.client.start("a", "go", { runId: "gone" });
    const { looked, goOn, store } = held(bench);
    const waiting = waitForEnd({ store, signals: bench.signals }, "gone", {});
    await looked;
    await engine.handle("gone").cancel();
    await engine.client.delete("gone");
    if (isTaken) await engine.client.start("a", "something else", { runId: "gone" });
    goOn();
    await expect(waiting).rejects.toMatchObject({ code: "not_found" });
  });

  test("hears of it through an outage, but not if Redis was away from the beginning", async () => {
    const { bench, engine, mended, work } = setUp();
    mended.isMended = true;
    await engine.client.start("a", "go", { runId: "far" });
    let failures = 0;
    const known = Promise.withResolvers<void>();
    const load: RunStore["load"] = async (runId) => {
      const run = await bench.store.load(runId);
      if (run?.revision !== 1) throw away;
      known.resolve();
      return run;
    };
    const loadWithLastMessage: RunStore["loadWithLastMessage"] = (runId) => {
      failures += 1;
      return failures < 2 ? Promise.reject(away) : bench.store.loadWithLastMessage(runId);
    };
    const deps = { store: { ...bench.store, load, loadWithLastMessage }, signals: bench.signals };
    const waiting = waitForEnd(deps, "far", {});
    await known.promise;
    await work();
    expect(await waiting).toMatchObject(completed);
    const never = { ...bench.store, load: () => Promise.reject(away) };
    await expect(waitForEnd({ store: never, signals: bench.signals }, "far", {})).rejects.toBe(away);
  });

  test("leaves nothing behind, however many there are", async () => {
    const { bench, engine, mended, work } = setUp();
    mended.isMended = true;
    await engine.client.start("a", "go", { runId: "all" });
    let listeners = 0;
    const signals: Signals = {
      ...bench.signals,
      async onEnd(runId, listener) {
        const off = await bench.signals.onEnd(runId, listener);
        listeners += 1;
        return () => {
          listeners -= 1;
          off();
        };
      },
    };
    const { signal } = new AbortController();
    const one = (): Promise<unknown> => waitForEnd({ store: bench.store, signals }, "all", { signal });
    const waiting = Array.from({ length: 2_000 }, one);
    await work();
    for (const found of await Promise.all(waiting)) expect(found).toMatchObject(completed);
    expect(listeners).toBe(0);
    expect(getEventListeners(signal, "abort")).toEqual([]);
  });
});

describe("a limit", () => {
  test("holds for an end that is not safe for long, and says so", async () => {
    const { bench, engine } = setUp();
    await engine.client.start("a", "go", { runId: "unsafe" });
    await engine.handle("unsafe").cancel();
    const given = Promise.withResolvers<AbortSignal | undefined>();
    const durable: Durable = {
      timeoutMs: 600_000,
      confirm: (_run, signal) => {
        given.resolve(signal);
        return new Promise(() => {});
      },
    };
    const deps = { store: bench.store, signals: bench.signals, durable };
    const limited = waitForEnd(deps, "unsafe", { timeoutMs: 10 });
    await expect(limited).rejects.toMatchObject({ code: "timeout", message: expect.stringContaining("has ended") });
    expect((await given.promise)?.aborted).toBe(true);
    const stop = new AbortController();
    const stopped = waitForEnd(deps, "unsafe", { signal: stop.signal });
    stop.abort();
    await expect(stopped).rejects.toMatchObject({ code: "timeout" });
  });

  test("of nothing at all still gives an end that is there, safe or in need of a look", async () => {
    const { bench, engine } = setUp();
    await engine.client.start("a", "go", { runId: "there" });
    const deps = { store: bench.store, signals: bench.signals };
    await expect(waitForEnd(deps, "there", { timeoutMs: 0 })).rejects.toMatchObject({ code: "timeout" });
    await engine.handle("there").cancel();
    const durable: Durable = { timeoutMs: 2_000, confirm: () => new Promise((resolve) => setTimeout(resolve, 5)) };
    for (const how of [deps, { ...deps, durable }])
      expect(await waitForEnd(how, "there", { timeoutMs: 0 })).toMatchObject({ run: { status: "cancelled" } });
  });

  test("that is no number is refused", async () => {
    const { bench, engine } = setUp();
    await engine.client.start("a", "go", { runId: "odd" });
    const waiting = waitForEnd({ store: bench.store, signals: bench.signals }, "odd", { timeoutMs: Number.NaN });
    await expect(waiting).rejects.toMatchObject({ code: "invalid", message: expect.stringContaining("timeoutMs") });
  });
});
