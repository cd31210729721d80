import { DroverError, toError } from "../core/errors.ts";
import { runIdSchema } from "../core/new-run.ts";
import { owed } from "../core/owed.ts";
import type { Retention } from "../core/retention.ts";
import type { Clock, Logger, RunStore, StepQueue, Telemetry } from "../ports.ts";
import { ofRun } from "./log-fields.ts";
import { createRetentionTurn, type RetentionDeps } from "./retention.ts";

/** Runs that have owed something for this long are looked at; a healthy step is queued within milliseconds. */
const owedForMs = 5_000;
const pageSize = 100;
/** Looked at side by side: after a queue was lost there are thousands. */
const runsAtOnce = 10;

export type SweepDeps = {
  store: RunStore;
  queue: StepQueue;
  clock: Clock;
  logger: Logger;
  telemetry?: Pick<Telemetry, "count"> | undefined;
  /** Looks at the lines of all sessions: those behind a run whose record is lost owe nothing, and would wait for ever. */
  wakeSessions?: (() => Promise<void>) | undefined;
};

export type SweeperDeps = SweepDeps & RetentionDeps;

export type SweeperOptions = {
  /** Default 5 s. */
  everyMs?: number | undefined;
  /** Default: runs are kept until somebody deletes them. */
  retention?: Retention | undefined;
};

/**
 * Finds runs that owe a step for long and queues what is missing: the answer to a crash outside any step and to a queue
 * that lost data. Steps that are queued, delayed or being executed are left alone, so any number of sweepers may run.
 *
 * @returns how many steps had to be repaired.
 */
export async function sweep(deps: SweepDeps): Promise<number> {
  const { store, clock } = deps;
  const before = clock.now() - owedForMs;
  const failures = createFailures();
  let repaired = 0;
  let lost = 0;
  for (let offset = 0; ; ) {
    const runIds = await store.owing(before, pageSize, offset);
    offset += runIds.length;
    for (let at = 0; at < runIds.length; at += runsAtOnce) {
      const some = runIds.slice(at, at + runsAtOnce);
      const fixed = await Promise.all(some.map((runId) => sweepRun(deps, runId, failures)));
      repaired += fixed.reduce<number>((sum, count) => sum + (count ?? 0), 0);
      // The next page begins so much earlier.
      const gone = fixed.filter((count) => count === null).length;
      offset -= gone;
      lost += gone;
    }
    if (runIds.length < pageSize) break;
  }
  if (lost > 0) await deps.wakeSessions?.();
  failures.tell(deps.logger);
  return repaired;
}

/** @returns how many steps had to be repaired; null if the run is not there, and not among those that owe something any more. */
async function sweepRun(
  { store, queue, logger, telemetry }: SweepDeps,
  runId: string,
  failures: Failures,
): Promise<number | null> {
  try {
    // What can be no run's id may name other keys, that cannot be read as a run.
    const run = runIdSchema.safeParse(runId).success ? await store.load(runId) : null;
    if (!run) {
      const isDropped = await store.dropOwing(runId);
      if (isDropped) logger.warn({ runId }, "a run that owed steps is not there any more: its record was lost");
      return isDropped ? null : 0;
    }
    const fixed = await queue.repair(owed(run));
    if (fixed > 0) {
      logger.warn({ ...ofRun(run), steps: fixed }, "a run owed steps that were not queued; they were queued");
      telemetry?.count({ what: "sweep_repair" }, fixed);
    }
    return fixed;
  } catch (error) {
    failures.note(runId, error);
    return 0;
  }
}

type Failures = { note(runId: string, error: unknown): void; tell(logger: Logger): void };

/** One line a kind for the whole sweep: in a rolling deployment each run of a newer version cannot be read. */
function createFailures(): Failures {
  const kinds = new Map<string, { runId: string; error: string; others: number }>();
  return {
    note(runId, thrown) {
      const error = toError(thrown);
      const kind = error instanceof DroverError ? error.code : error.name;
      const known = kinds.get(kind);
      if (known) known.others += 1;
      else kinds.set(kind, { runId, error: error.message, others: 0 });
    },
    tell(logger) {
      for (const { runId, error, others } of kinds.values())
        logger.warn({ runId, error, ...(others > 0 ? { others } : {}) }, "a run could not be swept");
    },
  };
}

/** One sweeper of the fleet at a time is enough; the lease ends before its next turn, so that another may be next. */
async function sweepIfFree(deps: SweepDeps, everyMs: number): Promise<void> {
  if (await deps.store.tryLease("sweep", Math.ceil(everyMs / 2))) await sweep(deps);
}

/** Sweeps at least every `everyMs` until stopped, each time after the last sweep has ended, and removes runs whose time is over. */
export function startSweeper(
  deps: SweeperDeps,
  { everyMs = 5_000, retention = {} }: SweeperOptions = {},
): { stop(): Promise<void> } {
  const stopping = new AbortController();
  const removeOld = createRetentionTurn(deps, retention);
  async function loop(): Promise<void> {
    while (!stopping.signal.aborted) {
      // Spread, so that the sweepers of a fleet that was started together do not look together; never later than said.
      await deps.clock.sleep(everyMs * (0.5 + Math.random() / 2), stopping.signal);
      if (stopping.signal.aborted) return;
      await sweepIfFree(deps, everyMs).catch((error: unknown) =>
        deps.logger.warn({ error: toError(error).message }, "sweeping failed; it is tried again"),
      );
      if (!stopping.signal.aborted) await removeOld?.(everyMs);
    }
  }
  const looping = loop();
  return {
    stop: () => {
      stopping.abort();
      return looping;
    },
  };
}
