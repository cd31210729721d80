import type { AgentDefinition } from "./core/agent.ts";
import type { FeedEntry } from "./core/event.ts";
import type { Message, ToolMessage } from "./core/message.ts";
import type { Step } from "./core/owed.ts";
import type { Run, RunStatus } from "./core/run.ts";
import type { RunFilter } from "./core/run-filter.ts";
import type { LineEntry } from "./core/session.ts";
import type { Change } from "./core/transition.ts";
import type { RetentionStore } from "./ports-retention.ts";

// Every interface the engine sees the world through; no code. Each has its contract suite in test/contract. Ports reject only for bugs and for an unreachable backend (`DroverError` "queue_unavailable"); expected failure of a
// model or a tool is data.

/** Time as Redis tells it, in epoch ms. Local clock steps do not move it. */
export interface Clock {
  now(): number;
  /** Resolves once Redis has told its time; until then `now()` may be this machine's. @throws DroverError "queue_unavailable" */
  ready?(): Promise<void>;
  /** Resolves after `ms`, or at once when the signal aborts; it never rejects. */
  sleep(ms: number, signal?: AbortSignal): Promise<void>;
}

/** Randomness, injected so that tests can repeat a run. */
export interface Ids {
  /** A short random token (at least 64 bits), letters and digits. */
  token(): string;
  /** A new run id: sortable by time, with a letter in it. */
  runId(): string;
  /** A number in [0, 1), for jitter. */
  random(): number;
}

export type CommitResult =
  | { committed: true }
  /** Another change came first; `run` is the head as it is now, null if the run is gone. */
  | { committed: false; run: Run | null };

export type RunPage = { runs: Run[]; cursor?: string | undefined };

/** A piece of text as it arrived, not yet committed. `execution` tells one delivery of a step from another. */
export type LiveDelta = { turn: number; attempt: number; execution: string; text: string };

/** A session's line, the active run first, and how long its transcript is, as of the same moment. */
export type SessionState = { line: LineEntry[]; messageCount: number };

/**
 * A record that was removed because no commit to it could succeed: what was wrong with it, in words, and its session; null:
 * it had none, undefined: it cannot be told.
 */
export type Damage = { why: string; session?: string | null | undefined };

/** `seen`: who has the id now; `messages`: what closes the transcript, `messageCount` long. */
export type LostTurn = { seen: Run | null; messageCount: number; messages: Message[] };

/** Which run an input goes into: its own if `runId` is the input's id. `taken`: it has entered that run. */
export type InputClaim = { runId: string; inputHash: string; taken: boolean };

/**
 * Where runs live. A commit is atomic: head, messages, results, feed and indexes together or not at all.
 */
