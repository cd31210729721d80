import { type Limits, type LimitsInForce, stricter, tightenLimits } from "./agent.ts";
import { messageBytes } from "./bytes.ts";
import type { Message } from "./message.ts";
import type { Run, StopReason } from "./run.ts";

/** The limits in force: the stricter of agent and producer, unless a retry set others. */
export function effectiveLimits(agent: Limits, run: Run): LimitsInForce {
  const limits = tightenLimits(agent, run.limits);
  if (!run.retryLimits) return limits;
  const set = Object.entries(run.retryLimits).filter(([, value]) => value !== undefined);
  return { ...limits, ...Object.fromEntries(set) };
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
  return reachedSize(run, limits);
}

function reachedSize({ bytes = 0 }: Run, { maxBytes }: Limits): { reason: StopReason; message: string } | null {
  if (maxBytes === undefined || bytes < maxBytes) return null;
  const message = `The run holds ${bytes} bytes, of ${maxBytes} that it may. Retry it with a higher maxBytes.`;
  return { reason: "byte_budget", message };
}

/**
 * Why input is not taken, naming the field, its size and the limit; undefined if it is.
 *
 * @param limits those that are known; what is not known is checked by who knows it.
 * @param held bytes that the run has already; `field`: what the messages are called by whoever gave them.
 */
export function problemOfSize(
  messages: readonly Message[],
  limits: Pick<Limits, "maxBytes" | "maxMessageBytes">,
  { held = 0, field }: { held?: number | undefined; field: string },
): string | undefined {
  const { maxBytes = Number.POSITIVE_INFINITY, maxMessageBytes = Number.POSITIVE_INFINITY } = limits;
  const sizes = messages.map(messageBytes);
  const at = sizes.findIndex((size) => size > maxMessageBytes);
  if (at >= 0) {
    const name = messages.length === 1 ? field : `${field}[${at}]`;
    return `${name} is ${sizes[at]} bytes, the limit of a message (maxMessageBytes) is ${maxMessageBytes}`;
  }
  const all = sizes.reduce((sum, size) => sum + size, 0);
  if (held + all <= maxBytes) return undefined;
  const before = held === 0 ? "" : ` and the run holds ${held}`;
  return `${field} is ${all} bytes${before}, the limit of a run (maxBytes) is ${maxBytes}`;
}
