import type { Change } from "../core/change.ts";
import { DroverError, toError } from "../core/errors.ts";
import type { RunEvent } from "../core/event.ts";
import { isSameStep, noLongerOwed, owed, type Step } from "../core/owed.ts";
import { type Redaction, redactEvent } from "../core/redact-event.ts";
import { isEnded, type Run } from "../core/run.ts";
import { transition } from "../core/transition.ts";
import type { Clock, Durable, Ids, Logger, RunStore, StepQueue, Telemetry } from "../ports.ts";
import type { AfterCommit } from "./after-commit.ts";
import { createInTurn } from "./in-turn.ts";
import { queueSteps } from "./queue-owed.ts";
import { quietly } from "./quietly.ts";

export type AdvanceResult = {
  /** The head as this process knows it now; null if the run is gone. */
  run: Run | null;
  /** What was committed by this call; null if the event did not apply. */
  change: Change | null;
};

export type AdvanceOptions = {
  /** A head loaded earlier; saves a read. A stale one is found out by the commit. */
  head?: Run | undefined;
  /**
   * Sends the commit and the steps it makes owed together, without waiting for the commit's reply. Only inside a step:
   * if the commit is lost the step is delivered again, and a job that is ahead of its record waits for it.
   */
  pipeline?: boolean | undefined;
  /**
   * Outside a step: what could not be queued is left to a sweeper, since the change is made and nobody would make it
   * again. A step that fails here is delivered again instead.
   */
  sweepable?: boolean | undefined;
};

/** The change was made, and what it makes owed could not be queued: the step that made it is to be delivered again. */
export class NotQueued extends DroverError {
  override readonly name: string = "NotQueued";

  constructor(cause: unknown) {
    super("queue_unavailable", toError(cause).message, { cause });
  }
}

/** The one way to change a run (invariant 1). */
export type Advance = (runId: string, event: RunEvent, options?: AdvanceOptions) => Promise<AdvanceResult>;

type Deps = {
  store: RunStore;
  queue: StepQueue;
  clock: Clock;
  ids: Ids;
  /** The head as this process knows it, perhaps stale; saves a read or a conflict. */
  recent: (runId: string) => Run | undefined;
  afterCommit: AfterCommit;
  logger: Logger;
  telemetry: Pick<Telemetry, "count">;
  redaction: Redaction;
  durable?: Durable | undefined;
};

/**
 * Loads the head, applies the transition, commits by compare-and-set and queues what became owed; on a conflict applies
 * the event again to the head that the commit returned. Commits of one run queue up within this process.
 */
export function createAdvance(deps: Deps): Advance {
  const { store, queue, clock, ids, recent, afterCommit } = deps;
  const inTurn = createInTurn();

  async function attempt(event: RunEvent, head: Run, options: AdvanceOptions): Promise<AdvanceResult | Run> {
    const change = transition(head, event, { at: clock.now(), token: ids.token() });
    if (!change) return { run: head, change: null };
    const committing = store.commit(change);
    const now = owed(change.run);
    const steps = newlyOwed(change, now);
    // A delayed job of a commit that was refused would stay until it is due, perhaps for months: it is queued after.
    const isAlong = ({ notBefore }: Step): boolean => options.pipeline === true && notBefore === undefined;
    const along = steps.filter(isAlong);
    const after = along.length === steps.length ? [] : steps.filter((step) => !isAlong(step));
    const adding = along.length > 0 ? failureOf(queue.add(along)) : undefined;
    const result = await committing;
    const notAdded = await adding;
    if (!result.committed) {
      deps.telemetry.count({ what: "commit_conflict" });
      return result.run ?? { run: null, change: null };
    }
    if (deps.durable && !options.sweepable) await endIsSafe(deps, deps.durable, change);
    afterCommit(change);
    if (notAdded) throw new NotQueued(notAdded.reason);
    if (after.length > 0) await addSteps(deps, after, options);
    const obsolete = noLongerOwed(change.previous, now).filter((step) => mayBeQueued(step, event));
    if (obsolete.length > 0) await queue.remove(obsolete);
    return { run: change.run, change };
  }

  async function run(runId: string, event: RunEvent, options: AdvanceOptions): Promise<AdvanceResult> {
    let head: Run | null = newest(options.head, recent(runId)) ?? null;
    let fresh = head === null;
    head ??= await store.load(runId);
    while (head) {
      if (options.head && !isSameRun(options.head, head)) return { run: head, change: null };
      const result = await attempt(event, head, options);
      if ("revision" in result) {
        head = result;
        fresh = true;
      } else if (result.change || result.run === null || fresh) return result;
      else {
        // The event does not apply to a head that may be stale: look once more before saying so.
        head = await store.load(runId);
        fresh = true;
      }
    }
    return { run: null, change: null };
  }

  return async (runId, given, options = {}) => {
    // Here, so that nothing that is committed goes around it.
    const event = redactEvent(given, deps.redaction);
    return await inTurn(runId, () => run(runId, event, options));
  };
}

/** Why it failed; undefined if it did not. Never rejects. */
function failureOf(work: Promise<void>): Promise<{ reason: unknown } | undefined> {
  return work.then(
    () => undefined,
    (reason: unknown) => ({ reason }),
  );
}

async function addSteps(deps: Deps, steps: Step[], { sweepable }: AdvanceOptions): Promise<void> {
  if (!sweepable) return queueSteps(deps, steps);
  const runId = steps[0]?.runId;
  await quietly(deps.logger, { runId }, "a step could not be queued; a sweeper will", () => queueSteps(deps, steps));
}

/** The end of a run is told to others once a failover cannot take it back, or after a while with a warning. */
async function endIsSafe({ logger }: Deps, durable: Durable, { previous, run }: Change): Promise<void> {
  if (isEnded(previous) || !isEnded(run)) return;
  const { runId } = run;
  await quietly(logger, { runId }, "the end of a run is not safe yet", () => durable.confirm(run));
}

/** Of two that have one id: another may have taken it since the first was deleted. */
export function isSameRun(a: Run, b: Run): boolean {
  return a.createdAt === b.createdAt && a.inputHash === b.inputHash;
}

/** What this process remembers may be of a run that was deleted since: who loaded a head knows better. */
function newest(given: Run | undefined, known: Run | undefined): Run | undefined {
  if (!given || !known) return given ?? known;
  return isSameRun(given, known) && known.revision > given.revision ? known : given;
}

/**
 * Steps, of all that are owed now, that this change made so: those named by its own revision. All others were queued by earlier commits, but for
 * those of a run that was paused.
 */
function newlyOwed({ previous, run }: Change, now: Step[]): Step[] {
  return previous.paused && !run.paused ? now : now.filter((step) => step.owedAt === run.revision);
}

/**
 * The step that reports an event is being executed and ends by itself. What else is not owed any more may sit in a
 * queue, perhaps delayed for long, and is taken back.
 */
function mayBeQueued(step: Step, event: RunEvent): boolean {
  if ("step" in event) return !isSameStep(event.step, step);
  return !(event.type === "time_came" && step.kind === "wake");
}