export interface RunStore extends RetentionStore {
  /**
   * Creates the run unless its id is taken; a rejected record does not hold its id. A run that shares its session's
   * transcript is created without messages.
   */
  create(
    run: Run,
    messages: Message[],
    entries: FeedEntry[],
  ): Promise<{ created: true } | { created: false; run: Run }>;
  load(runId: string): Promise<Run | null>;
  /**
   * The head and the transcript as of the same moment. A step's usual load: one round trip.
   * May serve the transcript's head from a cache whose last entry's token it has checked.
   */
  loadWithMessages(runId: string): Promise<{ run: Run; messages: Message[] } | null>;
  /** The head and the transcript's last entry: what a tool step needs. */
  loadWithLastMessage(runId: string): Promise<{ run: Run; last: Message | undefined } | null>;
  /**
   * Compare-and-set on revision and token of `change.previous`. A conflict with the change's own token is success:
   * the reply to a first try was lost (invariant 1).
   */
  commit(change: Change): Promise<CommitResult>;
  /** Messages in the half-open range of indexes of a transcript, named as by `transcriptOf`. */
  readMessages(transcript: string, from: number, to: number): Promise<Message[]>;
  /** The first `limit` runs of a session's line. */
  readSession(session: string, limit: number): Promise<SessionState>;
  /**
   * Takes out of a session's line who is not in it: its record is lost, or that of another run which took its id, as
   * `seen`. Of the one that went first, what it left open in the transcript is closed along with that, if that is still
   * `messageCount` long. False if nothing was done: look again.
   */
  dropFromLine(session: string, entry: LineEntry, lost: LostTurn): Promise<boolean>;
  /**
   * Decides, once per input, which run of a session takes it: the first in line, else (or when that one, `refusedBy`,
   * has ended without it) a run of its own that has the input's id.
   */
  claimInput(session: string, inputId: string, inputHash: string, refusedBy?: string): Promise<InputClaim>;
  /** Records that the run of the claim has taken the input. */
  confirmInput(session: string, inputId: string, claim: InputClaim): Promise<void>;
  /** Keeps the text that was cut out of a result. `ref` must be new: the first keeping of it may be read at any time. */
  putOutput(runId: string, ref: string, text: string): Promise<void>;
  /** Characters of a kept text in a half-open range, clamped; undefined if nothing is kept under that name. */
  readOutput(runId: string, ref: string, from: number, to: number): Promise<string | undefined>;
  /** Drops the run's kept texts whose name begins so, but for the one named `except`. */
  dropOutputs(runId: string, beginning: string, except?: string): Promise<void>;
  /** Results that came early and wait for the others. */
  readResults(runId: string): Promise<Record<string, ToolMessage>>;
  /** Feed entries with a sequence number above `after`, oldest first, at most `limit`. */
  readFeed(runId: string, after: number, limit: number): Promise<FeedEntry[]>;
  /** Publishes deltas; best effort, dropped some minutes after the run ended. Resolves when they can be read. */
  publishLive(runId: string, deltas: LiveDelta[]): Promise<void>;
  /** Live deltas from position `from` (0 is the first kept), in order, with the position to go on from. */
  readLive(runId: string, from: string): Promise<{ deltas: LiveDelta[]; next: string }>;
  list(filter: RunFilter): Promise<RunPage>;
  /** How many runs there are of each status, by whole index; `tenant` and `agent` narrow it. */
  count(filter?: Pick<RunFilter, "tenant" | "agent">): Promise<Record<RunStatus, number>>;
  /**
   * Removes a run that has ended, with all that is kept of it; a session's transcript stays. False if it was changed
   * since it was read: look again.
   */
  remove(run: Run): Promise<boolean>;
  /**
   * Removes what is kept under the id of a run if its record cannot be read, or is such that no commit to it can succeed:
   * with its places in indexes and in its session's line, as far as those can be told. Null if it is whole, or not there.
   *
   * @throws DroverError "unsupported" of a run that a newer version keeps
   */
  removeDamaged(runId: string): Promise<Damage | null>;
  /** Why no commit to the run can succeed; undefined if one can, or if it is not there. @throws as `removeDamaged` */
  whyDamaged(runId: string): Promise<string | undefined>;
  /** Ids of runs that owe something since before `before` (epoch ms), oldest first, `limit` of them from `offset`. */
  owing(before: number, limit: number, offset?: number): Promise<string[]>;
  /** Takes a run that is not there, its record lost, from those that owe something. False if it is there or not among them. */
  dropOwing(runId: string): Promise<boolean>;
  /**
   * True if nobody holds the lease; it is then held for `ms`. For work that one process of a fleet should do. A named
   * holder also renews what it holds.
   */
  tryLease(name: string, ms: number, holder?: string): Promise<boolean>;
  /** Keeps an agent definition under its hash, and that it was put now: whoever begins to execute a run with it puts it anew. */
  putDefinition(hash: string, definition: AgentDefinition): Promise<void>;
  getDefinition(hash: string): Promise<AgentDefinition | null>;
}

/** Whether there is room for more runs. */
export interface Room {
  /**
   * Why no run may be started now, in words; undefined if one may. Costs a read at most once a second, and only when
   * asked.
   *
   * @param bytes size of what the run begins with, in bytes of JSON
   */
  refusal(bytes: number): Promise<string | undefined>;
}

