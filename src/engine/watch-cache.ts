// What a source of watchers keeps in memory; see `createSource`.

import type { FeedEntry } from "../core/event.ts";
import type { LiveDelta, RunStore } from "../ports.ts";
import type { Budget, Kept } from "./watch-budget.ts";

/** What one source keeps of the budget that all share. */
export type Shelf = { put(bytes: number, drop: () => void): void; clear(): void };

export function createShelf(budget: Budget): Shelf {
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

export type Once = <T>(name: string, read: () => Promise<T>) => Promise<T>;

/** Whoever asks for the same while it is being read gets what comes. */
export function createOnce(): Once {
  const running = new Map<string, Promise<unknown>>();
  return <T>(name: string, read: () => Promise<T>) => {
    const known = running.get(name) as Promise<T> | undefined;
    if (known) return known;
    const reading = read().finally(() => running.delete(name));
    running.set(name, reading);
    return reading;
  };
}

export type Tail = {
  /** Entries after this one are kept, up to `last`. */
  base(): number;
  last(): number;
  read(after: number, limit: number): FeedEntry[];
  add(entries: FeedEntry[]): void;
  /** Begins anew after this entry. */
  moveTo(seq: number): void;
};

export function createTail(shelf: Shelf): Tail {
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
export type LiveChain = { read(from: string): Promise<LivePage>; advance(): Promise<void> };

type LiveOptions = { store: Pick<RunStore, "readLive">; runId: string; shelf: Shelf; once: Once };

/** Live text as pages, each found by where it begins. All who begin at the same place read the same pages. */
export function createLiveChain({ store, runId, shelf, once }: LiveOptions): LiveChain {
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

/** What a value takes in memory, about: two bytes a character of its JSON, and a little more. */
export function sizeOf(value: unknown): number {
  return 200 + 2 * JSON.stringify(value).length;
}
