import type { AgentDefinition } from "./core/agent.ts";
import type { Content, Message, ToolCall } from "./core/message.ts";
import type { EndedStatus } from "./core/retention.ts";
import type { AnswerFrom, Hold, Run, RunTrace, Usage } from "./core/run.ts";
import type { ModelOutcome } from "./ports-model.ts";
import type { FleetView } from "./ports-operators.ts";

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

/**
 * What is counted beside runs and steps. What tells counts apart comes from code or from closed lists, never from a
 * model or a caller.
 * - `commit_conflict`: a commit was refused because another came first;
 * - `sweep_repair`: a step that was owed was in no queue;
 * - `redelivery`: a step's lock expired and it was queued again; `lock_lost`: this process lives and lost the lock;
 * - `step_crashed`: by a bug of ours, or it killed the process that it ran alone in;
 * - `breaker_opened`: a tool failed too often and was switched off;
 * - `run_removed`: a run that ended so long ago that it is kept no longer;
 * - `watcher`: a client follows a run over HTTP; counted back when it leaves.
 */
export type Count =
  | { what: "commit_conflict" | "sweep_repair" | "run_rejected" | "step_crashed" | "watcher" }
  | { what: "redelivery" | "lock_lost"; queue: string }
  | { what: "step_held"; reason: Hold["reason"] }
  | { what: "breaker_opened"; tool: string }
  | { what: "run_removed"; status: EndedStatus };

/** A request that was answered. `route`: the pattern it matched, never its path; undefined if it matched none. */
export type RequestFacts = {
  method: string;
  route?: string | undefined;
  status: number;
  scheme?: "http" | "https" | undefined;
  durationMs: number;
};

/**
 * How a wait for somebody outside ended. `decision`: approved, denied, answered, expired or cancelled; `from`: whose answer
 * it was for; undefined: a decision.
 */
export type OutsideWait = {
  callId: string;
  tool: string;
  askedAt: number;
  decidedAt: number;
  decision: string;
  by: string;
  from?: AnswerFrom | undefined;
};

/** Traces, one per run over any number of processes, and metrics. A no-op when telemetry is off. */
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
  /** A wait for somebody outside, emitted when it ends, with its stored start. */
  recordApproval(run: Run, wait: OutsideWait): void;
  /** Emits the root with the stored id and the true start. */
  recordEnd(run: Run): void;
  /** Tokens of a call whose outcome was not kept, once they were committed. */
  recordUsage(run: Run, usage: Usage, definition: Pick<AgentDefinition, "provider" | "model">): void;
  /** `by`: default 1. */
  count(of: Count, by?: number): void;
  recordRequest(request: RequestFacts): void;
  /**
   * Tells of the fleet whenever metrics are collected. `read` resolves to undefined while another process tells of it.
   *
   * @returns how to stop
   */
  observeFleet(read: () => Promise<FleetView | undefined>): () => void;
}
