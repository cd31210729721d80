import type { FeedEntry } from "../core/event.ts";
import type { Message } from "../core/message.ts";
import type { Run } from "../core/run.ts";
import type { Execution } from "./execution.ts";
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

/** What the judge is told of a tool. `asks`: a person is asked about every call of it. */
export type JudgedTool = { effect: "read" | "write" | "irreversible"; idempotent: boolean; asks: boolean };

export type Evidence = {
  runId: string;
  /** Null: there is no record. */
  run: Run | null;
  messages: readonly Message[];
  feed: readonly FeedEntry[];
  /** Of this run. */
  executions: readonly Execution[];
  tools: ReadonlyMap<string, JudgedTool>;
  /** What its model was to say; undefined: not known. */
  script?: Script | undefined;
  /** How it ends when nobody disturbs it; undefined: anyhow. */
  ends?: Pick<Run, "status" | "stopReason"> | undefined;
};
