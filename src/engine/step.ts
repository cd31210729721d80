import type { StepTimes } from "../core/event.ts";
import { isSameStep, owed, type Step } from "../core/owed.ts";
import type { Rarely } from "../core/rarely.ts";
import type { Run } from "../core/run.ts";
import type { Delivery, Logger, ModelOutcome, StepOutcome, ToolOutcome } from "../ports.ts";
import type { ActiveStep, ActiveSteps } from "./active-steps.ts";
import type { AdvanceResult } from "./advance.ts";
import type { EngineDeps } from "./deps.ts";
import { queueSteps } from "./queue-owed.ts";
import type { Recall } from "./recall.ts";

/**
 * Runs a step alone in a child process. `died`: the child ended by itself before the step did, or had to be ended because it
 * kept its thread; `neverBegan`: it ended by itself before it came to the step.
 */
export type Isolate = (
  delivery: Delivery,
  limits: IsolateLimits,
) => Promise<{ died: false; neverBegan?: boolean } | { died: true; how: string }>;

/** `silentMs`: for how long its thread may be kept; `unwanted`: aborts when the step is not to go on, which the child hears too. */
export type IsolateLimits = { silentMs: number; unwanted: AbortSignal };

export type RunStepDeps = EngineDeps & {
  active: ActiveSteps;
  recall: Recall;
  gatekeeper: Gatekeeper;
  /** For log lines that an outage makes of every step at hand. */
  rarely: Rarely;
  isolate?: Isolate | undefined;
  /** Whether this process is such a child. */
  isAlone?: boolean | undefined;
  isolateAfter?: number | undefined;
};

/** A step at work: what it was given, what it found, and when it began to look, in epoch ms. */
export type StepContext = {
  delivery: Delivery;
  active: ActiveStep;
  step: Step;
  beganAt: number;
  loadedAt: number;
  /** Leave to make its call; undefined if nothing limits it. */
  pass?: Pass | undefined;
};

/** Leave to make a call. It tells the fleet how the call went and is given back at the step's end. */
export type Pass = {
  toolEnded(outcome: ToolOutcome, aborted: boolean): void;
  modelEnded(outcome: ModelOutcome): void;
  /** Resolves when the fleet knows; undefined if there is nothing to tell it. Never rejects. */
  end(): Promise<unknown> | undefined;
};

/** Either the step may go on, with the run as it is now, or it has ended here. */
export type Admission = { run: Run; pass: Pass | undefined } | { outcome: StepOutcome };

/** Stands before every model call and tool execution: rates, concurrency, pauses and breakers of the whole fleet. */
export type Gatekeeper = { admit(run: Run, context: StepContext): Promise<Admission> };

export const done: StepOutcome = { type: "done" };
export const handedBack: StepOutcome = { type: "again", delayMs: 0, why: "handed back" };

/** Looks again later, with growing waits. */
export function again(delivery: Delivery, why: string): StepOutcome {
  return { type: "again", delayMs: Math.min(100 * 2 ** Math.min(delivery.deliveries, 10), 15_000), why };
}

/**
 * For a step that waits for what takes seconds, or that the record may come to owe, or never: after a failover that lost the
 * commit, a step of the same name can come up anew, and would wait for this one to be delivered.
 */
export function soon(outcome: StepOutcome): StepOutcome {
  return outcome.type === "again" ? { ...outcome, delayMs: Math.min(outcome.delayMs, 2_000) } : outcome;
}

type QueueDeps = Pick<EngineDeps, "store" | "queue" | "logger">;

/** The outcome of a step whose event was reported: if it did not apply, what the run owes decides. */
export async function afterReport(
  deps: QueueDeps,
  result: AdvanceResult,
  context: Pick<StepContext, "delivery" | "active">,
): Promise<StepOutcome> {
  return result.change ? done : await endDelivery(deps, result.run, context);
}

/**
 * Ends a delivery that changed nothing: what the run owes is queued. If this very step is among it, it is delivered
 * again: to queue it anew while it is being executed would do nothing (invariant 2).
 */
export async function endDelivery(
  deps: QueueDeps,
  run: Run | null,
  { delivery, active }: Pick<StepContext, "delivery" | "active">,
): Promise<StepOutcome> {
  const steps = run ? owed(run) : [];
  const others = steps.filter((step) => !isSameStep(step, delivery.step));
  await queueSteps(deps, others);
  if (others.length === steps.length) return done;
  return active.aborted() === "handed_back" ? handedBack : again(delivery, "the step is owed still");
}

/** Longest delay a timer takes; a deadline further away is met by a later step. */
const longestTimerMs = 2 ** 31 - 1;

/** Aborts the step when the run's deadline comes. Returns the way to stop waiting for it. */
export function abortAtDeadline(
  deps: Pick<EngineDeps, "clock">,
  { deadlineAt }: Pick<Run, "deadlineAt">,
  active: ActiveStep,
): () => void {
  if (deadlineAt === undefined) return () => {};
  const inMs = deadlineAt - deps.clock.now();
  if (inMs > longestTimerMs) return () => {};
  const timer = setTimeout(() => active.abort("deadline"), Math.max(inMs, 0));
  return () => clearTimeout(timer);
}

/** What becomes of a step whose work was aborted: an open outcome is left to whoever goes on with the run. */
export async function afterAbort(deps: EngineDeps, run: Run, context: StepContext): Promise<StepOutcome> {
  const why = context.active.aborted();
  if (why === "handed_back") return handedBack;
  if (why === "not_owed") return endDelivery(deps, await deps.store.load(run.runId), context);
  return afterReport(deps, await deps.advance(run.runId, { type: "time_came" }), context);
}

/** Turn, attempt and the rest that every span of a step tells of its time. */
export function spanTimes(
  context: StepContext,
  times: { calledAt: number; answeredAt: number; endedAt: number },
): { startedAt: number; endedAt: number; queueWaitMs: number; loadMs: number; performMs: number; commitMs: number } {
  const { beganAt, loadedAt, delivery, step } = context;
  return {
    startedAt: times.calledAt,
    endedAt: times.endedAt,
    queueWaitMs: Math.max(0, beganAt - Math.max(delivery.queuedAt, step.notBefore ?? 0)),
    loadMs: loadedAt - beganAt,
    performMs: times.answeredAt - times.calledAt,
    commitMs: times.endedAt - times.answeredAt,
  };
}

/** What the feed keeps of a step's time. */
export function stepTimes(context: StepContext, times: { calledAt: number; answeredAt: number }): StepTimes {
  const { deliveries } = context.delivery;
  const { queueWaitMs, performMs } = spanTimes(context, { ...times, endedAt: times.answeredAt });
  const ms: StepTimes["ms"] = [Math.round(queueWaitMs), Math.max(0, Math.round(performMs))];
  return { ms, ...(deliveries > 1 ? { deliveries } : {}) };
}

/** A logger that adds fields to every line. */
export function withFields(logger: Logger, fields: Record<string, unknown>): Logger {
  return {
    debug: (more, message) => logger.debug({ ...fields, ...more }, message),
    info: (more, message) => logger.info({ ...fields, ...more }, message),
    warn: (more, message) => logger.warn({ ...fields, ...more }, message),
    error: (more, message) => logger.error({ ...fields, ...more }, message),
  };
}
