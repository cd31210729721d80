// Catches: a watcher that shares a reader with others and misses an event, gets one twice or out of order, or waits for ever.
import { setImmediate as turnOfLoop } from "node:timers/promises";
import fc from "fast-check";
import { expect, test } from "vitest";
import type { RunFeedEvent } from "../../src/core/feed.ts";
import { type FollowDeps, follow } from "../../src/engine/follow.ts";
import { createWatch, type Watch } from "../../src/engine/watch.ts";
import { createMemoryRunStore, createMemorySignals } from "../../src/testing/index.ts";
import { essenceOf, historyOf, play } from "../support/feed-history.ts";

/** How a watcher behaves: after how many turns of the loop it joins, and after how many events each time it is cut. */
type Habit = { join: number; cuts: number[]; lag: number };
const habit: fc.Arbitrary<Habit> = fc.record({
  join: fc.nat(60),
  cuts: fc.array(fc.integer({ min: 1, max: 12 }), { maxLength: 4 }),
  lag: fc.nat(3),
});

async function watchLike(watch: Watch, runId: string, { join, cuts, lag }: Habit): Promise<RunFeedEvent[]> {
  for (let turn = 0; turn < join; turn += 1) await turnOfLoop();
  const all: RunFeedEvent[] = [];
  for (const cut of [...cuts, Number.POSITIVE_INFINITY]) {
    let got = 0;
    for await (const event of watch.events(runId, { after: all.at(-1)?.id })) {
      all.push(event);
      got += 1;
      for (let turn = 0; turn < lag; turn += 1) await turnOfLoop();
      if (got >= cut) break;
    }
    if (all.at(-1)?.type === "run_ended") break;
  }
  return all;
}

/** The same store, whose replies come after some turns of the loop, so that readers meet in every order. */
function slowly(store: FollowDeps["store"], delays: number[]): FollowDeps["store"] {
  let asked = 0;
  const late =
    <Args extends unknown[], T>(method: (...args: Args) => Promise<T>) =>
    async (...args: Args): Promise<T> => {
      const delay = delays[asked++ % delays.length] ?? 0;
      for (let turn = 0; turn < delay; turn += 1) await turnOfLoop();
      const reply = await method(...args);
      for (let turn = 0; turn < delay; turn += 1) await turnOfLoop();
      return reply;
    };
  return {
    load: late(store.load),
    readFeed: late(store.readFeed),
    readLive: late(store.readLive),
    readMessages: late(store.readMessages),
    readResults: late(store.readResults),
  };
}

test("each watcher gets every event once, in order, whenever it joins and however it is cut", async () => {
  await fc.assert(
    fc.asyncProperty(
      historyOf(fc.string({ minLength: 1, maxLength: 4 })),
      fc.array(habit, { minLength: 1, maxLength: 5 }),
      fc.constantFrom(0, 1_500, 6_000, 1_000_000),
      fc.array(fc.nat(3), { minLength: 1, maxLength: 6 }),
      async (turns, habits, cacheBytes, delays) => {
        const signals = createMemorySignals();
        const store = createMemoryRunStore({ signals });
        const watch = createWatch({ store: slowly(store, delays), signals, cacheBytes });
        const playing = play(store, "run-a", turns);
        const [, ...seen] = await Promise.all([playing, ...habits.map((each) => watchLike(watch, "run-a", each))]);
        const plain: RunFeedEvent[] = [];
        for await (const event of follow({ store, signals }, "run-a")) plain.push(event);
        for (const events of seen) expect(essenceOf(events)).toEqual(essenceOf(plain));
        expect(watch.stats()).toEqual({ watchers: 0, runs: 0, bytes: 0 });
      },
    ),
    { numRuns: 300 },
  );
});
