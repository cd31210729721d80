import type { AgentDefinition } from "../../src/core/agent.ts";
import { makeRun } from "../../src/core/new-run.ts";
import { type Run } from "../../src/core/run.ts";
import type { FleetView, Logger, StepSpan, Telemetry } from "../../src/ports.ts";

/** A time long before this process began: runs outlive processes. */
export const createdAt = Date.UTC(2026, 0, 2, 3, 4, 5, 678);

/** Text that must not leave unless content is asked for. */
export const canary = "canary-7f3a";

export function aRun(
  telemetry: Pick<Telemetry, "startTrace">,
  options: { session?: string; traceparent?: string; runId?: string } = {},
): Run {
  const runId = options.runId ?? "order-42";
  return makeRun({
    runId,
    agent: "support",
    messages: [{ role: "user", content: canary }],
    inputHash: "h",
    session: options.session,
    trace: telemetry.startTrace(runId, options.traceparent),
    at: createdAt,
    token: "t1",
  });
}

export function ended(run: Run, change: Partial<Run> = {}): Run {
  return {
    ...run,
    status: "completed",
    stopReason: "answered",
    turns: 2,
    usage: { inputTokens: 90, outputTokens: 12, cachedTokens: 40, costUsd: 0.25 },
    endedAt: createdAt + 9_000,
    ...change,
  };
}

export const definition: AgentDefinition = {
  name: "support",
  instructions: `be kind ${canary}`,
  model: "qwen3-32b",
  provider: "openai",
  tools: [],
  request: {
    temperature: 0.5,
    top_p: 0.9,
    top_k: 4,
    seed: 7,
    n: 2,
    max_completion_tokens: 300,
    frequency_penalty: 0.25,
    presence_penalty: 0.75,
    stop: "END",
    reasoning_effort: "low",
    response_format: { type: "json_schema" },
  },
  limits: {},
};

type ModelSpan = StepSpan & { kind: "model" };
type ToolSpan = StepSpan & { kind: "tool" };
const times = { queueWaitMs: 11, loadMs: 2, performMs: 900, commitMs: 3 };

export function modelSpan(run: Run, change: Partial<ModelSpan> = {}): ModelSpan {
  return {
    kind: "model",
    run,
    ...times,
    startedAt: createdAt + 1_000,
    endedAt: createdAt + 2_000,
    turn: 1,
    attempt: 1,
    owedAt: 1,
    execution: "e1",
    definition,
    server: { address: "llm.example", port: 8443 },
    request: { instructions: definition.instructions, messages: [{ role: "user", content: canary }] },
    outcome: {
      type: "reply",
      reply: { content: canary, toolCalls: [{ id: "call_1", name: "refund", arguments: '{"id":"42"}' }] },
      finishReason: "tool_calls",
      usage: { inputTokens: 80, outputTokens: 10, cachedTokens: 40, estimated: true },
      model: "qwen3-32b-0711",
      responseId: "resp_1",
      timeToFirstChunkMs: 250,
      dropped: [],
    },
    ...change,
  };
}

export function toolSpan(run: Run, change: Partial<ToolSpan> = {}): ToolSpan {
  return {
    kind: "tool",
    run,
    ...times,
    startedAt: createdAt + 4_000,
    endedAt: createdAt + 5_000,
    turn: 1,
    attempt: 1,
    owedAt: 2,
    call: { callId: "call-1-1", id: "call_1", name: "refund", arguments: `{"why":"${canary}"}` },
    effect: "irreversible",
    description: "Refunds an order.",
    result: `{"said":"${canary}"}`,
    ...change,
  };
}

export const approval = {
  callId: "call-1-1",
  tool: "refund",
  askedAt: createdAt + 2_500,
  decidedAt: createdAt + 3_500,
  decision: "approved",
  by: "ada",
};

/** A fleet with something to tell of everything: one tool is off, one was. */
export const fleetView: FleetView = {
  at: 100_000,
  redis: { version: "8", usedMemoryBytes: 1_000, maxMemoryBytes: 4_000, clients: 7, roundTripMs: 0.5 },
  workers: [],
  agents: [],
  queues: [
    { name: "model", waiting: 3, active: 2, delayed: 1, oldestAgeMs: 1_500, workers: 2 },
    { name: "tools", waiting: 0, active: 0, delayed: 0, workers: 0 },
  ],
  gates: [
    {
      key: "tool:look",
      kind: "tool",
      name: "look",
      inside: 1,
      waiting: 4,
      breaker: { version: 1, failures: 5, openUntil: 100_001 },
    },
    {
      key: "tool:pay",
      kind: "tool",
      name: "pay",
      inside: 0,
      waiting: 0,
      breaker: { version: 2, failures: 5, openUntil: 99_000 },
    },
    { key: "model:m", kind: "model", name: "m", inside: 0, waiting: 0 },
  ],
  counts: { queued: 1, running: 2, waiting: 3, paused: 0, completed: 9, failed: 1, cancelled: 0, rejected: 0 },
  owing: { count: 3, oldestSince: 98_000 },
};

/** A logger that keeps what it is told. */
export function recordingLogger(): Logger & { lines: { message: string; fields: Record<string, unknown> }[] } {
  const lines: { message: string; fields: Record<string, unknown> }[] = [];
  const write = (fields: Record<string, unknown>, message: string): void => {
    lines.push({ message, fields });
  };
  return { lines, debug: write, info: write, warn: write, error: write };
}
