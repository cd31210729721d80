import type { RunFeedEvent } from "../core/feed.ts";
import { birthOf, type FollowDeps, type FollowOptions, follow } from "./follow.ts";
import { createBudget } from "./watch-budget.ts";
import { createSource, type Source } from "./watch-source.ts";

/** The feeds of runs for many readers: all that watch one run read over one source, at one place each. */
export type Watch = {
  /** As `RunHandle.events`. What is given out is shared: it must not be changed. */
  events(runId: string, options?: FollowOptions): AsyncGenerator<RunFeedEvent>;
  /** Watchers, the runs they watch, and bytes kept for them. */
  stats(): { watchers: number; runs: number; bytes: number };
};

export type WatchOptions = FollowDeps & {
  /** Kept in memory over all runs, about; default 64 MiB. Watchers that are further behind read for themselves. */
  cacheBytes?: number | undefined;
};

const defaultCacheBytes = 64 * 1_048_576;

export function createWatch({ store, signals, cacheBytes = defaultCacheBytes }: WatchOptions): Watch {
  const budget = createBudget(cacheBytes);
  const sources = new Map<string, { source: Source; watchers: number }>();

  /** Another run that takes the id of a deleted one has a source of its own: this one holds the first one's content. */
  async function enter(runId: string): Promise<{ source: Source; leave: () => void }> {
    const birth = await birthOf(store, runId);
    const name = `${runId} ${birth.at}`;
    const place = sources.get(name) ?? { source: createSource({ store, signals, birth }, runId, budget), watchers: 0 };
    sources.set(name, place);
    place.watchers += 1;
    return {
      source: place.source,
      leave() {
        place.watchers -= 1;
        if (place.watchers > 0) return;
        sources.delete(name);
        place.source.close();
      },
    };
  }

  return {
    async *events(runId, options) {
      const { source, leave } = await enter(runId);
      try {
        yield* follow(source, runId, options);
      } finally {
        leave();
      }
    },
    stats: () => ({
      watchers: [...sources.values()].reduce((sum, { watchers }) => sum + watchers, 0),
      runs: sources.size,
      bytes: budget.used(),
    }),
  };
}
