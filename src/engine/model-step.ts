import type { RunEvent } from "../core/event.ts";
import { effectiveLimits, reachedLimit } from "../core/limits.ts";
import { findRepetition, type Repetition, repetitionMessage, repetitionNudge } from "../core/repeats.ts";
import type { Run } from "../core/run.ts";
import type { ModelFailure, StepOutcome } from "../ports.ts";
import type { AdvanceResult } from "./advance.ts";
import { toAnswer } from "./answer.ts";
import { problemOfAnswer } from "./byte-limits.ts";
import { nameFailure, nameProblem } from "./caller-tools.ts";
import { chooseWindow, shrink, type Window } from "./choose-window.ts";
import { holdUnknown } from "./hold.ts";
import { withOutcomeInHand } from "./in-hand.ts";
import { callModel, type ModelCall, recordModel, reportRefused, reportUsage, wasAborted } from "./model-call.ts";
import { offeredTools } from "./read-result.ts";
import { summaryBefore } from "./session.ts";
import { afterAbort, afterReport, type RunStepDeps, type StepContext, stepTimes } from "./step.ts";
import { performSummary } from "./summary-step.ts";
import { failed, failedFor, type Transcript, type TurnStep } from "./turn-step.ts";
import { performVerify } from "./verify-step.ts";

/** The step between turns: the next answer, a summary that must come first, or the check of the last answer. */
export async function performModel(
  deps: RunStepDeps,
  run: Run,
  transcript: Transcript,
  context: StepContext,
): Promise<StepOutcome> {
  const agent = deps.agents.get(run.agent);
  if (!agent) return holdUnknown(deps, run, context);
  const limits = effectiveLimits(agent.limits, run);
  const turn: TurnStep = { run, agent, limits, transcript, context };
  if (run.model?.task === "verify") return await performVerify(deps, turn);
  const limit = reachedLimit(run, limits, deps.clock.now());
  if (limit) return report(deps, turn, { type: "limit_reached", step: context.step, ...limit });
  if (run.model?.task === "summary") return await performSummary(deps, turn);
  return await performAnswer(deps, turn);
}

/** Reports an event that needs no call. */
async function report(deps: RunStepDeps, { run, context }: TurnStep, event: RunEvent): Promise<StepOutcome> {
  return afterReport(deps, await deps.advance(run.runId, event, { head: run, pipeline: true }), context);
}

/** One model call and what it makes of the run: an answer, another attempt, or the end. */
async function performAnswer(deps: RunStepDeps, turn: TurnStep): Promise<StepOutcome> {
  const { run, agent, limits, transcript, context } = turn;
  const { step } = context;
  const repetition = repetitionOf(turn);
  if (repetition && repetition.rounds > limits.repeats) {
    const message = repetitionMessage(repetition);
    return report(deps, turn, { type: "limit_reached", step, reason: "repeated_calls", message });
  }
  const problem = nameProblem(agent, run.tools);
  if (problem) return report(deps, turn, failedFor(turn, "", nameFailure(problem), null));
  const nudge = repetition ? repetitionNudge(repetition) : undefined;
  const chosen = await chooseWindow({ run, agent, messages: transcript.messages, nudge, memo: transcript.memo });
  if (chosen.type === "summarise") {
    await begin(deps, turn);
    return report(deps, turn, await wantSummary(deps, turn, chosen.upTo));
  }
  if (chosen.type === "too_small") {
    return report(deps, turn, failedFor(turn, "", tooSmall(chosen.smallestTokens), null));
  }
  if (run.agentHash !== agent.hash) await deps.store.putDefinition(agent.hash, agent.definition);
  const began = begin(deps, turn);
  began.catch(() => {}); // Awaited below, unless the call itself throws first.
  const { instructions, request, output } = agent.definition;
  const tools = offeredTools(agent, run, transcript.hasCut);
  const asked = { instructions, messages: chosen.messages, tools, request, output };
  const options = { model: agent.model, asked, live: true, deadlineMs: limits.deadlineMs };
  const call = await callModel(deps, run, context, options);
  await began;
  if (wasAborted(call, context)) {
    await reportUsage(deps, run.runId, call, agent);
    return afterAbort(deps, run, context);
  }
  return await commitAnswer(deps, turn, call, await toEvent(deps, turn, call, chosen));
}

