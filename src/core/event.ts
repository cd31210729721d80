import type { Effect, Limits } from "./agent.ts";
import type { ChildPlan } from "./child.ts";
import type { Manifest, StepTimes } from "./feed-entry.ts";
import type { AssistantMessage, Content, FullResult, Message, ToolCall, ToolMessageOutcome } from "./message.ts";
import type { AnswerFrom, ChildEnd, Hold, Question, RunError, StopReason, Usage } from "./run.ts";

export type { FeedEntry, Manifest, StepTimes } from "./feed-entry.ts";

/** Names a step of a run for ever: the revision that made it owed, and an index among those it made owed. */
export type StepRef = { owedAt: number; index: number };

/** An event of a step that made a call; undefined where none was made. */
type Timed = { times?: StepTimes | undefined };

/** How a call is to be treated, decided before it is recorded: unknown tools and bad arguments settle at once. */
export type CallPlan =
  | {
      type: "run" | "ask";
      effect: Effect;
      repeatable: boolean;
      onUnknown: "tell" | "ask";
      timeoutMs: number;
      queue?: string | undefined;
      approvalExpiresMs?: number | undefined;
      question?: Question | undefined;
      /** Its execution is a run of its own. */
      child?: ChildPlan | undefined;
      /** The policy rules that decided anything about it, in words. */
      policy?: string | undefined;
    }
  /** Its result comes from outside. `expiresMs`: how long it is waited for; undefined: for ever. */
  | {
      type: "answer";
      from: AnswerFrom;
      expiresMs?: number | undefined;
      answerSchema?: Record<string, unknown> | undefined;
      question?: Question | undefined;
      policy?: string | undefined;
    }
  | {
      type: "settle";
      content: string;
      outcome?: "ok" | "failed" | undefined;
      /** What the call would do, where a dry run tells of it and does not make it. */
      described?: string | undefined;
      policy?: string | undefined;
    };

/**
 * What follows a final answer. `reask`: it does not fit the output; the model is told, at most `max` times.
 * `verify`: the agent's own check comes first.
 */
export type AnswerNext = { type: "complete" } | { type: "verify" } | { type: "reask"; feedback: string; max: number };

export type PlannedCall = { call: ToolCall; plan: CallPlan };

