// What shapes the window between answers: summaries, and budgets learned from refusals. Split from transition.ts.

import { type Draft, log, oweModel } from "./change.ts";
import type { RunEvent, StepTimes } from "./event.ts";
import { addUsage, type ModelStep, noUsage, type Run, type Usage } from "./run.ts";
import { owedModel } from "./transition-steps.ts";

type EventOf<T extends RunEvent["type"]> = Extract<RunEvent, { type: T }>;

/** What a step is for, kept over its attempts. */
export function taskOf({ task, upTo }: ModelStep): Pick<ModelStep, "task" | "upTo"> {
  return { ...(task ? { task } : {}), ...(upTo === undefined ? {} : { upTo }) };
}

/** Applies an event about the window; false if its step is not owed any more. */
export function shapeWindow(
  draft: Draft,
  event: EventOf<"summary_wanted" | "summarised" | "summary_taken" | "window_shrunk">,
): boolean {
  const { run } = draft;
  const step = owedModel(run, event.step);
  if (!step) return false;
  switch (event.type) {
    case "summary_wanted":
      if (!isNews(run, step, event.upTo)) return false;
      run.model = { task: "summary", upTo: event.upTo, attempt: 1, owedAt: run.revision };
      return true;
    case "summarised":
      return summarised(draft, step, event);
    case "summary_taken":
      if (!isNews(run, step, event.upTo)) return false;
      keepSummary(draft, { execution: "", upTo: event.upTo, text: event.text, usage: noUsage });
      return true;
    case "window_shrunk":
      return shrunk(draft, step, event);
  }
}

/** Whether the next answer is owed and a summary up to there says more than the one there is. */
function isNews({ summary }: Run, { task }: ModelStep, upTo: number): boolean {
  return task === undefined && upTo > (summary?.upTo ?? 0);
}

function summarised(draft: Draft, { task, upTo }: ModelStep, event: EventOf<"summarised">): boolean {
  if (task !== "summary" || upTo === undefined) return false;
  const { execution, text, usage, times } = event;
  draft.run.usage = addUsage(draft.run.usage, usage);
  keepSummary(draft, { execution, upTo, text, usage, ...times });
  return true;
}

function shrunk(draft: Draft, step: ModelStep, event: EventOf<"window_shrunk">): boolean {
  const { run } = draft;
  const { execution, budgetTokens, error, times } = event;
  if (budgetTokens >= (run.windowBudget ?? Number.POSITIVE_INFINITY)) return false;
  log(draft, { type: "window_shrunk", execution, budgetTokens, error, ...times });
  run.windowBudget = budgetTokens;
  run.model = { ...taskOf(step), attempt: step.attempt, owedAt: run.revision };
  return true;
}

type Summarised = { execution: string; upTo: number; text: string; usage: Usage } & Partial<StepTimes>;

/** Stands from now on for what lies before `upTo`; the next answer is owed anew. */
function keepSummary(draft: Draft, summarised: Summarised): void {
  const { run } = draft;
  const { upTo, text } = summarised;
  log(draft, { type: "summarised", ...summarised });
  run.summary = { id: run.eventSeq, text, upTo };
  oweModel(draft);
}
