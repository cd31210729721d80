import { DamagedRecord, DroverError, toError } from "../core/errors.ts";
import type { RunEvent } from "../core/event.ts";
import { isCut, type Message } from "../core/message.ts";
import { holdOf, modelIndex, owedStep, type Step, wakeIndex } from "../core/owed.ts";
import { usedToolCallIds } from "../core/reply.ts";
import { backoffMs } from "../core/retry.ts";
import { isEnded, type Run } from "../core/run.ts";
import type { Delivery, StepOutcome } from "../ports.ts";
import { type ActiveStep, StepAborted } from "./active-steps.ts";
import { endChildren, endOrphan, lookAtChild, looksAtChild, tellParent } from "./children.ts";
import { inLane, type LaneDeps, mustRunAlone, noteIsolatedStart } from "./isolated-step.ts";
import type { WindowMemo } from "./known-runs.ts";
import { performModel } from "./model-step.ts";
import { queueOwed } from "./queue-owed.ts";
import { performSession } from "./session.ts";
import { afterReport, again, done, endDelivery, handedBack, type RunStepDeps, type StepContext, soon } from "./step.ts";
import { performTool } from "./tool-step.ts";

/** A step that was delivered more often than this first sees whether its outcome can be kept. */
const deliveriesOnTrust = 2;
/** A step that meets a bug of ours this often ends its run. */
const crashesAllowed = 5;

/**
 * Executes one step: load, perform, commit, queue what comes next. A step that is not owed queues what is and ends, so
 * delivering any step again is always safe and is the repair (invariant 2). Never rejects.
 */
export function createRunStep(given: RunStepDeps): (delivery: Delivery) => Promise<StepOutcome> {
  const deps: LaneDeps = { ...given, lane: { taken: false } };
  return async (delivery) => {
    const active = deps.active.begin(delivery);
    try {
      return await runStep(deps, delivery, active);
    } catch (thrown) {
      return await crashed(deps, delivery, active, thrown);
    } finally {
      active.end();
    }
  };
}

async function runStep(deps: LaneDeps, delivery: Delivery, active: ActiveStep): Promise<StepOutcome> {
  const { clock } = deps;
  const { runId, owedAt } = delivery.step;
  const beganAt = clock.now();
  const loaded = recalled(deps, delivery) ?? (await load(deps, delivery));
  if (!loaded) {
    deps.logger.info({ runId }, "a step was dropped: its run was deleted, or its record was lost");
    return done;
  }
  const { run } = loaded;
  const step = loaded.step ?? owedStep(run, delivery.step);
  if (!step) {
    // The record is older than the step: it will catch up, by a redelivery or after a failover.
    if (run.revision < owedAt && !isEnded(run)) return soon(again(delivery, "the record is behind this step"));
    await queueOwed(deps, run);
    return done;
  }
  const early = (step.notBefore ?? 0) - clock.now();
  if (early > 0 && holdOf(run, step)?.reason !== "concurrency_limit")
    return { type: "again", delayMs: early, why: "not due yet by Redis's clock" };
  const context: StepContext = { delivery, active, step, beganAt, loadedAt: clock.now() };
  return await perform(deps, loaded, context);
}

function perform(deps: LaneDeps, loaded: Loaded, context: StepContext): Promise<StepOutcome> {
  const { run, last } = loaded;
  const { step, delivery } = context;
  if (step.kind === "notify") return tellParent(deps, run, context);
  if (step.kind === "children") return endChildren(deps, run, context);
  const isPast = isPastDeadline(run, context.loadedAt);
  if (step.kind === "session" && (isEnded(run) || !isPast)) return performSession(deps, run, context);
  if (step.kind === "wake" || isPast) return timeCame(deps, run, context);
  if (step.kind === "tool" && looksAtChild(run, step)) return lookAtChild(deps, run, last, context);
  if (mustRunAlone(deps, delivery)) return inLane(deps, run, context);
  return admitted(deps, loaded, context);
}

/** Makes the call once all limits of the fleet let it. */
async function admitted(deps: RunStepDeps, loaded: Loaded, given: StepContext): Promise<StepOutcome> {
  if (loaded.run.parent) {
    const ended = await endOrphan(deps, loaded.run, given);
    if (ended) return ended;
  }
  const admission = await deps.gatekeeper.admit(loaded.run, given);
  if ("outcome" in admission) return admission.outcome;
  const { run, pass } = admission;
  const context = { ...given, pass };
  try {
    if (!deps.isAlone) return await call(deps, run, loaded, context);
    const { run: head, change } = await noteIsolatedStart(deps, run, given.step);
    return change ? await call(deps, change.run, loaded, context) : await endDelivery(deps, head, given);
  } finally {
    const told = pass?.end();
    if (told) await told;
  }
}

async function call(deps: RunStepDeps, run: Run, loaded: Loaded, context: StepContext): Promise<StepOutcome> {
  if (context.delivery.deliveries > deliveriesOnTrust) await refuseDamaged(deps, run.runId);
  if (!loaded.messages) return await performTool(deps, run, loaded.last, context);
  const { messages, usedIds = usedToolCallIds(messages), hasCut = messages.some(isCut), memo } = loaded;
  return await performModel(deps, run, { messages, usedIds, hasCut, memo }, context);
}