async function commitAnswer(
  deps: RunStepDeps,
  { run, agent, context }: TurnStep,
  call: ModelCall,
  event: AnswerEvent,
): Promise<StepOutcome> {
  const commit = (): Promise<AdvanceResult> => deps.advance(run.runId, event, { head: run, pipeline: true });
  const result = await withOutcomeInHand(deps, { run, active: context.active }, commit);
  // A refusal for length says nothing of what it cost.
  if (!result.change) await reportRefused(deps, run, call, agent);
  else if (event.type === "window_shrunk") await reportUsage(deps, run.runId, call);
  if (result.change) {
    const errorType = "error" in event ? event.error.code : undefined;
    recordModel(deps, call, { run: result.change.run, before: run, agent, context, errorType });
  }
  return await afterReport(deps, result, context);
}

function repetitionOf({ run, agent, limits, transcript }: TurnStep): Repetition | null {
  const from = run.repeatsFrom ?? 0;
  const { isPolling } = agent.tools;
  return findRepetition(transcript.messages, { repeats: limits.repeats, from, isPolling });
}

/** The summary that must come first: one that its session has already, or a step that makes it. */
async function wantSummary(deps: RunStepDeps, { run, context }: TurnStep, upTo: number): Promise<RunEvent> {
  const { step } = context;
  const known = await summaryBefore(deps.store, run);
  if (known) return { type: "summary_taken", step, upTo: known.upTo, text: known.text };
  return { type: "summary_wanted", step, upTo };
}

/** The first step of a run says that it began, while the model is being called. */
async function begin(deps: RunStepDeps, { run, agent, limits }: TurnStep): Promise<void> {
  if (run.startedAt !== undefined) return;
  const event: RunEvent = { type: "run_began", agentHash: agent.hash, deadlineMs: limits.deadlineMs };
  await deps.advance(run.runId, event, { head: run });
}

type AnswerEvent = Extract<RunEvent, { type: "model_answered" | "model_failed" | "window_shrunk" }>;

async function toEvent(deps: RunStepDeps, turn: TurnStep, call: ModelCall, window: Window): Promise<AnswerEvent> {
  const { outcome, execution } = call;
  const times = stepTimes(turn.context, call);
  if (outcome.type === "failure") {
    const { failure } = outcome;
    const budgetTokens = failure.class === "overflow" ? await shrink(turn, window, failure) : undefined;
    if (budgetTokens !== undefined) {
      const error = { code: failure.code, message: failure.message };
      return { type: "window_shrunk", step: turn.context.step, execution, budgetTokens, error, times };
    }
    return failed(deps, turn, call, failure);
  }
  const tools = call.asked.tools.map(({ name }) => name);
  const answer = await toAnswer(deps, turn, { ...outcome, execution, window, tools, times });
  if (answer.type === "failed") return failed(deps, turn, call, answer);
  const { content } = answer.message;
  const problem = problemOfAnswer(
    content,
    answer.calls.map((planned) => planned.call),
    turn.limits,
  );
  if (!problem) return answer;
  return failed(deps, turn, call, { class: "permanent", code: "answer_too_large", message: problem });
}

function tooSmall(smallestTokens: number): Pick<ModelFailure, "code" | "message"> {
  return {
    code: "window_too_small",
    message:
      `Even the shortest window of this run does not fit its budget. The smallest budget that does is ${smallestTokens} tokens: ` +
      "raise the agent's window.budgetTokens, use a model with a longer context, or shorten the instructions and tools. Then retry the run.",
  };
}
