import { isOutage } from "../core/errors.ts";
import type { RunEvent } from "../core/event.ts";
import type { Content, FullResult, Message, ToolCall } from "../core/message.ts";
import { backoffMs, nextAttemptAt } from "../core/retry.ts";
import type { OpenCall, Run } from "../core/run.ts";
import { takesOutcome } from "../core/transition-calls.ts";
import type { AgentCode, StepOutcome, ToolOutcome } from "../ports.ts";
import type { AdvanceResult } from "./advance.ts";
import { startChild } from "./children.ts";
import { holdUnknown } from "./hold.ts";
import { withOutcomeInHand } from "./in-hand.ts";
import { dropUnusedText, keepResult } from "./keep-result.ts";
import {
  abortAtDeadline,
  afterAbort,
  afterReport,
  endDelivery,
  type RunStepDeps,
  type StepContext,
  spanTimes,
  stepTimes,
  withFields,
} from "./step.ts";

/** A result may come this long after the tool's own timeout: its worker still has to commit it. */
const lateResultMs = 2_000;

/** One tool execution. `last` is the assistant message whose calls are open: the transcript ends with it until they settle. */
export async function performTool(
  deps: RunStepDeps,
  run: Run,
  last: Message | undefined,
  context: StepContext,
): Promise<StepOutcome> {
  const { step } = context;
  const { open, call } = findCall(run, last, step.callId);
  if (open.state === "started") {
    // Another delivery recorded a start: it is gone or no longer holds the step (invariant 4).
    const lost = await deps.advance(run.runId, { type: "tool_lost", step }, { head: run });
    return afterReport(deps, lost, context);
  }
  const agent = deps.agents.get(run.agent);
  const policy = agent?.tools.retryPolicy(open.tool);
  if (!agent) return holdUnknown(deps, run, context);
  if (!policy) return holdUnknown(deps, run, context, open.tool);
  const started = await start(deps, run, open, context);
  if ("superseded" in started) return endDelivery(deps, started.superseded, context);
  return await report(deps, agent, { run: started.run, open, call, context, startToken: started.startToken });
}

function findCall(run: Run, last: Message | undefined, callId: string | undefined): { open: OpenCall; call: ToolCall } {
  const calls = last?.role === "assistant" ? (last.toolCalls ?? []) : [];
  const open = run.calls.find((other) => other.callId === callId);
  const call = calls.find((other) => other.callId === callId);
  if (!open || !call) throw new Error(`run ${run.runId} owes ${callId}, which its transcript does not end with`);
  return { open, call };
}

/** Commits the start of a call that may not run again, before it runs. */
async function start(
  deps: RunStepDeps,
  run: Run,
  open: OpenCall,
  { step, active }: StepContext,
): Promise<{ run: Run; startToken?: string } | { superseded: Run | null }> {
  if (open.repeatable) return { run };
  const startToken = deps.ids.token();
  const timeoutAt = deps.clock.now() + (deps.durable?.timeoutMs ?? 0) + open.timeoutMs + lateResultMs;
  const event: RunEvent = { type: "tool_started", step, startToken, timeoutAt };
  const result = await deps.advance(run.runId, event, { head: run });
  const head = result.change?.run ?? result.run;
  if (!isStartedBy(head, open, startToken)) return { superseded: head };
  active.keepWithoutLock();
  return { run: head, startToken };
}

/**
 * Whether that start was made: asked of the record, since a commit may be made and called refused, if its reply was lost and
 * another commit had followed when it was sent again. Nobody else knows the token: the call would never be begun.
 */
function isStartedBy(run: Run | null, { callId }: OpenCall, startToken: string): run is Run {
  const call = run?.calls.find((other) => other.callId === callId);
  return call !== undefined && takesOutcome(call, startToken);
}

type Execution = {
  run: Run;
  open: OpenCall;
  call: ToolCall;
  context: StepContext;
  startToken?: string | undefined;
};

async function report(deps: RunStepDeps, agent: AgentCode, execution: Execution): Promise<StepOutcome> {
  const { run, open, call, context } = execution;
  const refused = await refuseUnsafe(deps, execution);
  const calledAt = deps.clock.now();
  const outcome = refused ?? (await execute(deps, agent, execution));
  const answeredAt = deps.clock.now();
  const aborted = context.active.aborted();
  context.pass?.toolEnded(outcome, aborted !== undefined);
  if (outcome.type === "child") return startChild(deps, { agent, run, open, context }, outcome);
  // An aborted tool's outcome stays open: a repeatable one runs again elsewhere, another is given up after its timeout.
  // Only a started one that says that nothing happened is owed anew, so that nobody needs to wonder.
  if (aborted && (outcome.type === "unknown" || (outcome.type === "retry" && !execution.startToken)))
    return afterAbort(deps, run, context);
  const held = { run, active: context.active };
  const kept = await withOutcomeInHand(deps, held, () => keepOutcome(deps, agent, execution, outcome));
  const event = { ...toEvent(deps, agent, execution, kept), times: stepTimes(context, { calledAt, answeredAt }) };
  const commit = (): Promise<AdvanceResult> => deps.advance(run.runId, event, { head: run, pipeline: true });
  const result = await withOutcomeInHand(deps, held, commit);
  await dropUnusedText(deps, execution, "full" in kept ? kept.full : undefined, result);
  if (result.change) {
    deps.telemetry.recordStep({
      kind: "tool",
      owedAt: context.step.owedAt,
      run: result.change.run,
      turn: open.turn,
      attempt: open.attempt,
      call,
      effect: open.effect,
      description: agent.definition.tools.find((tool) => tool.name === open.tool)?.description,
      ...(kept.type === "ok" ? { result: kept.content } : { errorType: errorTypeOf(kept) }),
      ...spanTimes(context, { calledAt, answeredAt, endedAt: deps.clock.now() }),
    });
  }
  return await afterReport(deps, result, context);
}

