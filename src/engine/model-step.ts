import type { Manifest, PlannedCall, RunEvent } from "../core/event.ts";
import { deadlineAtBegin, effectiveLimits, reachedLimit } from "../core/limits.ts";
import type { Message } from "../core/message.ts";
import { interpretReply } from "../core/reply.ts";
import { nextAttemptAt } from "../core/retry.ts";
import { noUsage, type Run, type Usage } from "../core/run.ts";
import type { AgentCode, ModelFailure, ModelOutcome, StepOutcome } from "../ports.ts";
import { holdUnknown } from "./hold.ts";
import { createLiveText } from "./live-text.ts";
import { abortAtDeadline, afterAbort, afterReport, type RunStepDeps, type StepContext, spanTimes } from "./step.ts";

/** A transcript and the provider's ids of its calls. */
type Transcript = { messages: Message[]; usedIds: ReadonlySet<string> };

/** One model call and what it makes of the run: an answer, another attempt, or the end. */
export async function performModel(
  deps: RunStepDeps,
  run: Run,
  transcript: Transcript,
  context: StepContext,
): Promise<StepOutcome> {
  const { step } = context;
  const { messages } = transcript;
  const agent = deps.agents.get(run.agent);
  if (!agent) return holdUnknown(deps, run, context);
  const limits = effectiveLimits(agent.limits, run);
  const limit = reachedLimit(run, limits, deps.clock.now());
  if (limit) {
    const event: RunEvent = { type: "limit_reached", step, ...limit };
    return afterReport(deps, await deps.advance(run.runId, event, { head: run, pipeline: true }), context);
  }
  if (run.agentHash !== agent.hash) await deps.store.putDefinition(agent.hash, agent.definition);
  const began = begin(deps, run, agent, limits.deadlineMs);
  began.catch(() => {}); // Awaited below, unless the call itself throws first.
  // Executions of a step order by when they began: a reader of live text tells a frozen worker's from its heir's.
  const execution = `${Math.floor(deps.clock.now()).toString(36).padStart(9, "0")}${deps.ids.token()}`;
  const calledAt = deps.clock.now();
  // A run that has not begun yet gets its deadline from the commit above, which may still be on its way.
  const deadline = run.startedAt === undefined ? deadlineAtBegin(run, limits.deadlineMs) : run;
  const stopTimer = abortAtDeadline(deps, deadline, context.active);
  const outcome = await callModel(deps, run, agent, { transcript, context, execution }).finally(stopTimer);
  const answeredAt = deps.clock.now();
  await began;
  const aborted = context.active.aborted();
  if (outcome.type === "failure" && outcome.failure.class === "aborted" && aborted) {
    // Tokens already spent are counted, whoever goes on with the run.
    await reportUsage(deps, run.runId, execution, outcome.usage);
    return afterAbort(deps, run, context);
  }
  const event = toEvent(deps, run, agent, { transcript, context, execution, outcome });
  const result = await deps.advance(run.runId, event, { head: run, pipeline: true });
  if (!result.change) await reportUsage(deps, run.runId, execution, outcome.usage);
  else {
    deps.telemetry.recordStep({
      kind: "model",
      owedAt: step.owedAt,
      run: result.change.run,
      turn: run.turns + 1,
      attempt: run.model?.attempt ?? 1,
      execution,
      definition: agent.definition,
      server: agent.server,
      outcome,
      request: { messages, instructions: agent.definition.instructions },
      ...(event.type === "model_failed" ? { errorType: event.error.code } : {}),
      ...spanTimes(context, { calledAt, answeredAt, endedAt: deps.clock.now() }),
    });
  }
  return afterReport(deps, result, context);
}

/** The first step of a run says that it began, while the model is being called. */
async function begin(deps: RunStepDeps, run: Run, agent: AgentCode, deadlineMs: number | undefined): Promise<void> {
  if (run.startedAt !== undefined) return;
  const event: RunEvent = { type: "run_began", agentHash: agent.hash, deadlineMs };
  await deps.advance(run.runId, event, { head: run });
}

