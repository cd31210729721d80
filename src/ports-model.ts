import type { FleetLimits, OutputSpec, RetryPolicy, ToolSpec } from "./core/agent.ts";
import type { Message } from "./core/message.ts";
import type { ModelReply } from "./core/reply.ts";
import type { Usage } from "./core/run.ts";

/** What is sent to a model. Messages are in our neutral form; the instructions come first. */
export type ModelRequest = {
  runId: string;
  turn: number;
  attempt: number;
  /** What is asked for, if not the next answer. */
  task?: "summary" | undefined;
  instructions: string;
  messages: Message[];
  tools: ToolSpec[];
  /** The form of the final answer; enforced by the server where it can, else told in the instructions. */
  output?: OutputSpec | undefined;
  /** Further fields of the request (temperature and so on), sent under their own names. */
  request: Record<string, unknown>;
  signal: AbortSignal;
  /** Called with each piece of text as it arrives. Must not throw. */
  onText: (text: string) => void;
};

/**
 * Classes of model trouble (features H12):
 * - `transient`: network, 429, 5xx, timeout, a cut stream, an empty answer: another attempt is owed;
 * - `permanent`: bad key, unknown model, refused request: the run fails and can be retried when it is fixed;
 * - `overflow`: the request is longer than the model's window;
 * - `aborted`: our own signal ended it.
 */
export type ModelFailure = {
  class: "transient" | "permanent" | "overflow" | "aborted";
  code: string;
  message: string;
  retryAfterMs?: number | undefined;
  status?: number | undefined;
  /** Of an overflow: the longest request that the server takes, in tokens, where it said so. */
  limitTokens?: number | undefined;
};

export type ModelOutcome = (
  | { type: "reply"; reply: ModelReply; finishReason: string }
  | { type: "failure"; failure: ModelFailure }
) & {
  usage: Usage;
  model?: string | undefined;
  responseId?: string | undefined;
  timeToFirstChunkMs?: number | undefined;
  /** Request fields left out because this server refused them by name. */
  dropped: string[];
};

/** Never rejects for a model's failure. */
export interface ModelClient {
  call(request: ModelRequest): Promise<ModelOutcome>;
}

/** A model as an agent is given it. Made by `openai(...)`, or by `scriptedModel(...)` in tests. */
export type ModelSpec = {
  /** The name sent to the server. */
  readonly model: string;
  /** Who serves it, by the names of the OpenTelemetry GenAI conventions. */
  readonly provider: string;
  readonly retry: RetryPolicy;
  /** Its rate and concurrency over the whole fleet. */
  readonly limits?: FleetLimits | undefined;
  /** Where its requests go, for traces; undefined when that is not a network matter or not configured yet. */
  readonly server?: { address: string; port: number } | undefined;
  /** What must never be shown: its keys, as far as they are configured. */
  readonly secrets?: readonly string[] | undefined;
  readonly client: ModelClient;
};
