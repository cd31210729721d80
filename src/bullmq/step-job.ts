import type { JobJson } from "bullmq";
import { z } from "zod";
import type { Step } from "../core/owed.ts";
import type { StepAddress } from "../ports.ts";

// How a step looks as a BullMQ job. Names and ids are pinned by tests: workers of several versions share them.

export const runsQueue = "runs";
/**
 * Model steps and all others that ask for no queue of their own. A step in turn on two queues costs much more than on
 * one: each queue runs dry and is waited for anew.
 */
export const modelQueue = "model";
const formerToolsQueue = "tools";

/** BullMQ's own prefix; run records live beside it, never under it. */
export function queuePrefix(prefix: string): string {
  return `${prefix}:q`;
}

/**
 * The queue of tools that ask for one of their own. Without a name: the one that older versions put all other tools on; it
 * is served as before. The name is escaped: BullMQ permits no `:`.
 */
export function toolQueue(name: string | undefined): string {
  return name === undefined ? formerToolsQueue : `${formerToolsQueue}-${encodeURIComponent(name)}`;
}

export function queueOf(step: Step): string {
  return step.queue === undefined ? modelQueue : toolQueue(step.queue);
}

/** Whether an older version would have put the step on the former queue of tools. */
export function mayBeInFormerQueue({ kind, queue }: Step): boolean {
  return (kind === "tool" || kind === "verify") && queue === undefined;
}

/** A job id no two steps share (invariant 2). A run id holds no `:`, which BullMQ keeps for itself. */
export function toJobId(step: StepAddress): string {
  return `${step.owedAt}-${step.index}-${step.runId}`;
}

/** Fields of a newer version are ignored; these three name the step. */
const stepDataSchema: z.ZodType<StepAddress> = z.object({
  runId: z.string().min(1),
  owedAt: z.int().min(0),
  index: z.int().min(0),
});

/** The step that a job's data names; undefined if it names none. What is as it should be needs no schema to say so. */
export function readStep(data: unknown): StepAddress | undefined {
  const { runId, owedAt, index } = Object(data) as Partial<StepAddress>;
  if (typeof runId === "string" && runId !== "" && isCount(owedAt) && isCount(index)) return { runId, owedAt, index };
  return stepDataSchema.safeParse(data).data;
}

function isCount(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 0;
}

/**
 * The class of steps that were given no priority. Each step carries one: BullMQ would take a job without any before
 * all others. Lower numbers go first, equal ones in the order they came; a low class waits while a higher one has work.
 */
const defaultPriority = 1_000;
const highestNumber = 2_097_151;

export function toPriority(priority: number | undefined): number {
  if (priority === undefined) return defaultPriority;
  return Math.min(Math.max(Math.trunc(priority), 1), highestNumber);
}

/**
 * The job of a step, as BullMQ stores it. What becomes of it in the end is the worker's to say. `now` is Redis's time, and so
 * is the timestamp: the due time, their sum, stays right whatever the clock of this machine says.
 */
export function toJob(step: Step, now: number): NewJob {
  const { kind, runId, owedAt, index } = step;
  const delay = Math.max(0, Math.ceil((step.notBefore ?? 0) - now));
  const priority = toPriority(step.priority);
  return {
    id: toJobId(step),
    name: kind,
    data: JSON.stringify({ runId, owedAt, index } satisfies StepAddress),
    opts: delay > 0 ? { attempts: 0, priority, delay } : { attempts: 0, priority },
    timestamp: Math.trunc(now),
  };
}

export type NewJob = Pick<JobJson, "id" | "name" | "data" | "opts" | "timestamp">;