/** A start that a failover could take back is no start: the tool might run twice. Nothing has happened yet. */
async function refuseUnsafe(
  { durable }: RunStepDeps,
  { run, startToken, context }: Execution,
): Promise<Extract<ToolOutcome, { type: "retry" }> | undefined> {
  if (!durable || startToken === undefined) return undefined;
  try {
    await durable.confirm(run, context.active.signal);
    return undefined;
  } catch (error) {
    if (!isOutage(error)) throw error;
    return { type: "retry", message: "it was not begun: its start is not safe yet", notBegun: true };
  }
}

function errorTypeOf(outcome: Exclude<Kept, { type: "ok" }>): string {
  return outcome.type === "retry" ? "retryable" : outcome.code;
}

async function execute(deps: RunStepDeps, agent: AgentCode, execution: Execution): Promise<ToolOutcome> {
  const { run, open, call, context } = execution;
  const { runId } = run;
  const { turn, attempt, callId } = open;
  const logger = withFields(deps.logger, { runId, turn, callId, traceId: run.trace.traceId });
  const stopTimer = abortAtDeadline(deps, run, context.active);
  try {
    return await deps.telemetry.withStep(
      run,
      { kind: "tool", turn, attempt, callId, owedAt: context.step.owedAt },
      () =>
        agent.tools.execute({
          runId,
          call,
          turn,
          attempt,
          idempotencyKey: `${runId}:${callId}`,
          session: run.session,
          metadata: run.metadata,
          signal: context.active.signal,
          logger,
          repeatable: open.repeatable,
          ...(open.decision && open.question ? { approvedHash: open.question.argumentsHash } : {}),
          onProgress: (text) => logger.info({ progress: text }, "tool progress"),
        }),
    );
  } finally {
    stopTimer();
  }
}

/** A tool's outcome, its result cut for the model if need be. */
type Kept =
  | Exclude<ToolOutcome, { type: "ok" | "child" }>
  | { type: "ok"; content: Content; full?: FullResult; maxBytes: number };

async function keepOutcome(
  deps: RunStepDeps,
  agent: AgentCode,
  execution: Execution,
  outcome: Exclude<ToolOutcome, { type: "child" }>,
): Promise<Kept> {
  if (outcome.type !== "ok") return outcome;
  return { type: "ok", ...(await keepResult(deps, agent, execution, outcome.content)) };
}

type RanEvent = Extract<RunEvent, { type: "tool_finished" | "tool_unknown" | "tool_failed" }>;

function toEvent(deps: RunStepDeps, agent: AgentCode, execution: Execution, outcome: Kept): RanEvent {
  const { open, context, startToken } = execution;
  const place = { step: context.step, ...(startToken ? { startToken } : {}) };
  switch (outcome.type) {
    case "ok":
      return { ...outcome, type: "tool_finished", ...place, outcome: "ok" };
    case "failed":
      return { type: "tool_finished", ...place, content: outcome.message, outcome: "failed" };
    case "unknown": {
      const error = { code: outcome.code, message: outcome.message };
      // A call without a recorded start is repeatable; to the model its outcome is a plain failure.
      if (!startToken) return { type: "tool_finished", ...place, content: outcome.message, outcome: "failed" };
      return { type: "tool_unknown", step: context.step, startToken, error };
    }
    case "retry": {
      const policy = agent.tools.retryPolicy(open.tool) ?? { attempts: 1, delayMs: 0 };
      const failed = { attempt: open.attempt, at: deps.clock.now(), jitter: deps.ids.random() };
      // Stopped by us: whatever attempts it has left. What Redis could not keep is tried without limit.
      const stopped = context.active.aborted() !== undefined;
      const patient = outcome.notBegun ? failed.at + backoffMs(1_000, failed.attempt, failed.jitter) : undefined;
      const nextAt = stopped
        ? failed.at
        : (patient ?? nextAttemptAt(policy, { ...failed, retryAfterMs: outcome.delayMs }));
      if (nextAt !== null)
        return { type: "tool_failed", ...place, error: { code: "retryable", message: outcome.message }, nextAt };
      const content = `"${open.tool}" failed ${open.attempt} times and had no effect. Last error: ${outcome.message}`;
      return { type: "tool_finished", ...place, content, outcome: "failed" };
    }
  }
}