/** Tells that something happened to a run. At most once and best effort: whoever listens also looks by itself. */
export interface Signals {
  /** Calls back when the feed or the live text of the run may have grown. */
  onRun(runId: string, listener: () => void): Promise<() => void>;
  /** Calls back when the run may have ended, and for nothing that it does before: what many waiters listen to. */
  onEnd(runId: string, listener: () => void): Promise<() => void>;
  /** Announces to every worker that a run was changed from outside its steps: cancelled, say. */
  announce(runId: string): Promise<void>;
  /** Calls back for every announcement; with null when announcements may have been missed (a connection came back). */
  onAnnounced(listener: (runId: string | null) => void): () => void;
  /** Whether announcements are heard at this moment: false while the connection they come by is away. */
  isHearing(): boolean;
}

/**
 * Steps waiting for a worker. Ids make adding safe to repeat: the same step is queued once.
 */
export interface StepQueue {
  /** Queues the steps; one that is queued, active or delayed already is left alone. */
  add(steps: Step[]): Promise<void>;
  /**
   * The sweeper's way: like `add`, but looks at the real state of each step's job, removes remnants, promotes what is
   * due and delayed by a wrong clock, and says how many it had to repair.
   */
  repair(steps: Step[]): Promise<number>;
  /** Lets a step that is delayed be taken at once. @returns false if it is not delayed: queued, active, or not there */
  promote(step: Step): Promise<boolean>;
  /** Takes steps back that are not owed any more. Best effort. */
  remove(steps: Step[]): Promise<void>;
}

/** Waits until what was committed would outlive the server that has it. Absent where an operator asks for no more than a commit. */
export interface Durable {
  /** The longest that `confirm` waits, in ms, about. */
  readonly timeoutMs: number;
  /**
   * Resolves when this head, or a later one of the run, is where the operator wants it: on replicas, on disks.
   *
   * @param signal gives up
   * @throws DroverError "queue_unavailable" when it is not there in time, or was lost in a failover: nothing may be
   * acknowledged or begun that rests on it.
   */
  confirm(run: Run, signal?: AbortSignal): Promise<void>;
}

/** What a worker is given with a step. */
export type Delivery = {
  step: StepAddress;
  /** How often a worker holding this step was lost. */
  lostWorkers: number;
  /** How often this step was delivered, this time included; waits before looking again grow with it. */
  deliveries: number;
  /** Aborts, with a `DeliveryAbort` as its reason. */
  signal: AbortSignal;
  /** When the step was queued, epoch ms; for queue wait. */
  queuedAt: number;
};

/** The step's lock was lost and another worker may have it; or a graceful stop's grace period is over. */
export type DeliveryAbort = "lock_lost" | "stopping";

/** A step's name in a queue. Job data holds nothing more; the trace's ids are in the run. */
export type StepAddress = { runId: string; owedAt: number; index: number };

/** How a step ended for its queue: done, or to be delivered again after a time. Never failed. */
export type StepOutcome = { type: "done" } | { type: "again"; delayMs: number; why: string };

export type { RunFilter } from "./core/run-filter.ts";
export type {
  AgentCode,
  AgentRegistry,
  ModelGate,
  Verdict,
  VerifyContext,
} from "./ports-agent.ts";
export type { Called, EnterRequest, EnterResult, FleetGates, Gate, GateOccupancy, GateState } from "./ports-gates.ts";
export type { ModelClient, ModelFailure, ModelOutcome, ModelRequest, ModelSpec } from "./ports-model.ts";
export type {
  FleetReader,
  FleetSwitch,
  FleetView,
  GateView,
  KeyStore,
  KnownAgent,
  KnownGate,
  Presence,
  QueueState,
  ResponseRecord,
  ResponseStore,
  Scope,
  StoredKey,
  WebSession,
  WorkerPresence,
} from "./ports-operators.ts";
export type { Removal, RemovalOptions, RetentionStore } from "./ports-retention.ts";
export type { Count, OutsideWait, RequestFacts, StepSpan, Telemetry } from "./ports-telemetry.ts";
export type { TokenCounter } from "./ports-tokens.ts";
export type {
  ChildRequest,
  Logger,
  PlanOptions,
  SchemaCheck,
  ToolCaller,
  ToolGate,
  ToolOutcome,
  ToolRequest,
} from "./ports-tools.ts";
