import { randomUUID } from "node:crypto";
import type { Limits } from "../core/agent.ts";
import { type AuditEntry, auditOf } from "../core/audit.ts";
import type { Command } from "../core/command.ts";
import { type DescribedCall, describedCalls } from "../core/described.ts";
import { DroverError, unknownRun } from "../core/errors.ts";
import type { RunFeedEvent } from "../core/feed.ts";
import type { InputMessage, Message } from "../core/message.ts";
import type { TurnPage } from "../core/report.ts";
import type { ResultRange } from "../core/result.ts";
import { isEnded, type Run, type RunError, type StopReason, type Usage } from "../core/run.ts";
import { ownParts, transcriptOf, waitsForSession } from "../core/session.ts";
import { nameOfRetry } from "../core/transition.ts";
import type { Durable, RunStore, SchemaCheck, Signals } from "../ports.ts";
import type { Client } from "./client.ts";
import { toInput } from "./command.ts";
import { answerTo, type Decided, decideOn, readWholeFeed } from "./decide.ts";
import { type FollowOptions, follow } from "./follow.ts";
import { outputOf } from "./output-of.ts";
import { readKept } from "./read-kept.ts";
import { type ReportDeps, readTurns, type TurnsOptions } from "./report.ts";
import { type RunView, toView } from "./run-view.ts";
import { type Found, waitForEnd } from "./wait-for-end.ts";

/** `Output`: what a final answer is read as; text unless an agent with an `output` was given. */
export type RunResult<Output = string> = {
  runId: string;
  status: "completed" | "failed" | "cancelled" | "rejected";
  stopReason?: StopReason | undefined;
  /**
   * The final answer, secrets redacted: its text, or its value where the agent's `output` is known; undefined unless
   * completed.
   */
  output?: Output | undefined;
  error?: RunError | undefined;
  turns: number;
  usage: Usage;
  /** Of a dry run: what it would have done. */
  dryRun?: true | undefined;
  described?: DescribedCall[] | undefined;
};

/**
 * - `by`: who decides;
 * - `decisionId`: names this decision: sent again, after whatever has happened since, it is not taken for a second one.
 *   Another decision under its name is refused.
 */
type DecideOptions = { by?: string | undefined; decisionId?: string | undefined };
/** `argumentsHash`: what was decided on, as `status()` told it; a call of anything else is refused. */
type ApproveOptions = DecideOptions & { argumentsHash?: string | undefined };
type DenyOptions = DecideOptions & { reason?: string | undefined };

/** One run, from any process. */
export type RunHandle<Output = string> = {
  readonly id: string;
  /** @throws DroverError "not_found" */
  status(): Promise<RunView>;
  /**
   * Waits for the end of the run.
   * @param options.timeoutMs default: no limit. @throws DroverError "timeout"; the run itself goes on.
   */
  result(options?: { timeoutMs?: number | undefined; signal?: AbortSignal | undefined }): Promise<RunResult<Output>>;
  /** The numbered feed, from any point, during and after the run: what was committed, and text as it arrives. */
  events(options?: FollowOptions): AsyncGenerator<RunFeedEvent>;
  /**
   * What was said and done so far, append-only, as it is stored: in a session the run's own part, or with `session` all there was up to
   * the run's end.
   */
  transcript(options?: { session?: boolean | undefined }): Promise<Message[]>;
  /**
   * What happened turn by turn, told from what is stored, secrets redacted: steps with their times, requests as the model
   * saw them, answers, calls with their results.
   * @throws DroverError "invalid" "not_found"
   */
  turns(options?: TurnsOptions): Promise<TurnPage>;
  /**
   * A piece of the whole result of a call, also of one that was cut for the model.
   * @param range characters (UTF-16 code units): `from` default 0, `length` default 65,536.
   * @throws DroverError "not_found" for a call without a result
   */
  readResult(callId: string, range?: { from?: number; length?: number }): Promise<ResultRange>;
  /** Ends the run; work in flight is aborted. False if it had ended already. */
  cancel(options?: { by?: string; reason?: string }): Promise<boolean>;
  /**
   * Lets nothing of the run begin until it is resumed. A step in hand may end; people may decide and send input meanwhile;
   * its deadline and the expiry of what it asks stay where they are on the clock. False if it is paused already.
   * @throws DroverError "not_allowed" if it has ended
   */
  pause(options?: { by?: string; reason?: string }): Promise<boolean>;
  /** Goes on where it was. False if it is not paused. @throws DroverError "not_allowed" if it has ended */
  resume(options?: { by?: string }): Promise<boolean>;
  /** Who did what to the run, in order: derived from its feed, which nobody can change afterwards. */
  audit(): Promise<AuditEntry[]>;
  /**
   * Lets an open call be executed. The same decision by the same person again is no error.
   * @throws DroverError "not_allowed" if it waits for nobody: it says who decided what and when
   */
  approve(callId: string, options?: ApproveOptions): Promise<void>;
  /** Settles an open call without executing it; the model reads the reason. @throws as `approve` */
  deny(callId: string, options?: DenyOptions): Promise<void>;
  /**
   * Gives the result of a call that waits for one from outside: a person's answer to a question, or what a tool of the
   * run's caller brought. The same answer by the same person again is no error. `deny` declines instead.
   * @param value text, content parts, or any JSON value; where the question says what its answer must be, it must fit
   * @throws DroverError "invalid" naming what does not fit, "too_large", "not_allowed" if the call waits for no answer
   */
  answer(callId: string, value: unknown, options?: DecideOptions): Promise<void>;
  /**
   * Adds input; it enters before the next model call, and gives an answered turn another one.
   * @param options.inputId names the input: sent again, it is not taken twice
   * @throws DroverError "not_allowed" if the run has ended
   */
  send(message: string | InputMessage, options?: { by?: string; inputId?: string }): Promise<void>;
  /**
   * Goes on with a failed run from where it failed.
   * @param options.retryId names the request: sent again, after a lost reply say, it is no second retry
   * @throws DroverError "not_allowed" unless it failed
   */
  retry(options?: { limits?: Limits; by?: string; retryId?: string }): Promise<void>;
};

