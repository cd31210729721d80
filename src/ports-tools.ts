import type { BreakerPolicy, FleetLimits, Limits, RetryPolicy, ToolSpec } from "./core/agent.ts";
import type { CallPlan } from "./core/event.ts";
import type { Content, InputMessage, ToolCall } from "./core/message.ts";
import type { OutputIssue } from "./core/output.ts";

/**
 * How a tool execution ended. `unknown`: it may or may not have taken effect (invariant 4). `trouble`: the tool itself
 * is to blame, as far as is known, not the call; it counts for its circuit breaker.
 */
export type ToolOutcome =
  | { type: "ok"; content: Content }
  | { type: "failed"; code: "threw" | "timeout"; message: string; trouble?: true | undefined }
  /** `notBegun`: it was us who did not let it begin; that is no attempt of the tool's. */
  | { type: "retry"; message: string; delayMs?: number | undefined; notBegun?: true }
  | { type: "unknown"; code: "threw" | "timeout" | "aborted"; message: string }
  | ChildRequest;

/** The run that a call's execution is to be. `maxDepth`: how deep children may have children. */
export type ChildRequest = {
  type: "child";
  agent: string;
  input: string | InputMessage[];
  limits?: Limits | undefined;
  maxDepth: number;
};

export type ToolRequest = {
  runId: string;
  call: ToolCall;
  turn: number;
  attempt: number;
  /** Stable across attempts of the same call. */
  idempotencyKey: string;
  session?: string | undefined;
  metadata: Record<string, unknown>;
  signal: AbortSignal;
  logger: Logger;
  onProgress: (text: string) => void;
  /** As the call was planned; default: as the tool is now. */
  repeatable?: boolean | undefined;
  /** What a person approved; a call of anything else is refused. */
  approvedHash?: string | undefined;
};

/** What holds for a tool over the whole fleet. `breaker`: undefined is never switched off. */
export type ToolGate = FleetLimits & {
  breaker?: BreakerPolicy | undefined;
  /** What the model is offered while it is off. */
  fallback?: string | undefined;
  timeoutMs: number;
};

/** Everything that is wrong with a value by a JSON Schema; empty if it fits. Never throws. */
export type SchemaCheck = (schema: Record<string, unknown>, value: unknown) => OutputIssue[];

export type PlanOptions = {
  dryRun?: boolean | undefined;
  /** Tools that are offered beside the agent's own and whose calls the run's caller executes. */
  callerTools?: readonly ToolSpec[] | undefined;
};

/** Looks up, validates, coerces, bounds and runs tools. Never rejects for what a tool or a model did. */
export interface ToolCaller {
  /** How a call is to be treated, before it is recorded. Content of a `settle` plan is for the model to read. */
  plan(call: ToolCall, options?: PlanOptions): CallPlan;
  execute(request: ToolRequest): Promise<ToolOutcome>;
  /** Its limits over the fleet; undefined if the tool is not known. */
  gate(tool: string): ToolGate | undefined;
  retryPolicy(tool: string): RetryPolicy | undefined;
  /** How long its results may be for the model; undefined if the tool is not known. */
  maxResultTokens(tool: string): number | undefined;
  /** Whether the same call again is meant: it waits for something to change. */
  isPolling(tool: string): boolean;
}

export interface Logger {
  debug(fields: Record<string, unknown>, message: string): void;
  info(fields: Record<string, unknown>, message: string): void;
  warn(fields: Record<string, unknown>, message: string): void;
  error(fields: Record<string, unknown>, message: string): void;
  /** Whether lines of this level are written. One that cannot say is given all of them. */
  isLevelEnabled?(level: "debug" | "info" | "warn" | "error"): boolean;
}
