// What shapes the window between answers: summaries, and budgets learned from refusals. Split from transition.ts.

import { type Draft, log, oweModel } from "./change.ts";
import type { RunEvent } from "./event.ts";
import { addUsage, type ModelStep, noUsage, type Usage } from "./run.ts";
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
      if (step.task !== undefined || event.upTo <= (run.summary?.upTo ?? 0)) return false;
      run.model = { task: "summary", upTo: event.upTo, attempt: 1, owedAt: run.revision };
      return true;
    case "summarised": {
      if (step.task !== "summary" || step.upTo === undefined) return false;
      const { execution, text, usage } = event;
      run.usage = addUsage(run.usage, usage);
      keepSummary(draft, { execution, upTo: step.upTo, text, usage });
      return true;
    }
    case "summary_taken": {
      const { upTo, text } = event;
      if (step.task !== undefined || upTo <= (run.summary?.upTo ?? 0)) return false;
      keepSummary(draft, { execution: "", upTo, text, usage: noUsage });
      return true;
    }
    case "window_shrunk": {
      const { execution, budgetTokens, error } = event;
      if (budgetTokens >= (run.windowBudget ?? Number.POSITIVE_INFINITY)) return false;
      log(draft, { type: "window_shrunk", execution, budgetTokens, error });
      run.windowBudget = budgetTokens;
      run.model = { ...taskOf(step), attempt: step.attempt, owedAt: run.revision };
      return true;
    }
  }
}

type Summarised = { execution: string; upTo: number; text: string; usage: Usage };

/** Stands from now on for what lies before `upTo`; the next answer is owed anew. */
function keepSummary(draft: Draft, { execution, upTo, text, usage }: Summarised): void {
  const { run } = draft;
  log(draft, { type: "summarised", execution, upTo, text, usage });
  run.summary = { id: run.eventSeq, text, upTo };
  oweModel(draft);
}
