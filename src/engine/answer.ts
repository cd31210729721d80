import type { AnswerNext, CallPlan, Manifest, PlannedCall, RunEvent, StepTimes } from "../core/event.ts";
import type { ToolCall } from "../core/message.ts";
import { findJson, outputFeedback } from "../core/output.ts";
import { interpretReply } from "../core/reply.ts";
import { answerTextOf } from "../core/reply-text.ts";
import type { ModelFailure, ModelOutcome } from "../ports.ts";
import type { Window } from "./choose-window.ts";
import type { EngineDeps } from "./deps.ts";
import { isReadResult, planReadResult } from "./read-result.ts";
import type { TurnStep } from "./turn-step.ts";

type Answered = Extract<RunEvent, { type: "model_answered" }>;
/** `tools`: names of those that were offered. */
type Reply = Extract<ModelOutcome, { type: "reply" }> & {
  execution: string;
  window: Window;
  tools: string[];
  times: StepTimes;
};

/** What a reply makes of the run; a failed attempt of which nothing is kept, if no sense can be made of it. */
export async function toAnswer(
  deps: Pick<EngineDeps, "store">,
  turn: TurnStep,
  outcome: Reply,
): Promise<Answered | ({ type: "failed" } & ModelFailure)> {
  const { run, agent, transcript, context } = turn;
  const { execution, window, reply, finishReason, tools } = outcome;
  const answer = interpretReply({
    reply,
    finishReason,
    turn: run.turns + 1,
    offered: tools,
    usedIds: transcript.usedIds,
    seed: run.runId,
    fits: (call) =>
      isReadResult(agent, call.name) ||
      agent.tools.plan({ callId: "", id: "", ...call }, { callerTools: run.tools }).type !== "settle",
  });
  if (answer.type === "failed") return answer;
  const { messages, ...rest } = window.plan;
  const isPlain = Object.values(rest).every((field) => field === undefined);
  const manifest: Manifest = {
    agentHash: agent.hash,
    messages,
    tools,
    ...(outcome.dropped.length > 0 ? { dropped: outcome.dropped } : {}),
    ...(isPlain ? {} : { window: rest }),
  };
  const calls: PlannedCall[] = [];
  for (const { call, problem } of answer.calls) {
    calls.push({ call, plan: problem ? { type: "settle", content: problem } : await planCall(deps, turn, call) });
  }
  const { content, refusal, extra } = answer;
  const message = { role: "assistant" as const, content, ...(refusal ? { refusal } : {}), ...(extra ? { extra } : {}) };
  return {
    type: "model_answered",
    step: context.step,
    execution,
    message,
    calls,
    usage: outcome.usage,
    finishReason,
    model: outcome.model,
    responseId: outcome.responseId,
    manifest,
    times: outcome.times,
    ...(calls.length > 0 ? {} : whatNext(turn, answerTextOf(message))),
  };
}

async function planCall({ store }: Pick<EngineDeps, "store">, turn: TurnStep, call: ToolCall): Promise<CallPlan> {
  const { run, agent, transcript } = turn;
  if (!isReadResult(agent, call.name)) return agent.tools.plan(call, { dryRun: run.dryRun, callerTools: run.tools });
  return planReadResult({ store, agent, messages: transcript.messages }, call);
}

/** What follows a final answer: its form is checked at once, what the agent's own check says in a step of its own. */
function whatNext({ agent, limits }: TurnStep, text: string): { next?: AnswerNext; structured?: true } {
  const { parseOutput, verify } = agent.answers;
  const next: { next?: AnswerNext } = verify ? { next: { type: "verify" } } : {};
  if (!parseOutput) return next;
  const found = findJson(text);
  const parsed = found.found ? parseOutput(found.value) : undefined;
  if (parsed?.ok) return { ...next, structured: true };
  const schema = agent.definition.output?.schema ?? {};
  const feedback = outputFeedback(found.found ? (parsed?.issues ?? []) : found.problem, schema);
  return { next: { type: "reask", feedback, max: limits.maxReasks } };
}
