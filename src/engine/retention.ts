import { isOutage, toError } from "../core/errors.ts";
import { agesOf, type EndedStatus, type Retention } from "../core/retention.ts";
import type { Run } from "../core/run.ts";
import type { Clock, Logger, Presence, ResponseStore, RunStore, Signals, Telemetry } from "../ports.ts";
import { quietly } from "./quietly.ts";
import { isWaitedFor } from "./waited-for.ts";

export type RetentionDeps = {
  store: Pick<RunStore, "removeEnded" | "removeIdleSessions" | "oldestCreation" | "removeDefinitions" | "tryLease"> &
    Pick<RunStore, "load" | "count">;
  /** Where the runs of all responses and all parents are, if `store` is only a part of that; default `store`. */
  allRuns?: Pick<RunStore, "load" | "count"> | undefined;
  /** Answers of the Responses endpoint; they go with their runs. */
  responses?: Pick<ResponseStore, "due" | "postpone" | "remove"> | undefined;
  /** Agents that nobody has had for as long, and of which no run is left, are forgotten. */
  presence?: Pick<Presence, "agents" | "forgetAgent"> | undefined;
  /** Undefined: no other process remembers runs. */
  signals?: Pick<Signals, "announce"> | undefined;
  clock: Clock;
  logger: Logger;
  telemetry?: Pick<Telemetry, "count"> | undefined;
};

/** Looked at in one go: some milliseconds of Redis's time. */
const pageSize = 100;
/** Between two pages others have their turn; after this much time the rest is left to the next look. */
const pauseMs = 2;
const longestMs = 1_500;

/**
 * Removes runs whose time is over, those that ended first first, a page at a time, with the responses made of them and the
 * transcripts of sessions, the definitions and the agents that are left without runs. A run that goes on, waits, or still has
 * others to tell stays, and so does a child for whose result a call still waits.
 * Ages are by Redis's clock. What is left after a second and a half is left to the next call.
 *
 * @throws what stood in the way of a part of it, after the others were done
 * @returns how many runs of each status were removed; statuses of which none was are absent.
 */
export async function removeExpired(
  deps: RetentionDeps,
  retention: Retention,
): Promise<{ [status in EndedStatus]?: number }> {
  const ages = agesOf(retention);
  if (ages.length === 0) return {};
  const turn = createTurn(deps.clock);
  const removed: { [status in EndedStatus]?: number } = {};
  const longest = Math.max(...ages.map(([, ms]) => ms));
  const parts = [
    ...ages.map(([status, ms]) => async (): Promise<void> => {
      const count = await removeOfStatus(deps, turn, status, ms);
      if (count > 0) removed[status] = count;
    }),
    () => removeResponses(deps, turn, ages),
    () => removeSessions(deps, turn, longest),
    () => removeDefinitions(deps, turn),
    () => forgetAgents(deps, turn.startedAt - longest),
  ];
  const failures: unknown[] = [];
  // What stands in the way of one part says nothing of the others.
  for (const part of parts) await part().catch((error: unknown) => failures.push(error));
  if (Object.keys(removed).length > 0) deps.logger.info({ ...removed }, "runs were removed: their retention is over");
  if (failures.length > 0) throw failures[0];
  return removed;
}

/** `next`: waits until it is this turn's to go on; false once its time is up. `startedAt`: epoch ms. */
type Turn = { startedAt: number; next(): Promise<boolean> };

function createTurn(clock: Clock): Turn {
  const startedAt = clock.now();
  return {
    startedAt,
    async next() {
      if (clock.now() - startedAt >= longestMs) return false;
      await clock.sleep(pauseMs);
      return true;
    },
  };
}

async function removeOfStatus(deps: RetentionDeps, turn: Turn, status: EndedStatus, ms: number): Promise<number> {
  const { store, allRuns = store, signals, logger, telemetry } = deps;
  // A parent that cannot be read may wait.
  const spare = (run: Run): Promise<boolean> => isWaitedFor(allRuns, run).catch(() => true);
  let count = 0;
  let offset = 0;
  for (;;) {
    const { removed, kept } = await store.removeEnded(status, turn.startedAt - ms, pageSize, { offset, spare });
    // Whoever remembers them forgets them, before other runs take their ids.
    await quietly(logger, { status }, "the removal of runs could not be announced", async () => {
      if (signals) await Promise.all(removed.map((runId) => signals.announce(runId)));
    });
    if (removed.length > 0) telemetry?.count({ what: "run_removed", status }, removed.length);
    count += removed.length;
    offset += kept;
    if (removed.length + kept < pageSize || !(await turn.next())) return count;
  }
}

