import type { FeedEntry } from "../core/event.ts";
import type { Run } from "../core/run.ts";
import type { FollowDeps } from "./follow.ts";
import type { LiveChain, Tail } from "./watch-cache.ts";

type Store = FollowDeps["store"];

const pageSize = 200;
/** So many new entries at once are not kept: a watcher that is that far behind reads them for itself. */
const mostNew = 1_000;
/** Signals are best effort: what was read longer ago than this is looked at again. */
const staleAfterMs = 900;

export type Refresher = {
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

/** Reads what is new of a run for all who ask, one reading at a time. */
export function createRefresher(refreshing: Refreshing): Refresher {
  const { store, runId } = refreshing;
  let dirty = true;
  let readAt = Number.NEGATIVE_INFINITY;
  let generation = 0;
  let headWanted = true;
  let head: Run | null = null;

  async function read(): Promise<void> {
    dirty = false;
    const wanted = headWanted;
    headWanted = false;
    try {
      const run = wanted ? await store.load(runId) : head;
      head = await readNew(refreshing, run, generation > 0 && head !== null);
      readAt = performance.now();
      generation += 1;
    } catch (error) {
      dirty = true;
      headWanted ||= wanted;
      throw error;
    }
  }

  const reading = createTurns(read);

  return {
    soil() {
      dirty = true;
    },
    async fresh() {
      if (dirty) await reading.begin();
      else if (reading.running()) await reading.running();
      else if (performance.now() - readAt > staleAfterMs) await reading.begin();
    },
    async readHead() {
      headWanted = true;
      await reading.begin();
      return head;
    },
    generation: () => generation,
  };
}

/**
 * Reads new entries, then live text, and shows the entries last.
 *
 * @param opened false: nothing was read yet, and the end of the feed is where it begins.
 * @returns the head that goes with what can be read now.
 */
async function readNew(
  { store, runId, tail, live }: Refreshing,
  run: Run | null,
  opened: boolean,
): Promise<Run | null> {
  const entries = opened ? await readEntries(store, runId, tail.last()) : undefined;
  const moved = opened && !entries ? await store.load(runId) : run;
  await live.advance();
  if (entries) tail.add(entries);
  else if (moved) tail.moveTo(moved.eventSeq);
  return moved;
}

/** Undefined: there are too many. */
async function readEntries(store: Store, runId: string, after: number): Promise<FeedEntry[] | undefined> {
  const entries: FeedEntry[] = [];
  while (entries.length < mostNew) {
    const page = await store.readFeed(runId, entries.at(-1)?.seq ?? after, pageSize);
    entries.push(...page);
    if (page.length < pageSize) return entries;
  }
  return undefined;
}

type Turns = {
  /** Resolves when a reading that began after this call has ended. */
  begin(): Promise<void>;
  /** The reading that goes on. */
  running(): Promise<void> | undefined;
};

/** One reading at a time, and at most one that waits for it: whoever asks meanwhile shares that one. */
function createTurns(read: () => Promise<void>): Turns {
  let running: Promise<void> | undefined;
  let next: Promise<void> | undefined;

  function start(): Promise<void> {
    running = read().finally(() => {
      running = undefined;
    });
    return running;
  }

  return {
    begin() {
      if (!running && !next) return start();
      next ??= (running ?? Promise.resolve())
        .catch(() => {})
        .then(() => {
          next = undefined;
          return start();
        });
      return next;
    },
    running: () => running,
  };
}
