import type { Effect, Limits, ToolSpec } from "./agent.ts";
import type { CallChild, LeftChildren, RunParent } from "./child.ts";
import type { Decision, Extra, Message } from "./message.ts";
import type { Summary } from "./window.ts";

/**
 * Version of the stored form written by this code, and the oldest reader that may touch the runs it makes: an older one
 * misses fields that they do without. Runs that an older version made keep their form, and their readers.
 */
export const schemaVersion = 5;
export const minReader = 5;
/** The oldest reader of a run that waits, or may come to wait, for an answer from outside: an older one knows no such calls. */
export const answerReader = 3;
/** The oldest reader of a run with children or a parent, and of one that was paused: an older one would not wait. */
export const familyReader = 4;
/** The oldest reader of a run that its budget of bytes has ended. */
export const byteBudgetReader = 4;

export const runStatuses = [
  "queued",
  "running",
  "waiting",
  "paused",
  "completed",
  "failed",
  "cancelled",
  "rejected",
] as const;
export type RunStatus = (typeof runStatuses)[number];

/** Why a run ended. `answered` is completed, `cancelled` is cancelled, all others are failed with the state kept. */
export const stopReasons = [
  "answered",
  "max_turns",
  "repeated_calls",
  "token_budget",
  "byte_budget",
  "cost_budget",
  "deadline",
  "verify_failed",
  "bad_output",
  "model_error",
  "poison",
  "child_failed",
  "cancelled",
] as const;
export type StopReason = (typeof stopReasons)[number];

/** How a child ended; `gone`: its record is not there any more. */
export type ChildEnd = { status: RunStatus | "gone"; stopReason?: StopReason | undefined };

/** Tokens and money spent. `estimated` is true once any part of it was counted by us, not by the provider. */
export type Usage = {
  inputTokens: number;
  outputTokens: number;
  cachedTokens: number;
  costUsd?: number | undefined;
  estimated?: boolean | undefined;
};
export const noUsage: Usage = { inputTokens: 0, outputTokens: 0, cachedTokens: 0 };

export function addUsage(a: Usage, b: Usage): Usage {
  const costUsd = a.costUsd === undefined && b.costUsd === undefined ? undefined : (a.costUsd ?? 0) + (b.costUsd ?? 0);
  return {
    inputTokens: a.inputTokens + b.inputTokens,
    outputTokens: a.outputTokens + b.outputTokens,
    cachedTokens: a.cachedTokens + b.cachedTokens,
    ...(costUsd === undefined ? {} : { costUsd }),
    ...(a.estimated || b.estimated ? { estimated: true } : {}),
  };
}

/** Why a step is held back; the wait costs no worker slot. */
export const holdReasons = [
  "unknown_agent",
  "unknown_tool",
  "rate_limit",
  "concurrency_limit",
  "provider_paused",
] as const;
export type Hold = {
  reason: (typeof holdReasons)[number];
  detail: string;
  /** How many times in a row it was held; the waits grow with it. */
  count: number;
  /** The fleet-wide limit at which a place is kept for it. */
  gate?: string | undefined;
};

/**
 * The step between turns that the run owes.
 * - `task`: undefined is the next answer; `summary` condenses the messages up to index `upTo`; `verify` checks the last answer;
 * - `attempt`: from 1; raised only by a failed attempt, never by a lost worker (invariant 8);
 * - `refused`: how many of them a provider only refused for a while, which use up no allowed attempt;
 * - `owedAt`: the revision that made this step owed; with the index it names the job;
 * - `notBefore`: epoch ms by Redis's clock;
 * - `isolatedStarts`: how often it was begun alone in a child process.
 */
export type ModelStep = {
  task?: "summary" | "verify" | undefined;
  upTo?: number | undefined;
  attempt: number;
  refused?: number | undefined;
  owedAt: number;
  notBefore?: number | undefined;
  hold?: Hold | undefined;
  crashes?: number | undefined;
  isolatedStarts?: number | undefined;
};

/**
 * What a person is asked about a call, fixed when the call was planned.
 * - `argumentsHash`: of the tool's name and its arguments as they will be run; a decision is bound to it;
 * - `description`: what the call would do, in the tool's words;
 * - `reason`: why it asks: the tool's own setting, or the policy rule that was in force.
 */
export type Question = { argumentsHash: string; description: string; reason: string };

/** Whose word a call waits for that no worker executes: a person's, or a result of the program that started the run. */
export type AnswerFrom = "person" | "caller";

/** What is the same for an open call in any state. */
export type CallBase = {
  callId: string;
  toolCallId: string;
  turn: number;
  position: number;
  tool: string;
  effect: Effect;
  /** Whether a started attempt may be run again after its worker was lost (reads, idempotent writes). */
  repeatable: boolean;
  /** Who learns of an unknown outcome first: the model, or a person. */
  onUnknown: "tell" | "ask";
  timeoutMs: number;
  queue?: string | undefined;
  /** Set if a person may have to decide on it, or is asked. */
  question?: Question | undefined;
  /** The last decision on it, and the ids of the approvals before that. */
  decision?: Decision | undefined;
  approvalIds?: string[] | undefined;
  /** The run that is its execution; undefined: a worker executes it. */
  child?: CallChild | undefined;
  attempt: number;
  owedAt: number;
  crashes?: number | undefined;
  isolatedStarts?: number | undefined;
};

/**
 * Something the run waits for. Settling the last one owes the next turn (invariant 5).
 * - `approval`: a person must approve it first;
 * - `ready`: its tool step is owed;
 * - `started`: begun by the holder of `startToken`; only for calls that are not repeatable (invariant 4);
 * - `lost`: its worker is gone; the result bearing `startToken` is accepted until `timeoutAt`;
 * - `asking`: its outcome is unknown and a person decides;
 * - `answer`: no worker executes it; its result comes from outside, and must fit `answerSchema` if there is one;
 * - `child`: a run of its own is its execution; it is looked at when it tells of its end, or else at `lookAt`;
 * - `settled`: its result waits in the results hash for the others.
 */
