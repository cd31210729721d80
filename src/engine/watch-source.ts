// What all watchers of one run read from: the end of its feed, its live text and the messages that entries point at.
//
// W1. Nothing is read from the store before a watcher asks, and then once for all that ask: a source whose watchers do
//     not read costs nothing but what it keeps.
// W2. An entry is given out only when all text published before it can be: the feed is read first, the live text after it,
//     and the entries are shown last. `follow` relies on that.
// W3. What was told to a watcher by a signal is there when it reads: a read that began before the signal does not count.
// W4. What had to go from memory is read from the store again, by those who still need it.

import type { Message } from "../core/message.ts";
import type { FollowDeps } from "./follow.ts";
import type { Budget } from "./watch-budget.ts";
import { createLiveChain, createOnce, createShelf, createTail, type Once, type Shelf, sizeOf } from "./watch-cache.ts";
import { createRefresher } from "./watch-refresher.ts";

type Store = FollowDeps["store"];

export type Source = FollowDeps & { close(): void };
type SourceDeps = FollowDeps & { birth: NonNullable<FollowDeps["birth"]> };

export function createSource({ store, signals, birth }: SourceDeps, runId: string, budget: Budget): Source {
  const shelf = createShelf(budget);
  const once = createOnce();
  const tail = createTail(shelf);
  const live = createLiveChain({ store, runId, shelf, once });
  const refresher = createRefresher({ store, runId, tail, live });
  const bells = createBells(signals, runId, refresher.soil);

  return {
    birth: { at: birth.at, now: () => once("birth", birth.now) },
    signals: bells,
    store: {
      load: () => refresher.readHead(),
      async readFeed(_runId, after, limit) {
        await refresher.fresh();
        if (after >= tail.base()) return tail.read(after, limit);
        const base = tail.base();
        return once(`feed ${after} ${limit} ${base}`, async () => {
          const page = await store.readFeed(runId, after, limit);
          return page.filter(({ seq }) => seq <= base);
        });
      },
      readLive: (_runId, from) => live.read(from),
      readMessages: createMessages({ store, shelf, once }),
      readResults: () => once(`results ${refresher.generation()}`, () => store.readResults(runId)),
    },
    close() {
      bells.close();
      shelf.clear();
    },
  };
}

type Bells = FollowDeps["signals"] & { close(): void };

/** One subscription for all watchers. `soil` is called before any of them. */
function createBells(signals: FollowDeps["signals"], runId: string, soil: () => void): Bells {
  const listeners = new Set<() => void>();
  let subscription: Promise<() => void> | undefined;

  function subscribe(): Promise<() => void> {
    return signals.onRun(runId, () => {
      soil();
      for (const listener of listeners) listener();
    });
  }

  return {
    async onRun(_runId, listener) {
      subscription ??= subscribe();
      const own = (): void => listener();
      try {
        await subscription;
      } catch (error) {
        subscription = undefined;
        throw error;
      }
      listeners.add(own);
      return () => void listeners.delete(own);
    },
    close() {
      void subscription?.then(
        (unsubscribe) => unsubscribe(),
        () => {},
      );
    },
  };
}

/** Messages of the run's transcript; they never change. */
function createMessages({ store, shelf, once }: { store: Store; shelf: Shelf; once: Once }): Store["readMessages"] {
  const known = new Map<string, Message>();

  return async (transcript, from, to) => {
    const kept: Message[] = [];
    for (let index = from; index < to; index += 1) {
      const message = known.get(`${transcript} ${index}`);
      if (!message) break;
      kept.push(message);
    }
    if (kept.length === to - from) return kept;
    return once(`messages ${transcript} ${from} ${to}`, async () => {
      const messages = await store.readMessages(transcript, from, to);
      for (const [offset, message] of messages.entries()) {
        const name = `${transcript} ${from + offset}`;
        if (known.has(name)) continue;
        known.set(name, message);
        shelf.put(sizeOf(message), () => known.delete(name));
      }
      return messages;
    });
  };
}
