import type { AgentDefinition, FleetLimits, Limits, RetryPolicy } from "./core/agent.ts";
import type { Message } from "./core/message.ts";
import type { OutputIssue } from "./core/output.ts";
import type { WindowSettings } from "./core/window.ts";
import type { ModelClient } from "./ports-model.ts";
import type { TokenCounter } from "./ports-tokens.ts";
import type { Logger, ToolCaller } from "./ports-tools.ts";

/** What an agent's own check of a final answer is given beside it. */
export type VerifyContext = {
  runId: string;
  turn: number;
  /** From 1. */
  attempt: number;
  session: string | undefined;
  metadata: Record<string, unknown>;
  /** The transcript, the answer included. */
  messages: readonly Message[];
  /** Aborts at the check's timeout, when the run is cancelled and when the step was lost. */
  signal: AbortSignal;
  log: Logger;
};
/** True: the answer stands. Text, or `ok: false` with feedback: what the model is told. */
export type Verdict = boolean | string | { ok: boolean; feedback?: string | undefined };

/** How an agent's final answers are checked. */
export type AnswerCode = {
  /** Of structured output; undefined: any text is an answer. Never throws. */
  parseOutput?: ((value: unknown) => { ok: true } | { ok: false; issues: OutputIssue[] }) | undefined;
  /** Runs as a step of its own; may reject with a `RetryableError`. */
  verify?: ((answer: unknown, context: VerifyContext) => Promise<Verdict>) | undefined;
  verifyTimeoutMs: number;
};

/** What holds for a model over the whole fleet. `key`: the same for all agents on that model of that server. */
export type ModelGate = FleetLimits & { key: string; model: string };

/** Who condenses the older part of a transcript. */
export type Summariser = {
  model: ModelClient;
  gate: () => ModelGate;
  /** Whose model it is, for traces. */
  named: Pick<AgentDefinition, "model" | "provider">;
  server?: { address: string; port: number } | undefined;
  retry: RetryPolicy;
  instructions?: string | undefined;
};

/** An agent as a worker knows it: the definition and the code behind it. */
export type AgentCode = {
  definition: AgentDefinition;
  hash: string;
  model: ModelClient;
  modelGate: () => ModelGate;
  modelRetry: RetryPolicy;
  server?: { address: string; port: number } | undefined;
  /** What its models are configured with and must never be shown. */
  secrets?: readonly string[] | undefined;
  limits: Limits;
  tools: ToolCaller;
  answers: AnswerCode;
  window: WindowSettings;
  summariser: Summariser;
  /** Counts as the agent's model does; loaded when it is first needed. */
  tokens: () => Promise<TokenCounter>;
};

export interface AgentRegistry {
  get(name: string): AgentCode | undefined;
}
