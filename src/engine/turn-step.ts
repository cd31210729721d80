import type { LimitsInForce } from "../core/agent.ts";
import type { RunEvent } from "../core/event.ts";
import type { Message } from "../core/message.ts";
import { nextAttemptAt } from "../core/retry.ts";
import { noUsage, type Run } from "../core/run.ts";
import type { AgentCode, ModelFailure } from "../ports.ts";
import type { WindowMemo } from "./known-runs.ts";
import type { ModelCall } from "./model-call.ts";
import { type RunStepDeps, type StepContext, stepTimes } from "./step.ts";

/**
 * A transcript, the provider's ids of its calls, and whether a result in it was cut; `memo` where it may be gone on with
 * here.
 */
export type Transcript = {
  messages: Message[];
  usedIds: ReadonlySet<string>;
  hasCut: boolean;
  memo?: WindowMemo | undefined;
};

/** What a step between turns works on. `limits`: those in force for the run. */
export type TurnStep = {
  run: Run;
  agent: AgentCode;
  limits: LimitsInForce;
  transcript: Transcript;
  context: StepContext;
};

/** So often in a row a provider is taken at its word; then the waits grow, lest a run ask, and write, every second for days. */
const believedRefusals = 10;
/** Further ones count as attempts that failed: without a deadline nothing else would end such a run. */
const mostRefusals = 1_000;

/** A failed attempt, with another one owed if the agent's policy has one left. */
export function failed(
  deps: RunStepDeps,
  { run, agent, context }: TurnStep,
  call: ModelCall,
  failure: ModelFailure,
): Extract<RunEvent, { type: "model_failed" }> {
  const { execution, outcome } = call;
  const { attempt = 1, refused = 0 } = run.model ?? {};
  const at = deps.clock.now();
  const { retryAfterMs } = failure;
  const policy = run.model?.task === "summary" ? agent.summariser.retry : agent.modelRetry;
  const jitter = deps.ids.random();
  // Whoever says until when is asked again then: that is no attempt that failed, but one too early.
  const isRefusal = saysUntilWhen(failure) && refused < mostRefusals;
  const counted = isRefusal ? Math.max(1, refused - believedRefusals + 2) : attempt - refused;
  const allowed = isRefusal ? { ...policy, attempts: counted + 1 } : policy;
  const nextAt =
    failure.class === "transient" ? nextAttemptAt(allowed, { attempt: counted, retryAfterMs, at, jitter }) : null;
  return {
    ...failedFor({ context }, execution, failure, nextAt),
    ...(isRefusal ? { refused: true } : {}),
    usage: outcome.usage,
    times: stepTimes(context, call),
  };
}

function saysUntilWhen({ code, retryAfterMs = 0 }: ModelFailure): boolean {
  return code === "rate_limited" && retryAfterMs > 0;
}

/** An attempt that failed with `nextAt` as the time of the next one; null: there is none. */
export function failedFor(
  { context }: Pick<TurnStep, "context">,
  execution: string,
  { code, message }: Pick<ModelFailure, "code" | "message">,
  nextAt: number | null,
): Extract<RunEvent, { type: "model_failed" }> {
  return {
    type: "model_failed",
    step: context.step,
    execution,
    error: { code, message },
    usage: noUsage,
    nextAt,
  };
}