export type HandleDeps = ReportDeps & {
  client: Client;
  signals: Signals;
  checkValue: SchemaCheck;
  durable?: Durable | undefined;
};

/** @param read makes the output of a structured answer; without it the output is text. */
export function createRunHandle<Output = string>(
  deps: HandleDeps,
  runId: string,
  read?: (value: unknown) => Output,
): RunHandle<Output> {
  const { client, store } = deps;
  const { redactor } = deps.redaction;

  const decide = (event: Decided): Promise<void> => decideOn(deps, runId, event);

  return {
    id: runId,
    status: async () => {
      const loaded = await store.loadWithLastMessage(runId);
      if (!loaded) throw unknownRun(runId);
      const { run } = loaded;
      const view = toView(run, loaded.last, redactor);
      return waitsForSession(run) ? { ...view, ...(await placeInLine(store, run)) } : view;
    },
    result: async (options = {}) => toResult(deps, await waitForEnd(deps, runId, options), read),
    events: (options) => follow(deps, runId, options),
    transcript: async ({ session = false } = {}) => {
      const run = await client.load(runId);
      return readParts(store, run, session ? [[0, run.messageCount]] : ownParts(run));
    },
    turns: (options) => readTurns(deps, runId, options),
    readResult: async (callId, range) => readKept(store, await client.load(runId), callId, range),
    cancel: async ({ by = "unknown", reason = "cancelled" } = {}) =>
      (await client.command(runId, { type: "cancel_requested", by, reason })).applied,
    pause: ({ by = "unknown", reason = "no reason given" } = {}) =>
      holdOrRelease(client, runId, { type: "pause_requested", by, reason }),
    resume: ({ by = "unknown" } = {}) => holdOrRelease(client, runId, { type: "resume_requested", by }),
    audit: async () => {
      await client.load(runId);
      return redactor.value(auditOf(await readWholeFeed(store, runId)));
    },
    approve: (callId, { by = "unknown", ...bound } = {}) => decide({ type: "approved", callId, by, ...bound }),
    deny: (callId, { by = "unknown", reason = "no reason given", decisionId } = {}) =>
      decide({ type: "denied", callId, by, reason, decisionId }),
    answer: (callId, value, { by = "unknown", decisionId } = {}) =>
      answerTo(deps, runId, { callId, value, by, decisionId }),
    send: async (message, { by = "unknown", inputId = randomUUID() } = {}) => {
      const command: Command = { type: "input_received", inputId, messages: toInput(message), by };
      const { run, applied } = await client.command(runId, command);
      if (!applied && !run.inputIds.includes(inputId))
        throw new DroverError("not_allowed", `Run "${runId}" is ${run.status} and takes no more input.`);
    },
    retry: async ({ limits, by = "unknown", retryId } = {}) => {
      const { run, applied } = await client.command(runId, { type: "retry_requested", by, limits, retryId });
      const isKnown = retryId !== undefined && run.inputIds.includes(nameOfRetry(retryId));
      if (!applied && !isKnown) {
        throw new DroverError("not_allowed", `Run "${runId}" is ${run.status}; only a failed run can be retried.`);
      }
    },
  };
}

async function holdOrRelease(client: Client, runId: string, command: Command): Promise<boolean> {
  const { run, applied } = await client.command(runId, command);
  if (isEnded(run)) throw new DroverError("not_allowed", `Run "${runId}" is ${run.status}; there is nothing to hold.`);
  return applied;
}

/** Where a run is in its session's line, and who is at its head. */
async function placeInLine(store: RunStore, run: Run): Promise<Pick<RunView, "ahead" | "waitingFor">> {
  const { session = "", place, runId } = run;
  if (place?.state === "delayed") return { waitingFor: "the time to join its session" };
  const { line } = await store.readSession(session, mostAhead);
  const [head] = line;
  const at = line.findIndex((entry) => entry.runId === runId);
  const ahead = at === -1 ? line.length : at;
  if (ahead === 0 || !head) return { ahead: 0 };
  return { ahead, waitingFor: `run ${head.runId}, which goes first in its session` };
}

const mostAhead = 1_000;

async function toResult<Output>(
  { store, redaction: { redactor } }: HandleDeps,
  { run, last }: Found,
  read: ((value: unknown) => Output) | undefined,
): Promise<RunResult<Output>> {
  const { runId, stopReason, error, turns, usage } = run;
  const status = run.status as RunResult["status"];
  const output = status === "completed" ? redactor.value(outputOf(run, last, read)) : undefined;
  const result = { runId, status, stopReason, output, error: redactor.value(error), turns, usage };
  if (!run.dryRun) return result;
  const described = describedCalls(await readParts(store, run, ownParts(run)));
  return {
    ...result,
    dryRun: true,
    described: described.map((call) => ({ ...redactor.value(call), arguments: redactor.json(call.arguments) })),
  };
}

async function readParts(store: RunStore, run: Run, parts: [number, number][]): Promise<Message[]> {
  const name = transcriptOf(run);
  return (await Promise.all(parts.map((part) => store.readMessages(name, ...part)))).flat();
}