/**
 * A response goes once its run is gone; one whose run is there is looked at again when that may be, and one of which that
 * cannot be told after the shortest age.
 */
async function removeResponses(deps: RetentionDeps, turn: Turn, ages: [EndedStatus, number][]): Promise<void> {
  const { responses, allRuns = deps.store } = deps;
  if (!responses) return;
  const shortest = Math.min(...ages.map(([, ms]) => ms));
  for (;;) {
    const due = await responses.due(turn.startedAt - shortest, pageSize);
    for (const { id, runId } of due) {
      const run = await runOf(allRuns, runId);
      if (run === null) await responses.remove(id);
      else await responses.postpone(id, run ? nextLook(run, turn.startedAt, ages, shortest) : turn.startedAt);
    }
    if (due.length < pageSize || !(await turn.next())) return;
  }
}

/** Null: there is none; undefined: its record, or that of the response, cannot be read here. */
async function runOf(runs: Pick<RunStore, "load">, runId: string | null | undefined): Promise<Run | null | undefined> {
  if (typeof runId !== "string") return runId === null ? undefined : null;
  try {
    return await runs.load(runId);
  } catch (error) {
    if (isOutage(error)) throw error;
    return undefined;
  }
}

/** When the shortest age is counted from, so that the look falls on the time at which the run may go. */
function nextLook(
  { status, endedAt }: { status: string; endedAt?: number | undefined },
  now: number,
  ages: [EndedStatus, number][],
  shortest: number,
): number {
  const own = ages.find(([of]) => of === status)?.[1];
  if (own === undefined || endedAt === undefined) return now;
  return Math.max(endedAt + own - shortest, now - shortest + retryLookMs);
}

/** A run that should be gone by now stays for a moment: others are still to be told. */
const retryLookMs = 1_000;

async function removeSessions({ store }: RetentionDeps, turn: Turn, ms: number): Promise<void> {
  for (;;) {
    const looked = await store.removeIdleSessions(turn.startedAt - ms, pageSize);
    if (looked < pageSize || !(await turn.next())) return;
  }
}

/** Much longer than a process leaves out putting a definition that it has put before, and than clocks differ. */
const definitionMarginMs = 3_600_000;

/**
 * Whoever executes a run with a definition that it was not executed with before sees to it that this one is kept. So one that
 * was put last before the oldest run was created is no run's any more.
 */
async function removeDefinitions({ store }: RetentionDeps, { startedAt, next }: Turn): Promise<void> {
  const oldest = (await store.oldestCreation()) ?? startedAt;
  // By a clock that was ahead: it may have been created long ago.
  if (oldest - startedAt > definitionMarginMs) return;
  for (;;) {
    const removed = await store.removeDefinitions(Math.min(startedAt, oldest) - definitionMarginMs, pageSize);
    if (removed < pageSize || !(await next())) return;
  }
}

async function forgetAgents({ presence, store, allRuns = store }: RetentionDeps, before: number): Promise<void> {
  for (const { name, seenAt } of (await presence?.agents()) ?? []) {
    if (seenAt >= before) continue;
    const counts = Object.values(await allRuns.count({ agent: name }));
    if (counts.every((count) => count === 0)) await presence?.forgetAgent(name);
  }
}

/** A process that has just started leaves it to the others: a start whose worker died is delivered again first. */
const firstAfterMs = 10_000;

/**
 * Does the above every now and then, in one process of the fleet at a time. It also goes on while Redis takes no writes
 * for want of memory, which is when it matters: a removal needs none.
 *
 * @returns what to call at each turn of a sweeper that comes every `everyMs`.
 */
export function createRetentionTurn(
  deps: RetentionDeps,
  retention: Retention,
): ((everyMs: number) => Promise<void>) | undefined {
  if (agesOf(retention).length === 0) return undefined;
  const startedAt = deps.clock.now();
  return async (everyMs) => {
    if (deps.clock.now() - startedAt < firstAfterMs) return;
    // Two at a time do no harm: what one has removed the other finds gone.
    const isFree = await deps.store.tryLease("retention", Math.ceil(everyMs / 2)).catch(() => true);
    if (!isFree) return;
    await removeExpired(deps, retention).catch((error: unknown) =>
      deps.logger.warn({ error: toError(error).message }, "old runs could not be removed; it is tried again"),
    );
  };
}
