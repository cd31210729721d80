import type { ToolMessageOutcome } from "./message.ts";
import type { AnswerFrom, ChildEnd, Hold, RunError, StopReason, Usage } from "./run.ts";
import type { WindowPlan } from "./window.ts";

/**
 * How a step went. `ms`: whole ms that it lay in its queue and that its call took; `deliveries`: how often it was
 * delivered, if more than once.
 */
export type StepTimes = { ms: [queueWait: number, perform: number]; deliveries?: number | undefined };
/** What the model was sent, so that the request can be printed again (invariant 6). */
export type Manifest = {
  agentHash: string;
  /** Half-open ranges of transcript indexes. */
  messages: [number, number][];
  tools: string[];
  /** Parameters that this server does not take; absent if none. */
  dropped?: string[] | undefined;
  /** How the window was made of these ranges; absent if the transcript was sent as it is. */
  window?: Omit<WindowPlan, "messages"> | undefined;
};

/** Times of the step that an entry tells of; absent where nothing was executed, and in records of older versions. */
type Took = Partial<StepTimes>;

/**
 * One entry of a run's feed: what was committed, kept with the run. It points at messages by index and repeats no
 * content, so that a run's storage stays linear in new content.
 */
export type FeedEntry = { seq: number; at: number; turn: number } & (
  | { type: "run_created"; messages: [number, number]; by?: string | undefined; dryRun?: boolean | undefined }
  | { type: "run_rejected"; error: RunError }
  | { type: "run_began"; agentHash: string }
  | ({
      type: "model_answered";
      attempt: number;
      execution: string;
      message: number;
      calls: string[];
      usage: Usage;
      finishReason: string;
      manifest: Manifest;
    } & Took)
  | ({
      type: "model_failed";
      /** Of a failed summary; absent for an answer. */
      task?: "summary" | undefined;
      attempt: number;
      execution: string;
      error: RunError;
      nextAt: number | null;
      /** What it cost, if anything. */
      usage?: Usage | undefined;
    } & Took)
  | ({ type: "summarised"; execution: string; upTo: number; text: string; usage: Usage } & Took)
  | ({ type: "window_shrunk"; execution: string; budgetTokens: number; error: RunError } & Took)
  | ({ type: "answer_verified" } & Took)
  /** `message`: the transcript index of what the model is told. */
  | ({ type: "answer_refused"; why: "output" | "verify"; message: number } & Took)
  | ({ type: "verify_failed"; attempt: number; error: RunError; nextAt: number | null } & Took)
  | { type: "tool_started"; callId: string; tool: string; attempt: number }
  | ({
      type: "tool_finished";
      callId: string;
      tool: string;
      attempt: number;
      outcome: ToolMessageOutcome;
      /** The transcript index that its result has, or will have once all calls of the turn are settled. */
      message: number;
    } & Took)
  | ({ type: "tool_failed"; callId: string; tool: string; attempt: number; error: RunError; nextAt: number } & Took)
  | { type: "tool_lost"; callId: string; tool: string; attempt: number; until: number }
  /** The policy decided something about a call that does not ask; `policy` says which rules. */
  | { type: "policy_applied"; callId: string; tool: string; policy: string }
  | {
      type: "approval_asked";
      callId: string;
      tool: string;
      why: "policy" | "unknown_outcome";
      /** What is to be decided on, and which setting or rule asks. */
      argumentsHash?: string | undefined;
      reason?: string | undefined;
      expiresAt?: number | undefined;
    }
  | { type: "approved"; callId: string; tool: string; by: string; argumentsHash?: string | undefined }
  | {
      type: "denied";
      callId: string;
      tool: string;
      by: string;
      reason: string;
      argumentsHash?: string | undefined;
    }
  | { type: "approval_expired"; callId: string; tool: string; argumentsHash?: string | undefined }
  /** The call's result is to come from outside. */
  | { type: "answer_asked"; callId: string; tool: string; from: AnswerFrom; expiresAt?: number | undefined }
  | { type: "answered"; callId: string; tool: string; by: string }
  | { type: "answer_expired"; callId: string; tool: string; from: AnswerFrom }
  /** A run of its own is the call's execution. */
  | { type: "child_started"; callId: string; tool: string; childId: string; agent: string }
  /** `status`: "gone" if its record is not there any more; `usage`: what it spent, which is part of the run's. */
  | ({ type: "child_ended"; callId: string; tool: string; childId: string; usage: Usage } & ChildEnd)
  /** The record of a call's child is gone; it is started anew. */
  | { type: "child_lost"; callId: string; tool: string; childId: string }
  | { type: "run_paused"; by: string; reason: string }
  | { type: "run_resumed"; by: string }
  /** A dry run told of a call instead of making it. */
  | { type: "tool_described"; callId: string; tool: string }
  | {
      type: "step_held";
      callId?: string | undefined;
      reason: Hold["reason"];
      detail: string;
      count: number;
      until: number;
    }
  | { type: "step_crashed"; callId?: string | undefined; error: RunError; nextAt: number | null }
  | { type: "input_received"; count: number; by?: string | undefined }
  | { type: "messages_appended"; messages: [number, number] }
  | { type: "session_queued"; behind: string }
  /** The run goes on from this index of its session's transcript. */
  | { type: "session_entered"; from: number }
  | { type: "run_retried"; by: string }
  | { type: "usage_reported"; execution: string; usage: Usage }
  | {
      type: "run_ended";
      status: "completed" | "failed" | "cancelled";
      stopReason: StopReason;
      error?: RunError | undefined;
      by?: string | undefined;
    }
);
