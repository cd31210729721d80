import type { FeedEntry } from "../core/event.ts";
import type { Message } from "../core/message.ts";
import type { Run } from "../core/run.ts";
import type { Execution } from "./execution.ts";
import type { ModelCall } from "./ledger.ts";
import type { Script } from "./script.ts";

/**
 * What is wrong with a run.
 * - `lost`: the run, a turn of it or a result is gone;
 * - `duplicated`: something was committed twice, or a transcript is not one;
 * - `stuck`: it does not end, or left jobs behind;
 * - `effect`: a tool was executed in a way that its policy forbids, or an unknown outcome was not told;
 * - `outcome`: it ended in another way than it does undisturbed.
 */
export type Finding = { kind: "lost" | "duplicated" | "stuck" | "effect" | "outcome"; runId: string; message: string };

/** What the judge is told of a tool. `asks`: a person is asked about every call of it; `byAgent`: its calls are runs of another agent. */
export type JudgedTool = {
  effect: "read" | "write" | "irreversible";
  idempotent: boolean;
  asks: boolean;
  byAgent: boolean;
};

/** A span of time in which nothing was to begin, in epoch ms; it may not be over. */
export type Window = { from: number; to: number };
/** A process that did nothing: it was frozen, or a tool kept its thread. */
export type Frozen = Window & { pid: number };

/** A child of the run, as it is: the text of its answer if it completed. */
export type JudgedChild = { run: Run; answer: string | undefined };

/** What is judged of a run's head; what is not known of it is not judged. */
export type JudgedRun = Pick<Run, "status" | "turns" | "stopReason" | "error"> &
  Partial<Pick<Run, "calls" | "pendingInput" | "earlierParts" | "deadlineAt">>;

export type Evidence = {
  runId: string;
  /** Null: there is no record. */
  run: JudgedRun | null;
  messages: readonly Message[];
  feed: readonly FeedEntry[];
  /** Of this run. */
  executions: readonly Execution[];
  tools: ReadonlyMap<string, JudgedTool>;
  /** What it was started with; undefined: not known. */
  asked?: string | undefined;
  /** What its model was to say; undefined: not known. */
  script?: Script | undefined;
  /** Of this run, in the order in which they were made; undefined: nobody noted them. */
  modelCalls?: readonly ModelCall[] | undefined;
  /** Every run that is there with this one as its parent; undefined: they are not known. */
  children?: readonly JudgedChild[] | undefined;
  /** Input that was sent in mid-run, and whether the run said that it takes it. */
  input?: { text: string; taken: boolean } | undefined;
  /** Its transcript as it was when it was last retried. */
  before?: readonly Message[] | undefined;
  /** When the fleet was paused, and which processes could not have heard of anything when; these may overlap. */
  fleetPauses?: readonly Window[] | undefined;
  frozen?: readonly Frozen[] | undefined;
  /** How it ends when nobody disturbs it; undefined: anyhow. */
  ends?: Pick<Run, "status" | "stopReason"> | undefined;
};
