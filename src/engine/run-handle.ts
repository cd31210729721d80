import { randomUUID } from "node:crypto";
import type { Limits } from "../core/agent.ts";
import type { Command } from "../core/command.ts";
import { DroverError, unknownRun } from "../core/errors.ts";
import type { RunFeedEvent } from "../core/feed.ts";
import type { InputMessage, Message } from "../core/message.ts";
import { answerTextOf } from "../core/reply-text.ts";
import {
  isEnded,
  type OpenCall,
  type Run,
  type RunError,
  type RunStatus,
  type StopReason,
  type Usage,
} from "../core/run.ts";
import type { RunStore, Signals } from "../ports.ts";
import type { Client } from "./client.ts";
import { toInput } from "./command.ts";
import { type FollowOptions, follow } from "./follow.ts";

/** A call that the run waits for, as people see it. `asking`: its outcome is unknown and a person decides. */
export type OpenCallView = {
  callId: string;
  tool: string;
  state: Exclude<OpenCall["state"], "settled">;
  attempt: number;
  /** JSON text of its arguments. */
  arguments: string;
  /** Epoch ms of the next attempt, or of what time alone will do. */
  notBefore?: number | undefined;
};

export type RunView = {
  runId: string;
  agent: string;
  status: RunStatus;
  stopReason?: StopReason | undefined;
  error?: RunError | undefined;
  /** Why a waiting run waits, in words. */
  waitingFor?: string | undefined;
  turns: number;
  openCalls: OpenCallView[];
  usage: Usage;
  createdAt: number;
  updatedAt: number;
  endedAt?: number | undefined;
  traceId: string;
};

export type RunResult = {
  runId: string;
  status: "completed" | "failed" | "cancelled" | "rejected";
  stopReason?: StopReason | undefined;
  /** The final answer's text; undefined unless completed. */
  output?: string | undefined;
  error?: RunError | undefined;
  turns: number;
  usage: Usage;
};

/** One run, from any process. */
export type RunHandle = {
  readonly id: string;
  /** @throws DroverError "not_found" */
  status(): Promise<RunView>;
  /**
   * Waits for the end of the run.
   * @param options.timeoutMs default: no limit. @throws DroverError "timeout"; the run itself goes on.
   */
  result(options?: { timeoutMs?: number | undefined; signal?: AbortSignal | undefined }): Promise<RunResult>;
  /** The numbered feed, from any point, during and after the run: what was committed, and text as it arrives. */
  events(options?: FollowOptions): AsyncGenerator<RunFeedEvent>;
  /** What was said and done so far, append-only. */
  transcript(): Promise<Message[]>;
  /** Ends the run; work in flight is aborted. False if it had ended already. */
  cancel(options?: { by?: string; reason?: string }): Promise<boolean>;
  /** Lets an open call be executed. @throws DroverError "not_allowed" if it waits for nobody */
  approve(callId: string, options?: { by?: string }): Promise<void>;
  /** Settles an open call without executing it; the model reads the reason. @throws DroverError "not_allowed" */
  deny(callId: string, options?: { by?: string; reason?: string }): Promise<void>;
  /** Adds input; it enters before the next model call, and gives an answered turn another one. @throws "not_allowed" */
  send(message: string | InputMessage): Promise<void>;
  /** Goes on with a failed run from where it failed. @throws DroverError "not_allowed" unless it failed */
  retry(options?: { limits?: Limits; by?: string }): Promise<void>;
};

export type HandleDeps = { client: Client; store: RunStore; signals: Signals };

export function createRunHandle(deps: HandleDeps, runId: string): RunHandle {
  const { client, store } = deps;

  async function decide(callId: string, event: Command, what: string): Promise<void> {
    const { run, applied } = await client.command(runId, event);
    if (applied) return;
    const waiting = run.calls.filter((call) => call.state === "approval" || call.state === "asking");
    const which = waiting.length > 0 ? `Waiting are: ${waiting.map((call) => call.callId).join(", ")}.` : "No call is.";
    throw new DroverError(
      "not_allowed",
      `${callId} of run "${runId}" was not ${what}: it does not wait for a person. ${which}`,
    );
  }

  return {
    id: runId,
    status: async () => {
      const loaded = await store.loadWithLastMessage(runId);
      if (!loaded) throw unknownRun(runId);
      return toView(loaded.run, loaded.last);
    },
    result: (options = {}) => waitForEnd(deps, runId, options),
    events: (options) => follow(deps, runId, options),
    transcript: async () => {
      const run = await client.load(runId);
      return store.readMessages(runId, 0, run.messageCount);
    },
    cancel: async ({ by = "unknown", reason = "cancelled" } = {}) =>
      (await client.command(runId, { type: "cancel_requested", by, reason })).applied,
    approve: (callId, { by = "unknown" } = {}) => decide(callId, { type: "approved", callId, by }, "approved"),
    deny: (callId, { by = "unknown", reason = "denied" } = {}) =>
      decide(callId, { type: "denied", callId, by, reason }, "denied"),
    send: async (message) => {
      const messages = toInput(message);
      const { run, applied } = await client.command(runId, { type: "input_received", inputId: randomUUID(), messages });
      if (!applied) throw new DroverError("not_allowed", `Run "${runId}" is ${run.status} and takes no more input.`);
    },
    retry: async ({ limits, by = "unknown" } = {}) => {
      const { run, applied } = await client.command(runId, { type: "retry_requested", by, limits });
      if (!applied) {
        throw new DroverError("not_allowed", `Run "${runId}" is ${run.status}; only a failed run can be retried.`);
      }
    },
  };
}