type Attempt = { transcript: Transcript; context: StepContext; execution: string };

async function callModel(deps: RunStepDeps, run: Run, agent: AgentCode, attempt: Attempt): Promise<ModelOutcome> {
  const { transcript, context, execution } = attempt;
  const turn = run.turns + 1;
  const attemptNumber = run.model?.attempt ?? 1;
  const live = createLiveText({ ...deps, runId: run.runId, place: { turn, attempt: attemptNumber, execution } });
  try {
    return await deps.telemetry.withStep(
      run,
      { kind: "model", turn, attempt: attemptNumber, owedAt: context.step.owedAt },
      () =>
        agent.model.call({
          runId: run.runId,
          turn,
          attempt: attemptNumber,
          instructions: agent.definition.instructions,
          messages: transcript.messages,
          tools: agent.definition.tools,
          request: agent.definition.request,
          signal: context.active.signal,
          onText: live.push,
        }),
    );
  } finally {
    await live.flush();
  }
}

async function reportUsage(deps: RunStepDeps, runId: string, execution: string, usage: Usage): Promise<void> {
  if (usage.inputTokens + usage.outputTokens === 0) return;
  await deps.advance(runId, { type: "usage_reported", execution, usage });
}

function toEvent(
  deps: RunStepDeps,
  run: Run,
  agent: AgentCode,
  { transcript, context, execution, outcome }: Attempt & { outcome: ModelOutcome },
): Extract<RunEvent, { type: "model_answered" | "model_failed" }> {
  const { step } = context;
  if (outcome.type === "failure")
    return failed(deps, run, agent, { step, execution, failure: outcome.failure, usage: outcome.usage });
  const answer = interpretReply({
    reply: outcome.reply,
    finishReason: outcome.finishReason,
    turn: run.turns + 1,
    offered: agent.definition.tools.map((tool) => tool.name),
    usedIds: transcript.usedIds,
    seed: run.runId,
    fits: (call) => agent.tools.plan({ callId: "", id: "", ...call }).type !== "settle",
  });
  if (answer.type === "failed") {
    return failed(deps, run, agent, { step, execution, failure: answer, usage: outcome.usage });
  }
  const manifest: Manifest = {
    agentHash: agent.hash,
    messages: [[0, transcript.messages.length]],
    tools: agent.definition.tools.map((tool) => tool.name),
    dropped: outcome.dropped,
  };
  const calls = answer.calls.map(
    ({ call, problem }): PlannedCall => ({
      call,
      plan: problem ? { type: "settle", content: problem } : agent.tools.plan(call),
    }),
  );
  const { content, refusal, extra } = answer;
  return {
    type: "model_answered",
    step,
    execution,
    message: { role: "assistant", content, ...(refusal ? { refusal } : {}), ...(extra ? { extra } : {}) },
    calls,
    usage: outcome.usage,
    finishReason: outcome.finishReason,
    model: outcome.model,
    responseId: outcome.responseId,
    manifest,
  };
}

function failed(
  deps: RunStepDeps,
  run: Run,
  agent: AgentCode,
  what: { step: StepContext["step"]; execution: string; failure: ModelFailure; usage: Usage | undefined },
): Extract<RunEvent, { type: "model_failed" }> {
  const { step, execution, failure, usage } = what;
  const attempt = run.model?.attempt ?? 1;
  const at = deps.clock.now();
  const { retryAfterMs } = failure;
  const nextAt =
    failure.class === "transient"
      ? nextAttemptAt(agent.modelRetry, { attempt, retryAfterMs, at, jitter: deps.ids.random() })
      : null;
  const error = { code: failure.code, message: failure.message };
  return { type: "model_failed", step, execution, error, usage: usage ?? noUsage, nextAt };
}
