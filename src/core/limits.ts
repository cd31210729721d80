import { type Limits, type LimitsInForce, stricter, tightenLimits } from "./agent.ts";
import type { Run, StopReason } from "./run.ts";

/** The limits in force: the stricter of agent and producer, unless a retry set others. */
export function effectiveLimits(agent: Limits, run: Run): LimitsInForce {
  const set = Object.entries(run.retryLimits ?? {}).filter(([, value]) => value !== undefined);
  return { ...tightenLimits(agent, run.limits), ...Object.fromEntries(set) };
}

/** A run's deadline once it begins, with its agent's taken in: from its creation, or from the retry that came before. */
export function deadlineAtBegin(run: Run, agentMs: number | undefined): Pick<Run, "deadlineMs" | "deadlineAt"> {
  const { deadlineAt, createdAt } = run;
  const from = deadlineAt === undefined || run.deadlineMs === undefined ? createdAt : deadlineAt - run.deadlineMs;
  const deadlineMs = stricter(run.deadlineMs, agentMs);
  return { deadlineMs, deadlineAt: deadlineMs === undefined ? undefined : from + deadlineMs };
}

/** Which limit stands in the way of another model call, and what to do about it; null if none. */
export function reachedLimit(run: Run, limits: Limits, at: number): { reason: StopReason; message: string } | null {
  const { maxTurns, maxTokens, maxCostUsd } = limits;
  const tokens = run.usage.inputTokens + run.usage.outputTokens;
  const cost = run.usage.costUsd ?? 0;
  if (run.deadlineAt !== undefined && run.deadlineAt <= at) {
    return { reason: "deadline", message: "The run's deadline passed. Retry it with a longer deadlineMs." };
  }
  if (maxTurns !== undefined && run.turns >= maxTurns) {
    return { reason: "max_turns", message: `The run used its ${maxTurns} turns. Retry it with a higher maxTurns.` };
  }
  if (maxTokens !== undefined && tokens >= maxTokens) {
    const message = `The run used ${tokens} of its ${maxTokens} tokens. Retry it with a higher maxTokens.`;
    return { reason: "token_budget", message };
  }
  if (maxCostUsd !== undefined && cost >= maxCostUsd) {
    const message = `The run spent $${cost.toFixed(4)} of its $${maxCostUsd}. Retry it with a higher maxCostUsd.`;
    return { reason: "cost_budget", message };
  }
  return null;
}
