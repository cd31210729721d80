import type { AgentDefinition, ToolSpec } from "./agent.ts";
import type { AssistantMessage, Content, Message, ToolMessageOutcome } from "./message.ts";
import type { RunError, Usage } from "./run.ts";

// What happened in a run, turn by turn, told from what is stored: the feed, the transcript, the definitions.

/** One delivery of work that reached an outcome, or how it was lost or held. Times are epoch ms and ms. */
export type StepView = {
  kind: "model" | "tool" | "summary" | "verify" | "approval" | "answer";
  /** Of a tool step, an approval or a question. */
  callId?: string | undefined;
  tool?: string | undefined;
  attempt: number;
  outcome: "ok" | "failed" | "denied" | "unknown" | "cancelled" | "lost" | "crashed" | "held" | "expired" | "open";
  /** When its outcome was committed; undefined while it is open. */
  endedAt?: number | undefined;
  /** How long it lay in its queue, and how long the call took; undefined where an older version did not keep them. */
  queueWaitMs?: number | undefined;
  performMs?: number | undefined;
  /** How often it was delivered, if more than once: its workers were lost. */
  deliveries?: number | undefined;
  error?: RunError | undefined;
  /** Epoch ms of the next attempt, where another was owed. */
  nextAt?: number | null | undefined;
  by?: string | undefined;
  reason?: string | undefined;
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
};

/** What the model was sent. `messages`: as rendered; `kept`: of how many in the transcript at that time. */
export type RequestView = {
  instructions: string;
  messages: Message[];
  /** Transcript indexes of what was left out, half-open ranges. */
  leftOut: [number, number][];
  /** A summary stood for the messages before this index. */
  summarisedUpTo?: number | undefined;
  kept: number;
  tools: ToolSpec[];
  /** Parameters as sent. */
  request: Record<string, unknown>;
  dropped: string[];
  agent: Pick<AgentDefinition, "name" | "model" | "provider" | "version">;
};

export type TurnView = {
  turn: number;
  /** When the first of its steps began, as far as is known, and when its last ended. */
  startedAt: number;
  endedAt?: number | undefined;
  /** Everything between the last turn's end and this one's, in order. */
  steps: StepView[];
  /** Undefined for a turn whose answer has not come. */
  request?: RequestView | undefined;
  answer?: AssistantMessage | undefined;
  finishReason?: string | undefined;
  calls: CallView[];
  usage: Usage;
  /** Input that entered before this turn's model call, the run's own words to the model included. */
  input: Message[];
};

export type TurnPage = { turns: TurnView[]; total: number };
