import type { RunView } from "../../engine/run-view.ts";
import type { Caller, RunApi } from "../types.ts";
import { type Ask, asksOf } from "./asks.ts";

/** So many runs of a status are looked at; so many of them are shown with their arguments. */
const mostListed = 500;
const mostShown = 100;
const countedForMs = 2_000;

/** What waits for a person over all runs that a caller may see. */
export type Inbox = {
  /** The oldest first. `more`: there are runs that were not looked at, or not shown. */
  read(runs: RunApi): Promise<{ asks: Ask[]; more: boolean }>;
  /** How many there are, as of a moment ago. */
  count(runs: RunApi, caller: Caller): Promise<number>;
};

export function createInbox(now: () => number = Date.now): Inbox {
  const counted = new Map<string, { at: number; count: Promise<number> }>();
  return {
    read: readInbox,
    count(runs, { tenant = "" }) {
      const known = counted.get(tenant);
      if (known && now() - known.at < countedForMs) return known.count;
      // Every page shows it, so that none of them may fail for it.
      const count = listWaiting(runs).then(
        ({ views }) => views.reduce((sum, view) => sum + asksOf(view).length, 0),
        () => 0,
      );
      if (counted.size > 1_000) counted.clear();
      counted.set(tenant, { at: now(), count });
      return count;
    },
  };
}

async function readInbox(runs: RunApi): Promise<{ asks: Ask[]; more: boolean }> {
  const { views, more } = await listWaiting(runs);
  const oldest = views.toSorted((a, b) => askedSince(a) - askedSince(b)).slice(0, mostShown);
  // Lists tell no arguments; a run may also have been decided on since.
  const whole = await Promise.all(
    oldest.map(({ runId }) =>
      runs
        .get(runId)
        .status()
        .catch(() => undefined),
    ),
  );
  const asks = whole.flatMap((view) => (view ? asksOf(view) : []));
  asks.sort((a, b) => (a.call.askedAt ?? 0) - (b.call.askedAt ?? 0));
  return { asks, more: more || views.length > mostShown };
}

/**
 * A run whose other calls are being executed is running, and may have one that asks. So may one that is paused, and the time
 * that people have goes on.
 */
async function listWaiting(runs: RunApi): Promise<{ views: RunView[]; more: boolean }> {
  const pages = await Promise.all(
    (["waiting", "running", "paused"] as const).map((status) => runs.list({ status, limit: mostListed })),
  );
  const views = pages.flatMap((page) => page.runs).filter((view) => asksOf(view).length > 0);
  return { views, more: pages.some(({ cursor }) => cursor !== undefined) };
}

function askedSince(view: RunView): number {
  return Math.min(...asksOf(view).map(({ call }) => call.askedAt ?? 0));
}
