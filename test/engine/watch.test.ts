// Catches: watchers that each read for themselves, a cache without a bound, a source that outlives its watchers.
import { setImmediate as turnOfLoop } from "node:timers/promises";
import { describe, expect, test, vi } from "vitest";
import { createWatch, type Watch } from "../../src/engine/watch.ts";
import type { RunStore } from "../../src/ports.ts";
import { createMemoryRunStore, createMemorySignals } from "../../src/testing/index.ts";
import { type HistoryTurn, play } from "../support/feed-history.ts";

const turn: HistoryTurn = { failed: [], answer: ["some ", "words ", "here"], results: ["a", "b"], input: true };
const readers = ["load", "readFeed", "readLive", "readMessages", "readResults"] as const;

function makeStore(): { store: RunStore; signals: ReturnType<typeof createMemorySignals>; reads: () => number } {
  const signals = createMemorySignals();
  const store = createMemoryRunStore({ signals });
  const spies = readers.map((name) => vi.spyOn(store, name));
  return { store, signals, reads: () => spies.reduce((sum, { mock }) => sum + mock.calls.length, 0) };
}

/** Reads of the store while so many watch a run from its beginning to its end. */
async function readsWith(watchers: number): Promise<number> {
  const { store, signals, reads } = makeStore();
  const watch = createWatch({ store, signals });
  const playing = play(
    store,
    "run-a",
    Array.from({ length: 10 }, () => turn),
  );
  await turnOfLoop();
  const all = Array.from({ length: watchers }, async () => {
    let count = 0;
    for await (const event of watch.events("run-a")) count += event.type === "text" ? 0 : 1;
    return count;
  });
  const [, ...counts] = await Promise.all([playing, ...all]);
  expect(new Set(counts).size).toBe(1);
  return reads();
}

test("a hundred watchers read hardly more often than one", async () => {
  const [one, hundred] = [await readsWith(1), await readsWith(100)];
  expect(hundred).toBeLessThan(2 * one);
});

test("nothing is read for watchers that do not read on, and what is kept stays within its bound", async () => {
  const { store, signals, reads } = makeStore();
  const cacheBytes = 20_000;
  const watch = createWatch({ store, signals, cacheBytes });
  const turns = Array.from({ length: 30 }, () => ({ ...turn, answer: ["x".repeat(2_000)] }));
  const playing = play(store, "run-a", turns.slice(0, 1));
  await turnOfLoop();
  const slow = watch.events("run-a");
  const fast = watch.events("run-a");
  await slow.next();
  await playing;
  const before = reads();
  for (let index = 0; index < 20; index += 1) await turnOfLoop();
  expect(reads()).toBe(before);
  let entries = 0;
  for await (const event of fast) {
    entries += event.type.startsWith("text") ? 0 : 1;
    expect(watch.stats().bytes).toBeLessThanOrEqual(cacheBytes);
  }
  let rest = 1;
  for await (const event of slow) rest += event.type.startsWith("text") ? 0 : 1;
  expect(rest).toBe(entries);
});

describe("a source", () => {
  test("goes with its last watcher, and its subscription with it", async () => {
    const { store, signals } = makeStore();
    const listening = new Set<() => void>();
    const counted: Pick<typeof signals, "onRun"> = {
      async onRun(runId, listener) {
        const off = await signals.onRun(runId, listener);
        listening.add(listener);
        return () => {
          listening.delete(listener);
          off();
        };
      },
    };
    const watch = createWatch({ store, signals: counted });
    await play(store, "run-a", [turn]);
    const two = [watch.events("run-a"), watch.events("run-a")];
    for (const events of two) await events.next();
    expect([watch.stats().watchers, watch.stats().runs, listening.size]).toEqual([2, 1, 1]);
    await two[0]?.return(undefined);
    expect([watch.stats().watchers, listening.size]).toEqual([1, 1]);
    await two[1]?.return(undefined);
    await vi.waitFor(() => expect(listening.size).toBe(0));
    expect(watch.stats()).toEqual({ watchers: 0, runs: 0, bytes: 0 });
  });

  test("that failed to read reads again, and one that was never there is not found", async () => {
    const { store, signals } = makeStore();
    const watch = createWatch({ store, signals });
    await play(store, "run-a", [turn]);
    vi.spyOn(store, "load").mockRejectedValueOnce(new Error("away"));
    await expect(watch.events("run-a").next()).rejects.toThrow("away");
    expect((await watch.events("run-a").next()).value).toMatchObject({ type: "run_created" });
    await expect(watch.events("nowhere").next()).rejects.toMatchObject({ code: "not_found" });
    await expect(watch.events("run-a", { after: "x" }).next()).rejects.toMatchObject({ code: "invalid" });
  });
});

/** What was committed; text comes between it sooner or later. */
async function readEntries(watch: Watch): Promise<unknown[]> {
  const entries: unknown[] = [];
  for await (const { id: _, ...event } of watch.events("run-a")) if (event.type !== "text") entries.push(event);
  return entries;
}

test("a run that takes the id of a deleted one is told as it is, although a slow watcher is still at the old one", async () => {
  const { store, signals } = makeStore();
  const watch = createWatch({ store, signals });
  const playing = play(store, "run-a", [{ ...turn, answer: ["old ", "words"] }]);
  await turnOfLoop();
  const slow = watch.events("run-a");
  const fast = watch.events("run-a");
  await slow.next();
  await playing;
  for await (const _ of fast);
  const ended = await store.load("run-a");
  expect(ended && (await store.remove(ended))).toBe(true);
  const fresh = play(store, "run-a", [{ ...turn, answer: ["new ", "words"] }], { createdAt: 2_000_000 });
  await turnOfLoop();
  const told = await readEntries(watch);
  await fresh;
  expect(JSON.stringify(told)).not.toContain("old");
  expect(told).toEqual(await readEntries(createWatch({ store, signals })));
  await slow.return(undefined);
});