async function lastMessage(store: RunStore, runId: string): Promise<Message | undefined> {
  return (await store.loadWithLastMessage(runId))?.last;
}

export function toView(run: Run, last: Message | undefined): RunView {
  const { runId, agent, status, stopReason, error, turns, usage, createdAt, updatedAt, endedAt } = run;
  const calls = last?.role === "assistant" ? (last.toolCalls ?? []) : [];
  const openCalls = run.calls.flatMap((call): OpenCallView[] => {
    if (call.state === "settled") return [];
    const { callId, tool, state, attempt } = call;
    const args = calls.find((other) => other.callId === callId)?.arguments ?? "";
    return [{ callId, tool, state, attempt, arguments: args, notBefore: dueOf(call) }];
  });
  const traceId = run.trace.traceId;
  const waitingFor = status === "waiting" ? describeWait(run) : undefined;
  return {
    runId,
    agent,
    status,
    stopReason,
    error,
    waitingFor,
    turns,
    openCalls,
    usage,
    createdAt,
    updatedAt,
    endedAt,
    traceId,
  };
}

function dueOf(call: OpenCall): number | undefined {
  if (call.state === "ready") return call.notBefore;
  if (call.state === "approval") return call.expiresAt;
  if (call.state === "lost") return call.timeoutAt;
  return undefined;
}

function describeWait(run: Run): string {
  const held =
    run.model?.hold ?? run.calls.map((call) => (call.state === "ready" ? call.hold : undefined)).find(Boolean);
  if (held) return held.detail;
  if (run.calls.some((call) => call.state === "approval" || call.state === "asking")) return "a person's decision";
  if (run.calls.some((call) => call.state === "lost")) return "the outcome of a call whose worker was lost";
  return "its next attempt";
}

/** The final answer of a completed run; its last message, since nothing is appended after the end. */
function outputOf(last: Message | undefined): string | undefined {
  return last?.role === "assistant" ? answerTextOf(last) : undefined;
}

const lookEveryMs = 2_000;

async function waitForEnd(
  { client, store, signals }: HandleDeps,
  runId: string,
  { timeoutMs, signal }: { timeoutMs?: number | undefined; signal?: AbortSignal | undefined },
): Promise<RunResult> {
  const until = timeoutMs === undefined ? Number.POSITIVE_INFINITY : performance.now() + timeoutMs;
  let ring: () => void = () => {};
  const unsubscribe = await signals.onEnd(runId, () => ring());
  let status: RunStatus | undefined;
  try {
    for (;;) {
      const rung = new Promise<void>((resolve) => {
        ring = resolve;
      });
      // Once the run was found, Redis going away is waited out like any other time.
      const run = await client.load(runId).catch((error: unknown) => {
        if (status === undefined || !isOutage(error)) throw error;
      });
      if (run && isEnded(run)) return toResult(run, await lastMessage(store, runId));
      status = run?.status ?? status;
      const leftMs = until - performance.now();
      if (leftMs <= 0 || signal?.aborted) {
        throw new DroverError(
          "timeout",
          `Run "${runId}" is still ${status}; it goes on. Ask again later, or watch it.`,
        );
      }
      await atMost(Math.min(leftMs, lookEveryMs), rung, signal);
    }
  } finally {
    unsubscribe();
  }
}

function isOutage(error: unknown): boolean {
  return error instanceof DroverError && error.code === "queue_unavailable";
}

/** Waits for `rung`, but no longer than `ms` or the signal's abort. Leaves no timer and no listener behind. */
async function atMost(ms: number, rung: Promise<void>, signal?: AbortSignal): Promise<void> {
  const { promise: over, resolve } = Promise.withResolvers<void>();
  const stop = (): void => resolve();
  const timer = setTimeout(stop, ms);
  signal?.addEventListener("abort", stop);
  await Promise.race([rung, over]);
  clearTimeout(timer);
  signal?.removeEventListener("abort", stop);
}

function toResult(run: Run, last: Message | undefined): RunResult {
  const { runId, stopReason, error, turns, usage } = run;
  const status = run.status as RunResult["status"];
  const output = status === "completed" ? outputOf(last) : undefined;
  return { runId, status, stopReason, output, error, turns, usage };
}