/** Past facts. `step` is the step that found it out; an event whose step is not owed any more is ignored. */
export type RunEvent =
  | { type: "run_began"; agentHash: string; deadlineMs?: number | undefined }
  | ({
      type: "model_answered";
      step: StepRef;
      execution: string;
      message: Omit<AssistantMessage, "toolCalls">;
      calls: PlannedCall[];
      usage: Usage;
      finishReason: string;
      model?: string | undefined;
      responseId?: string | undefined;
      manifest: Manifest;
      /** For an answer without calls; default: the run is completed. */
      next?: AnswerNext | undefined;
      /** The answer is JSON that fits the agent's output. */
      structured?: boolean | undefined;
    } & Timed)
  | ({
      type: "model_failed";
      step: StepRef;
      execution: string;
      error: RunError;
      usage: Usage;
      /** Epoch ms of the next attempt; null: there is none and the run fails. */
      nextAt: number | null;
      /** The provider only asked for a pause: the attempt uses up none that the agent allows. */
      refused?: boolean | undefined;
    } & Timed)
  /** Messages before `upTo` are to be condensed before the next answer. */
  | { type: "summary_wanted"; step: StepRef; upTo: number }
  | ({ type: "summarised"; step: StepRef; execution: string; text: string; usage: Usage } & Timed)
  /** A run of the same session has condensed the messages before `upTo` already. */
  | { type: "summary_taken"; step: StepRef; upTo: number; text: string }
  /** The server refused a request for its length: the next one keeps to `budgetTokens`. */
  | ({ type: "window_shrunk"; step: StepRef; execution: string; budgetTokens: number; error: RunError } & Timed)
  | ({ type: "answer_verified"; step: StepRef } & Timed)
  /** The agent's own check refused the answer; the model is told, at most `max` times. */
  | ({ type: "answer_refused"; step: StepRef; feedback: string; max: number } & Timed)
  /** The check itself failed. `nextAt`: null ends the run. */
  | ({ type: "verify_failed"; step: StepRef; error: RunError; nextAt: number | null } & Timed)
  | { type: "tool_started"; step: StepRef; startToken: string; timeoutAt: number }
  | ({
      type: "tool_finished";
      step: StepRef;
      startToken?: string | undefined;
      content: Content;
      outcome: ToolMessageOutcome;
      full?: FullResult | undefined;
      /** What the run may hold, in bytes: a result that is over that by now is cut. */
      maxBytes?: number | undefined;
    } & Timed)
  | ({
      type: "tool_failed";
      step: StepRef;
      startToken?: string | undefined;
      error: RunError;
      nextAt: number;
    } & Timed)
  | { type: "tool_lost"; step: StepRef }
  | ({ type: "tool_unknown"; step: StepRef; startToken: string; error: RunError } & Timed)
  /** The run that is the call's execution is there. */
  | { type: "child_started"; step: StepRef }
  /** The child of a call has ended, at that revision of its own: the call looks at it. */
  | { type: "child_ended"; callId: string; childId: string; revision: number }
  /** A call looked at its child, which goes on. */
  | { type: "child_goes_on"; step: StepRef }
  /** A call found that its child's record is gone, and starts it anew. */
  | { type: "child_lost"; step: StepRef }
  /** The result of a child is that of its call. `fails`: the run ends with this error. */
  | ({
      type: "child_finished";
      step: StepRef;
      content: Content;
      outcome: ToolMessageOutcome;
      full?: FullResult | undefined;
      maxBytes?: number | undefined;
      end: ChildEnd;
      usage: Usage;
      fails?: RunError | undefined;
    } & Timed)
  /** Of a child: its parent retries it, for the time `retry`, from 1. */
  | { type: "child_retried"; retry: number; by: string }
  /** Of a child: its parent was told of its end. */
  | { type: "parent_told"; owedAt: number }
  /** The children that a run left behind at its end were told to end. */
  | { type: "children_ended"; owedAt: number }
  | { type: "pause_requested"; by: string; reason: string }
  | { type: "resume_requested"; by: string }
  | { type: "step_held"; step: StepRef; hold: Hold; until: number }
  /** The turn of a step that was held has come. */
  | { type: "step_admitted"; step: StepRef }
  /** `count`: which start or crash of this step it is, from 1. */
  | { type: "step_isolated"; step: StepRef; count: number }
  | { type: "step_crashed"; step: StepRef; count: number; error: RunError; poison: boolean; nextAt: number | null }
  | { type: "limit_reached"; step: StepRef; reason: StopReason; message: string }
  | { type: "time_came" }
  /** `argumentsHash`: what the person decided on; the event does not apply to a call of anything else. */
  | {
      type: "approved";
      callId: string;
      by: string;
      argumentsHash?: string | undefined;
      decisionId?: string | undefined;
    }
  | { type: "denied"; callId: string; by: string; reason: string; decisionId?: string | undefined }
  /**
   * The result of a call that waits for one from outside. `checkedBy`: the JSON Schema that it was found to fit; the event
   * does not apply to a call that asks for another.
   */
  | {
      type: "answered";
      callId: string;
      by: string;
      content: Content;
      checkedBy?: Record<string, unknown> | undefined;
      decisionId?: string | undefined;
      /** What the run may hold, in bytes: it takes no answer and no input that is over that. */
      maxBytes?: number | undefined;
    }
  | {
      type: "input_received";
      inputId: string;
      messages: Message[];
      by?: string | undefined;
      maxBytes?: number | undefined;
    }
  /** The time has come for a run to join its session's line. `round`: of the place that it had when this was found. */
  | { type: "session_joined"; round: number }
  /** Another run of its session goes first. */
  | { type: "session_queued"; round: number; behind: string }
  /**
   * The run is at the head of its session's line, whose transcript has `messageCount` messages. `inputAgain`: its input,
   * for a retried run after which others have spoken.
   */
  | { type: "session_entered"; round: number; messageCount: number; inputAgain: Message[] }
  /** What the run would put into its session's transcript cannot be kept there: it ends, and those behind it go on. */
  | { type: "session_refused"; round: number; error: RunError }
  /** The next in line was told that the run has left. */
  | { type: "session_passed"; round: number }
  | { type: "cancel_requested"; by: string; reason: string }
  /** `retryId`: names the request; sent again it is no second retry. */
  | { type: "retry_requested"; by: string; limits?: Limits | undefined; retryId?: string | undefined }
  | { type: "usage_reported"; execution: string; usage: Usage };

/** When and under which random token an event is applied; the two impure inputs of `transition`. */
export type EventMeta = { at: number; token: string };
