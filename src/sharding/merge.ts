import { type Run, type RunStatus, runStatuses } from "../core/run.ts";
import { newestPlace, parseRunFilter, placeOf, type RunFilter } from "../core/run-filter.ts";
import type { RunPage, RunStore } from "../ports.ts";
import type { ShardStore } from "../ports-sharding.ts";
import type { Placement } from "./placement.ts";

/**
 * A page of runs over all shards, newest first. A cursor is a place in the order of creation, which is the same in every
 * shard; so each gives its page from the same place, and what lies before the place that all have come to is in order.
 *
 * @throws DroverError "invalid" for a filter that does not fit, naming the fields.
 */
export async function listShards({ stores, store, of }: Placement, given: RunFilter): Promise<RunPage> {
  const filter = parseRunFilter(given);
  if (filter.session !== undefined) return store(of(filter.session)).list(given);
  const pages = await Promise.all(stores.map((one) => one.list(given)));
  const all = pages.flatMap(({ runs }) => runs);
  // What is searched as a whole id comes first, wherever it is in the order.
  const isFirst = (run: Run): boolean => filter.cursor === undefined && run.runId === filter.search;
  const whole = all.filter(isFirst);
  const reached = latest(pages.flatMap(({ cursor }) => cursor ?? []));
  const rest = all
    .filter((run) => !isFirst(run) && (reached === undefined || placeOf(run) >= reached))
    .toSorted((a, b) => (placeOf(a) < placeOf(b) ? 1 : -1));
  const runs = [...whole, ...rest].slice(0, filter.limit);
  const last = runs.at(-1);
  // Cut after the whole id alone, what follows is still all to come.
  if (rest.length + whole.length > runs.length && last) {
    return { runs, cursor: isFirst(last) ? newestPlace : placeOf(last) };
  }
  return { runs, ...(reached === undefined ? {} : { cursor: reached }) };
}

function latest(places: readonly string[]): string | undefined {
  return places.reduce<string | undefined>(
    (most, place) => (most === undefined || place > most ? place : most),
    undefined,
  );
}

export async function countShards(
  stores: readonly RunStore[],
  filter: Parameters<RunStore["count"]>[0],
): Promise<Record<RunStatus, number>> {
  const counts = await Promise.all(stores.map((store) => store.count(filter)));
  const sum = (status: RunStatus): number => counts.reduce((total, count) => total + count[status], 0);
  return Object.fromEntries(runStatuses.map((status) => [status, sum(status)])) as Record<RunStatus, number>;
}

/** Those that have owed something for longest, over all shards. A sweeper looks at one shard, and needs no merging. */
export async function owingOfShards(
  stores: readonly ShardStore[],
  before: number,
  { limit, offset = 0 }: { limit: number; offset?: number | undefined },
): Promise<string[]> {
  const most = offset + Math.max(0, limit);
  const all = await Promise.all(stores.map((store) => store.owingSince(before, most)));
  const sorted = all.flat().toSorted((a, b) => a.since - b.since || (a.runId < b.runId ? -1 : 1));
  return sorted.slice(offset, most).map(({ runId }) => runId);
}