/** A run whose record takes no commit is told of each time, and asks no model and runs no tool: nothing could be kept of it. */
async function refuseDamaged({ store }: RunStepDeps, runId: string): Promise<void> {
  const why = await store.whyDamaged(runId);
  if (why !== undefined) throw new DamagedRecord(`run ${runId}`, why);
}

/** `usedIds`, `hasCut`: of `messages`, where they are known already; `step`: where it is known to be owed. */
type Loaded = {
  run: Run;
  step?: Step;
  messages?: Message[];
  usedIds?: ReadonlySet<string>;
  hasCut?: boolean;
  memo?: WindowMemo;
  last?: Message | undefined;
};

/**
 * The run as this process knows it, if that owes the step and this is its first delivery: made owed by a commit of ours
 * and taken by us, as most are. Stale knowledge costs a call that is not kept; the commit finds it out.
 */
function recalled(deps: RunStepDeps, { step: name, deliveries, lostWorkers }: Delivery): Loaded | undefined {
  // Without announcements, what others did to the run (a cancel, say) would be found out only by the commit.
  if (deliveries > 1 || lostWorkers > 0 || !deps.signals.isHearing()) return undefined;
  const { recall } = deps;
  const known = recall.get(name.runId);
  const step = known && owedStep(known.run, name);
  if (!step) return undefined;
  const { run, messages, usedIds, hasCut, memo } = known;
  return step.index === modelIndex
    ? { run, step, messages: [...messages], usedIds, hasCut, memo }
    : { run, step, last: messages.at(-1) };
}

/** Reads no more than this kind of step needs, in one round trip. */
function load({ store }: RunStepDeps, { step }: Delivery): Promise<Loaded | null> {
  if (step.index === modelIndex) return store.loadWithMessages(step.runId);
  if (step.index >= wakeIndex) return store.load(step.runId).then((run) => run && { run });
  return store.loadWithLastMessage(step.runId);
}

/** Whatever a run whose deadline has passed owes, only its end is still to come. */
function isPastDeadline({ deadlineAt }: Run, at: number): boolean {
  return deadlineAt !== undefined && deadlineAt <= at;
}

async function timeCame(deps: RunStepDeps, run: Run, context: StepContext): Promise<StepOutcome> {
  const result = await deps.advance(run.runId, { type: "time_came" }, { head: run, pipeline: true });
  return afterReport(deps, result, context);
}

/**
 * Trouble with Redis delays the step without limit; a bug of ours is committed and tried again a few times; an outcome
 * that is larger than Redis takes ends the run.
 */
async function crashed(deps: LaneDeps, delivery: Delivery, active: ActiveStep, thrown: unknown): Promise<StepOutcome> {
  const { runId } = delivery.step;
  if (thrown instanceof StepAborted || active.aborted() === "handed_back") {
    return handedBack;
  }
  const error = toError(thrown);
  const isRefused = error instanceof DroverError;
  // Without a call there is nothing that the run could end of: it may be another run's commit that is too large.
  const isCall = delivery.step.index < wakeIndex;
  if (isRefused && !(isCall && error.code === "too_large")) return postponed(deps, delivery, error);
  const what = isRefused ? "the outcome of a step cannot be kept" : "a step met an error in Drover itself";
  deps.logger.error({ runId, error: error.message, ...(isRefused ? {} : { stack: error.stack }) }, what);
  try {
    const run = await deps.store.load(runId);
    if (!run) return done;
    const { run: head } = await deps.advance(runId, toCrash(deps, run, delivery, error), { head: run });
    // A call that had started keeps its step: the next delivery finds it lost.
    return await endDelivery(deps, head, { delivery, active });
  } catch {
    return again(delivery, "the crash could not be recorded");
  }
}

function toCrash(deps: LaneDeps, run: Run, delivery: Delivery, error: Error): RunEvent {
  const count = crashesOf(run, delivery) + 1;
  const crash = { type: "step_crashed" as const, step: delivery.step, count, poison: false };
  // What Redis will never take: trying again would ask the model, or run the tool, each time.
  if (error instanceof DroverError) {
    const told = { code: "too_large", message: `What this step brought cannot be kept. ${error.message}` };
    return { ...crash, error: told, nextAt: null };
  }
  const nextAt = count >= crashesAllowed ? null : deps.clock.now() + backoffMs(1_000, count, deps.ids.random());
  return { ...crash, error: { code: "bug", message: `Drover failed on this step: ${error.message}` }, nextAt };
}

function postponed(deps: LaneDeps, delivery: Delivery, { code, message }: DroverError): StepOutcome {
  const { runId } = delivery.step;
  // An outage meets every step at hand, a newer version every run: one line of each kind of trouble says as much.
  const isNewer = code === "unsupported";
  deps.rarely(isNewer ? code : message, (repeats) =>
    deps.logger.warn({ runId, code, error: message, ...repeats }, "a step could not go on; it is tried again later"),
  );
  const outcome = again(delivery, message);
  // In a rolling deployment most workers may be of the older version, and each that is given the step puts it off.
  return isNewer ? soon(outcome) : outcome;
}

function crashesOf(run: Run, { step }: Delivery): number {
  if (run.model && step.index === modelIndex) return run.model.crashes ?? 0;
  return run.calls.find((call) => call.position === step.index && call.owedAt === step.owedAt)?.crashes ?? 0;
}
