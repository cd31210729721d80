import type { TurnView } from "../../../src/core/report.ts";
import type { OpenCallView, RunView } from "../../../src/engine/run-view.ts";
import type { RunData } from "../../../src/http/pages/run-data.ts";
import type { Caller } from "../../../src/http/types.ts";

// One of everything that pages show, with a text in every field that can hold one.

export const at = Date.UTC(2026, 10, 30, 8);
const usage = { inputTokens: 1_200, outputTokens: 80, cachedTokens: 400, costUsd: 0.0123 };
const error = { code: "rate_limit", message: "429: too many requests" };

export const caller: Caller = { name: "ann", scopes: new Set(["start", "read", "decide", "admin"]), csrf: "token" };

const ask = (state: OpenCallView["state"], position: number): OpenCallView => ({
  callId: `call-2-${position}`,
  toolCallId: "tc",
  tool: "pay",
  state,
  attempt: 1,
  effect: "irreversible",
  arguments: '{"amount":12}',
  argumentsHash: "hash",
  description: "Pay 12",
  reason: "the tool asks",
  from: "person",
  question: "Which address?",
  askedAt: at - 60_000,
  expiresAt: at + 60_000,
});

export const run: RunView = {
  runId: "run-1",
  agent: "support",
  status: "waiting",
  stopReason: "model_error",
  error,
  session: "session-1",
  tenant: "tenant-1",
  metadata: { channel: "mail", nested: { a: "b" } },
  waitingFor: "a person's decision",
  ahead: 2,
  turns: 2,
  openCalls: [ask("approval", 1), ask("asking", 2), ask("answer", 3)],
  usage,
  createdAt: at - 90_000,
  updatedAt: at - 30_000,
  traceId: "0af7651916cd43dd8448eb211c80319c",
};

export const turn: TurnView = {
  turn: 1,
  startedAt: at - 80_000,
  endedAt: at - 70_000,
  usage,
  finishReason: "length",
  input: [
    { role: "user", content: "Pay them." },
    { role: "user", content: "Go on.", origin: "run" },
    {
      role: "system",
      content: [
        { type: "text", text: "Be brief." },
        { type: "image_url", image_url: { url: "x" } },
      ],
    },
  ],
  marks: [
    { type: "session_queued", at, behind: "run-0" },
    { type: "retried", at, by: "ann" },
    { type: "rejected", at, error },
    { type: "ended", at, status: "failed", stopReason: "model_error", error, by: "ann" },
  ],
  steps: [
    { kind: "model", attempt: 1, outcome: "failed", endedAt: at - 78_000, performMs: 900, error, nextAt: at - 77_000 },
    {
      kind: "model",
      attempt: 2,
      outcome: "ok",
      endedAt: at - 74_000,
      performMs: 1_900,
      queueWaitMs: 120,
      deliveries: 3,
    },
    {
      kind: "tool",
      callId: "call-1-1",
      tool: "look",
      attempt: 1,
      outcome: "lost",
      startedAt: at - 74_000,
      endedAt: at - 73_000,
    },
    { kind: "tool", callId: "call-1-1", tool: "look", attempt: 2, outcome: "ok", endedAt: at - 72_000, performMs: 300 },
    { kind: "tool", tool: "pay", attempt: 1, outcome: "held", reason: "the model is limited", nextAt: at + 1_000 },
    { kind: "approval", callId: "call-1-2", tool: "pay", attempt: 1, outcome: "denied", by: "ben", reason: "too much" },
  ],
  request: {
    agent: { name: "support", model: "gpt-5-mini", provider: "openai", version: "7" },
    kept: 6,
    leftOut: [[1, 3]],
    summarisedUpTo: 3,
    dropped: ["top_k"],
    offered: ["look", "pay"],
    instructions: "You help.",
    messages: [
      { role: "system", content: "Summary" },
      { role: "user", content: "Pay them." },
    ],
    tools: [{ name: "look", description: "Looks", parameters: { type: "object" } }],
    request: { temperature: 0.2 },
    output: { name: "answer", schema: {} },
  },
  answer: { role: "assistant", content: "I look first.", refusal: "I would rather not." },
  calls: [
    {
      callId: "call-1-1",
      tool: "look",
      arguments: '{"id":"1"}',
      result: '{"ok":"yes"}',
      outcome: "ok",
      cutFrom: 90_000,
    },
    {
      callId: "call-1-2",
      tool: "pay",
      arguments: "not JSON",
      result: [{ type: "text", text: "no" }],
      outcome: "denied",
      described: "Would pay",
      policy: "a rule",
      decision: { type: "denied", by: "ben", at },
    },
    { callId: "call-1-3", tool: "wait", arguments: "{}" },
  ],
};

export const runData: RunData = {
  run,
  goal: "Pay them.",
  turns: { turns: [turn, { ...turn, turn: 2, endedAt: undefined, request: undefined }], total: 60 },
  pageSize: 20,
  audit: [{ at, by: "ann", action: "denied", tool: "pay", reason: "too much" }],
  seq: 17,
  limits: { maxTurns: 15, maxTokens: 100_000, maxCostUsd: 2 },
  deadlineAt: at + 600_000,
  traceUrl: "https://traces.example.org/{traceId}",
  caller,
  now: at,
};
