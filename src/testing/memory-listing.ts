import { owed } from "../core/owed.ts";
import { type Run, type RunStatus, runStatuses } from "../core/run.ts";
import {
  fitsFilter,
  newestPlace,
  parseCountFilter,
  parseRunFilter,
  placeOf,
  type RunFilter,
} from "../core/run-filter.ts";
import type { RunPage, RunStore } from "../ports.ts";
import { copy } from "./memory-sessions.ts";

const mostOwing = 1_000;

/** How the runs of a store in memory are found, by looking at all of them. */
export function createMemoryListing(runs: () => Run[]): Pick<RunStore, "list" | "count" | "owing" | "dropOwing"> {
  return {
    list: async (filter) => list(runs(), filter),
    count: async (filter = {}) => count(runs(), filter),
    async owing(before, limit, offset = 0) {
      const ids = owing(runs(), before);
      return ids.slice(offset, offset + Math.max(0, Math.min(limit, mostOwing)));
    },
    // Derived from the records: one that is gone owes nothing.
    dropOwing: async () => false,
  };
}

const compare = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0);

function list(all: Run[], given: RunFilter): RunPage {
  const filter = parseRunFilter(given);
  const { limit, cursor, search } = filter;
  const fitting = all.filter((run) => fitsFilter(run, filter));
  const whole = cursor === undefined ? fitting.filter((run) => run.runId === search) : [];
  const rest = fitting
    .filter((run) => run.runId !== search && (cursor === undefined || placeOf(run) < cursor))
    .sort((a, b) => compare(placeOf(b), placeOf(a)));
  const page = [...whole, ...rest].slice(0, limit);
  const last = rest[page.length - whole.length - 1];
  const isEnd = page.length === whole.length + rest.length;
  return { runs: page.map(copy), ...(isEnd ? {} : { cursor: last ? placeOf(last) : newestPlace }) };
}

function count(all: Run[], given: Pick<RunFilter, "tenant" | "agent">): Record<RunStatus, number> {
  const { tenant, agent } = parseCountFilter(given);
  const fitting = all
    .filter((run) => tenant === undefined || run.tenant === tenant)
    .filter((run) => agent === undefined || run.agent === agent);
  const counts = runStatuses.map((status) => [status, fitting.filter((run) => run.status === status).length]);
  return Object.fromEntries(counts) as Record<RunStatus, number>;
}

function owing(all: Run[], before: number): string[] {
  return all
    .map((run) => ({ runId: run.runId, at: owingSince(run) }))
    .filter((item): item is { runId: string; at: number } => item.at !== undefined && item.at < before)
    .sort((a, b) => a.at - b.at || compare(a.runId, b.runId))
    .map(({ runId }) => runId);
}

/** Since when a run owes something that could be done, epoch ms. */
export function owingSince(run: Run): number | undefined {
  const steps = owed(run);
  if (steps.length === 0) return undefined;
  return Math.max(run.updatedAt, Math.min(...steps.map((step) => step.notBefore ?? 0)));
}
