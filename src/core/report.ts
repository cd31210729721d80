import type { AgentDefinition, OutputSpec, ToolSpec } from "./agent.ts";
import type { AssistantMessage, Content, Decision, Message, ToolMessageOutcome } from "./message.ts";
import type { RunError, StopReason, Usage } from "./run.ts";

// What happened in a run, turn by turn, told from what is stored: the feed, the transcript, the definitions.

/** One delivery of work that reached an outcome, or how it was lost or held. Times are epoch ms and ms. */
export type StepView = {
  kind: "model" | "tool" | "summary" | "verify" | "approval" | "answer";
  /** Of a tool step, an approval or a question. */
  callId?: string | undefined;
  tool?: string | undefined;
  attempt: number;
  outcome: "ok" | "failed" | "denied" | "unknown" | "cancelled" | "lost" | "crashed" | "held" | "expired" | "open";
  /** When it was asked, started or, while it is open, owed; undefined where only its end was committed. */
  startedAt?: number | undefined;
  /** When its outcome was committed; undefined while it is open. */
  endedAt?: number | undefined;
  /** How long it lay in its queue, and how long the call took; undefined where an older version did not keep them. */
  queueWaitMs?: number | undefined;
  performMs?: number | undefined;
  /** How often it was delivered, if more than once: its workers were lost. */
  deliveries?: number | undefined;
  error?: RunError | undefined;
  /** Epoch ms of the next attempt, where another was owed; null: there was none. */
  nextAt?: number | null | undefined;
  /** Who decided or answered, and what was said: why it asks, why it was denied or held. */
  by?: string | undefined;
  reason?: string | undefined;
  /** The run that worked on it, where it was none of a worker's. */
  childId?: string | undefined;
};

/** A call with its result. */
export type CallView = {
  callId: string;
  tool: string;
  /** JSON text. */
  arguments: string;
  result?: Content | undefined;
  outcome?: ToolMessageOutcome | undefined;
  /** Set if the model was given a cut form: size of the whole in characters. */
  cutFrom?: number | undefined;
  /** What a dry run said it would have done. */
  described?: string | undefined;
  /** A person's last word on it, and the rules of the policy that decided anything else about it. */
  decision?: Decision | undefined;
  policy?: string | undefined;
};

/** What the model was sent. `kept`: how many messages the transcript had at that time. */
export type RequestView = {
  agent: Pick<AgentDefinition, "name" | "model" | "provider" | "version">;
  kept: number;
  /** Transcript indexes of what was left out, half-open ranges. */
  leftOut: [number, number][];
  /** A summary stood for the messages before this index. */
  summarisedUpTo?: number | undefined;
  /** Parameters that the server had refused by name before, and that were not sent. */
  dropped: string[];
  /** Names of the tools that were offered. */
  offered: string[];
  /** All below: undefined where only an overview was asked for. `messages`: as rendered. */
  instructions?: string | undefined;
  messages?: Message[] | undefined;
  tools?: ToolSpec[] | undefined;
  output?: OutputSpec | undefined;
  /** Parameters as sent. */
  request?: Record<string, unknown> | undefined;
};

/** What happened to the run itself, told in the turn in which it did. */
export type MarkView = { at: number } & (
  | { type: "rejected"; error: RunError }
  /** It waited behind another run of its session; it came to its turn. */
  | { type: "session_queued"; behind: string }
  | { type: "session_entered" }
  | { type: "retried"; by: string }
  | {
      type: "ended";
      status: "completed" | "failed" | "cancelled";
      stopReason: StopReason;
      error?: RunError | undefined;
      by?: string | undefined;
    }
);

export type TurnView = {
  /** From 1. */
  turn: number;
  /** When its first step was owed: at the end of the turn before, the run's creation or its retry. */
  startedAt: number;
  /** When it was over; undefined while anything of it is open. */
  endedAt?: number | undefined;
  /** Everything between the last turn's end and this one's, in order. */
  steps: StepView[];
  marks: MarkView[];
  /**
   * Undefined for a turn whose answer has not come, and for one whose agent's definition Redis has lost (a flush, a failover): what was
   * sent then cannot be told any more.
   */
  request?: RequestView | undefined;
  answer?: AssistantMessage | undefined;
  finishReason?: string | undefined;
  calls: CallView[];
  /** Of its answer, of failed attempts and of a summary that came first. */
  usage: Usage;
  /** Input that entered before this turn's model call, or waits to; the run's own words to the model included. */
  input: Message[];
};

/** `total`: turns that there are, one without an answer included. */
export type TurnPage = { turns: TurnView[]; total: number };