export type OpenCall = CallBase &
  (
    | { state: "approval"; askedAt: number; expiresAt?: number | undefined }
    | { state: "ready"; notBefore?: number | undefined; hold?: Hold | undefined }
    | { state: "started"; startToken: string; timeoutAt: number }
    | { state: "lost"; startToken: string; timeoutAt: number }
    | { state: "asking"; askedAt: number }
    | {
        state: "answer";
        from: AnswerFrom;
        askedAt: number;
        expiresAt?: number | undefined;
        answerSchema?: Record<string, unknown> | undefined;
      }
    | { state: "child"; child: CallChild & { since: number }; lookAt: number }
    | { state: "settled" }
  );

/**
 * Where a run is in its session.
 * - `delayed`: it joins the line at `notBefore` (epoch ms);
 * - `joined`: it is in the line and has not looked yet who is at its head;
 * - `queued`: another run goes first and will tell it;
 * - `active`: the session's transcript is its to append to;
 * - `leaving`: it has ended and left, and the next in line is still to be told.
 * `round`: the revision at which it joined; `owedAt`: the revision that made its look at the line owed.
 */
export type SessionPlace = {
  state: "delayed" | "joined" | "queued" | "active" | "leaving";
  round: number;
  owedAt: number;
  notBefore?: number | undefined;
};

/** Ids under which all spans of a run are found, decided once when the run is created. */
export type RunTrace = {
  traceId: string;
  rootSpanId: string;
  parentSpanId?: string | undefined;
  /** W3C trace flags; 1 is sampled. */
  flags: number;
};

export type RunError = { code: string; message: string };

/** Who paused a run, when and why. */
export type Pause = { by: string; reason: string; at: number };

/** The head of a run: everything that decides what it does next, small, without the transcript. */
export type Run = {
  schemaVersion: number;
  minReader: number;
  runId: string;
  agent: string;
  agentHash?: string | undefined;
  revision: number;
  /** Random, new with each commit: a revision number can come back after a failover. */
  token: string;
  status: RunStatus;
  stopReason?: StopReason | undefined;
  error?: RunError | undefined;
  /** Model answers committed. */
  turns: number;
  model?: ModelStep | undefined;
  calls: OpenCall[];
  /** Input that came in mid-turn and enters when the next model step is owed. */
  pendingInput: Message[];
  /** Ids of the last inputs taken, and names of retries, so that a re-sent command is not taken twice. */
  inputIds: string[];
  /** Length of the transcript; of a session's, as far as this run has come to know it. */
  messageCount: number;
  /** Messages of the input that the run began with; undefined while they wait. See `goalOf`. */
  inputCount?: number | undefined;
  /** Where the run's part of its session's transcript begins. Only a run that shares one has it; others begin at 0. */
  baseMessage?: number | undefined;
  /** Its parts of the session's transcript before a retry that came after others had spoken. */
  earlierParts?: [number, number][] | undefined;
  /** Undefined outside sessions, and once the session has gone on to the next run. */
  place?: SessionPlace | undefined;
  /** What is kept of it, in bytes, about; undefined in records of older versions. See `maxBytes` of `Limits`. */
  bytes?: number | undefined;
  /** Sequence number of the last event in the feed. */
  eventSeq: number;
  limits: Limits;
  /** Limits a retry put in place of the others; they may also be wider. */
  retryLimits?: Limits | undefined;
  /** Stands for the messages before its `upTo` in what is sent. */
  summary?: Summary | undefined;
  /** The largest window that the model's server has taken, in tokens; learned from a refusal. */
  windowBudget?: number | undefined;
  /** The last answer is JSON that fits the agent's output. */
  structured?: boolean | undefined;
  /** How often an answer was asked for again because it did not fit the output, and how often it failed its verification. */
  reasks?: number | undefined;
  verifications?: number | undefined;
  /** It ended before the check of its last answer did; a retry checks that answer first. */
  unchecked?: boolean | undefined;
  /** Turns before this transcript index are no repetition any more: the run was retried since. */
  repeatsFrom?: number | undefined;
  /** Tools of the program that started the run; their calls wait for its results. */
  tools?: ToolSpec[] | undefined;
  /** Reads are executed, anything else is only described to the model. */
  dryRun?: boolean | undefined;
  usage: Usage;
  /** Attempts whose usage came after they were superseded or the run had ended; each counts once. */
  lateUsage: string[];
  deadlineAt?: number | undefined;
  /** The stricter of the producer's and the agent's, in ms; a retry counts it anew. */
  deadlineMs?: number | undefined;
  /** The revision at which the earliest due time last changed; names the wake step. */
  wakeOwedAt: number;
  createdAt: number;
  updatedAt: number;
  startedAt?: number | undefined;
  endedAt?: number | undefined;
  inputHash: string;
  metadata: Record<string, unknown>;
  session?: string | undefined;
  priority?: number | undefined;
  /** Whose run it is; undefined: nobody's in particular. */
  tenant?: string | undefined;
  /** Whose child it is, if it is one. */
  parent?: RunParent | undefined;
  leftChildren?: LeftChildren | undefined;
  /** Set while it is paused: it owes no work then. */
  paused?: Pause | undefined;
  trace: RunTrace;
  /** Fields of a newer version that this code does not know; written back as they came. */
  unknown?: Extra | undefined;
};

export function isEnded({ status }: Pick<Run, "status">): boolean {
  return status === "completed" || status === "failed" || status === "cancelled" || status === "rejected";
}
