import type { AgentDefinition } from "./core/agent.ts";
import type { Content, Message, ToolCall } from "./core/message.ts";
import type { Run, RunTrace } from "./core/run.ts";
import type { ModelOutcome } from "./ports-model.ts";

/** What a span of a step tells. Emitted once, after the step's outcome was committed by this worker. */
export type StepSpan = {
  run: Run;
  turn: number;
  attempt: number;
  /** The revision that made the step owed: tells attempt 1 after a retry of the run from attempt 1 before it. */
  owedAt: number;
  /** Set when the attempt failed. */
  errorType?: string | undefined;
  startedAt: number;
  endedAt: number;
  queueWaitMs: number;
  loadMs: number;
  performMs: number;
  commitMs: number;
} & (
  | {
      kind: "model";
      execution: string;
      definition: AgentDefinition;
      server?: { address: string; port: number } | undefined;
      outcome: ModelOutcome;
      request: { messages: Message[]; instructions: string };
    }
  | {
      kind: "tool";
      call: ToolCall;
      effect: string;
      description?: string | undefined;
      result?: Content | undefined;
    }
  | { kind: "verify"; feedback?: string | undefined }
);

/** Traces: one per run, over any number of processes. A no-op when telemetry is off. */
export interface Telemetry {
  /** Reserves a run's ids: under `traceparent`, else under the active span, else a new trace. */
  startTrace(runId: string, traceparent?: string): RunTrace;
  /** Marks that a run was created, so that one that never ends can be found. */
  recordStart(run: Run): void;
  /** Runs `fn` with the step's span as the active context, so that spans of user code hang under it. */
  withStep<T>(
    run: Run,
    step: { kind: "model" | "tool" | "verify"; turn: number; attempt: number; callId?: string; owedAt: number },
    fn: () => Promise<T>,
  ): Promise<T>;
  recordStep(span: StepSpan): void;
  /** A wait for a person, emitted when it ends, with its stored start. */
  recordApproval(
    run: Run,
    call: { callId: string; tool: string; askedAt: number; decidedAt: number; decision: string; by: string },
  ): void;
  /** Emits the root with the stored id and the true start. */
  recordEnd(run: Run): void;
}
