import { toError } from "../core/errors.ts";
import { owed } from "../core/owed.ts";
import type { Retention } from "../core/retention.ts";
import type { Clock, Logger, RunStore, StepQueue, Telemetry } from "../ports.ts";
import { ofRun } from "./log-fields.ts";
import { createRetentionTurn, type RetentionDeps } from "./retention.ts";

/** Runs that have owed something for this long are looked at; a healthy step is queued within milliseconds. */
const owedForMs = 5_000;
const pageSize = 100;

export type SweepDeps = {
  store: RunStore;
  queue: StepQueue;
  clock: Clock;
  logger: Logger;
  telemetry?: Pick<Telemetry, "count"> | undefined;
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
export async function sweep({ store, queue, clock, logger, telemetry }: SweepDeps): Promise<number> {
  const before = clock.now() - owedForMs;
  let repaired = 0;
  for (let offset = 0; ; offset += pageSize) {
    const runIds = await store.owing(before, pageSize, offset);
    for (const runId of runIds) {
      try {
        const run = await store.load(runId);
        const fixed = run ? await queue.repair(owed(run)) : 0;
        if (run && fixed > 0) {
          logger.warn({ ...ofRun(run), steps: fixed }, "a run owed steps that were not queued; they were queued");
          telemetry?.count({ what: "sweep_repair" }, fixed);
        }
        repaired += fixed;
      } catch (error) {
        logger.warn({ runId, error: toError(error).message }, "a run could not be swept");
      }
    }
    if (runIds.length < pageSize) return repaired;
  }
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
