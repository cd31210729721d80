import type { RunEvent } from "../core/event.ts";
import { answerTextOf } from "../core/reply-text.ts";
import type { StepOutcome } from "../ports.ts";
import { fitSummary, toSummaryRequest } from "./choose-window.ts";
import { ofRun } from "./log-fields.ts";
import { callModel, type ModelCall, recordModel, reportRefused, reportUsage, wasAborted } from "./model-call.ts";
import { afterAbort, afterReport, type RunStepDeps, stepTimes } from "./step.ts";
import { failed, type TurnStep } from "./turn-step.ts";

/** One model call that condenses the older part of the transcript. If it fails for good the run goes on without that part. */
export async function performSummary(deps: RunStepDeps, turn: TurnStep): Promise<StepOutcome> {
  const { run, agent, limits, context } = turn;
  const { instructions, messages } = await toSummaryRequest(turn);
  const call = await callModel(deps, run, context, {
    model: agent.summariser.model,
    asked: { task: "summary", instructions, messages, tools: [], request: {} },
    live: false,
    deadlineMs: limits.deadlineMs,
  });
  if (wasAborted(call, context)) {
    await reportUsage(deps, run.runId, call, agent);
    return afterAbort(deps, run, context);
  }
  const event = await toEvent(deps, turn, call);
  const result = await deps.advance(run.runId, event, { head: run, pipeline: true });
  if (!result.change) await reportRefused(deps, run, call, agent);
  else {
    const errorType = event.type === "model_failed" ? event.error.code : undefined;
    recordModel(deps, call, { run: result.change.run, before: run, agent, context, errorType });
  }
  return afterReport(deps, result, context);
}

async function toEvent(
  deps: RunStepDeps,
  turn: TurnStep,
  call: ModelCall,
): Promise<Extract<RunEvent, { type: "summarised" | "model_failed" }>> {
  const { outcome, execution } = call;
  const { step } = turn.context;
  const times = stepTimes(turn.context, call);
  const failure = failureOf(outcome);
  if (!failure) {
    const text = outcome.type === "reply" ? await fitSummary(turn, answerTextOf(outcome.reply)) : "";
    return { type: "summarised", step, execution, text, usage: outcome.usage, times };
  }
  const event = failed(deps, turn, call, failure);
  if (event.nextAt !== null) return event;
  deps.logger.warn({ ...ofRun(turn.run), error: event.error.code }, "a summary failed; its messages are left out");
  return { type: "summarised", step, execution, text: withoutSummary(turn), usage: outcome.usage, times };
}

/** An answer that was cut off is still a summary; one that says nothing is none. */
function failureOf(outcome: ModelCall["outcome"]): Parameters<typeof failed>[3] | undefined {
  if (outcome.type === "failure") return outcome.failure;
  if (answerTextOf(outcome.reply).trim() !== "") return undefined;
  return { class: "transient", code: "empty_answer", message: "The model gave no summary." };
}

/** What stands in for a summary that could not be had. */
function withoutSummary({ run }: TurnStep): string {
  const from = run.summary?.upTo ?? 0;
  const left = (run.model?.upTo ?? from) - from;
  const note = `[${left} messages after this were left out; no summary of them could be made.]`;
  return run.summary ? `${run.summary.text}\n\n${note}` : note;
}
