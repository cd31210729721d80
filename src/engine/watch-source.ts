// What all watchers of one run read from: the end of its feed, its live text and the messages that entries point at.
//
// W1. Nothing is read from the store before a watcher asks, and then once for all that ask: a source whose watchers do
//     not read costs nothing but what it keeps.
// W2. An entry is given out only when all text published before it can be: the feed is read first, the live text after it,
//     and the entries are shown last. `follow` relies on that.
// W3. What was told to a watcher by a signal is there when it reads: a read that began before the signal does not count.
// W4. What had to go from memory is read from the store again, by those who still need it.

import type { FeedEntry } from "../core/event.ts";
import type { Message } from "../core/message.ts";
import type { Run } from "../core/run.ts";
import type { LiveDelta } from "../ports.ts";
import type { FollowDeps } from "./follow.ts";
import type { Budget, Kept } from "./watch-budget.ts";

type Store = FollowDeps["store"];

export type Source = FollowDeps & { close(): void };

const pageSize = 200;
/** So many new entries at once are not kept: a watcher that is that far behind reads them for itself. */
const mostNew = 1_000;
/** Signals are best effort: what was read longer ago than this is looked at again. */
const staleAfterMs = 900;

export function createSource({ store, signals }: FollowDeps, runId: string, budget: Budget): Source {
  const shelf = createShelf(budget);
  const once = createOnce();
  const tail = createTail(shelf);
  const live = createLiveChain({ store, runId, shelf, once });
  const refresher = createRefresher({ store, runId, tail, live });
  const bells = createBells(signals, runId, refresher.soil);

  return {
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

type Shelf = { put(bytes: number, drop: () => void): void; clear(): void };

/** What one source keeps of the budget that all share. */
function createShelf(budget: Budget): Shelf {
  const kept = new Set<Kept>();
  let cleared = false;
  return {
    put(bytes, drop) {
      // A read that ends after the last watcher left keeps nothing.
      if (cleared) return;
      const item: { kept?: Kept } = {};
      item.kept = budget.keep(bytes, () => {
        if (item.kept) kept.delete(item.kept);
        drop();
      });
      kept.add(item.kept);
    },
    clear() {
      cleared = true;
      for (const item of kept) item.release();
      kept.clear();
    },
  };
}

type Once = <T>(name: string, read: () => Promise<T>) => Promise<T>;

/** Whoever asks for the same while it is being read gets what comes. */
function createOnce(): Once {
  const running = new Map<string, Promise<unknown>>();
  return <T>(name: string, read: () => Promise<T>) => {
    const known = running.get(name) as Promise<T> | undefined;
    if (known) return known;
    const reading = read().finally(() => running.delete(name));
    running.set(name, reading);
    return reading;
  };
}

type Tail = {
  /** Entries after this one are kept, up to `last`. */
  base(): number;
  last(): number;
  read(after: number, limit: number): FeedEntry[];
  add(entries: FeedEntry[]): void;
  /** Begins anew after this entry. */
  moveTo(seq: number): void;
};

function createTail(shelf: Shelf): Tail {
  let chunks: { entries: FeedEntry[]; last: number }[] = [];
  let base = 0;
  let last = 0;
  return {
    base: () => base,
    last: () => last,
    read(after, limit) {
      // Most readers are near the end.
      let first = chunks.length;
      while (first > 0 && (chunks[first - 1]?.last ?? 0) > after) first -= 1;
      const entries: FeedEntry[] = [];
      for (const chunk of chunks.slice(first)) {
        entries.push(...chunk.entries.filter(({ seq }) => seq > after));
        if (entries.length >= limit) break;
      }
      return entries.slice(0, limit);
    },
    add(entries) {
      const end = entries.at(-1)?.seq;
      if (end === undefined) return;
      const chunk = { entries, last: end };
      chunks.push(chunk);
      last = end;
      shelf.put(sizeOf(entries), () => {
        const at = chunks.indexOf(chunk);
        if (at === -1) return;
        chunks = chunks.slice(at + 1);
        base = end;
      });
    },
    moveTo(seq) {
      chunks = [];
      base = seq;
      last = seq;
    },
  };
}

type LivePage = { deltas: LiveDelta[]; next: string };
type LiveChain = { read(from: string): Promise<LivePage>; advance(): Promise<void> };

/** Live text as pages, each found by where it begins. All who begin at the same place read the same pages. */
function createLiveChain({
  store,
  runId,
  shelf,
  once,
}: {
  store: Store;
  runId: string;
  shelf: Shelf;
  once: Once;
}): LiveChain {
  const pages = new Map<string, LivePage>();
  let end = "0";

  function keep(from: string, page: LivePage): void {
    if (page.next === from || pages.has(from)) return;
    pages.set(from, page);
    shelf.put(sizeOf(page.deltas), () => pages.delete(from));
  }

  return {
    async read(from) {
      const page = pages.get(from);
      if (page) return page;
      if (from === end) return { deltas: [], next: from };
      return once(`live ${from}`, async () => {
        const read = await store.readLive(runId, from);
        keep(from, read);
        return read;
      });
    },
    async advance() {
      for (;;) {
        const page = await store.readLive(runId, end);
        if (page.next === end) return;
        keep(end, page);
        end = page.next;
      }
    },
  };
}

type Refresher = {
  /** Something happened: what was read is stale. */
  soil(): void;
  /** Resolves when what can be read is not stale. */
  fresh(): Promise<void>;
  /** The run's head, never newer than the entries that can be read. */
  readHead(): Promise<Run | null>;
  /** Counts readings. */
  generation(): number;
};

type Refreshing = { store: Store; runId: string; tail: Tail; live: LiveChain };

function createRefresher({ store, runId, tail, live }: Refreshing): Refresher {
  let dirty = true;
  let readAt = Number.NEGATIVE_INFINITY;
  let generation = 0;
  let opened = false;
  let headWanted = false;
  let head: Run | null = null;
  let running: Promise<void> | undefined;
  let next: Promise<void> | undefined;

  async function read(): Promise<void> {
    dirty = false;
    const wanted = headWanted || !opened;
    headWanted = false;
    try {
      let run = wanted ? await store.load(runId) : head;
      const entries = opened ? await readNew() : undefined;
      if (opened && !entries) run = await store.load(runId);
      await live.advance();
      if (entries) tail.add(entries);
      else if (run) tail.moveTo(run.eventSeq);
      opened ||= run !== null;
      head = run;
      readAt = performance.now();
      generation += 1;
    } catch (error) {
      dirty = true;
      headWanted ||= wanted;
      throw error;
    }
  }

  /** Undefined: there are too many. */
  async function readNew(): Promise<FeedEntry[] | undefined> {
    const entries: FeedEntry[] = [];
    while (entries.length < mostNew) {
      const page = await store.readFeed(runId, entries.at(-1)?.seq ?? tail.last(), pageSize);
      entries.push(...page);
      if (page.length < pageSize) return entries;
    }
    return undefined;
  }

  function begin(): Promise<void> {
    const reading = read().finally(() => {
      running = undefined;
    });
    running = reading;
    return reading;
  }

  /** Resolves when a reading that began after this call has ended. */
  function refresh(): Promise<void> {
    if (!running) return begin();
    next ??= running
      .catch(() => {})
      .then(() => {
        next = undefined;
        return begin();
      });
    return next;
  }

  return {
    soil() {
      dirty = true;
    },
    async fresh() {
      if (dirty) await refresh();
      // It began after the last signal.
      else if (running) await running;
      else if (performance.now() - readAt > staleAfterMs) await refresh();
    },
    async readHead() {
      headWanted = true;
      await refresh();
      return head;
    },
    generation: () => generation,
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

/** What a value takes in memory, about: two bytes a character of its JSON, and a little more. */
function sizeOf(value: unknown): number {
  return 200 + 2 * JSON.stringify(value).length;
}
