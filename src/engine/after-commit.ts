import type { Change } from "../core/change.ts";
import type { FeedEntry } from "../core/event.ts";
import { isEnded, type OpenCall, type Run } from "../core/run.ts";
import type { Logger, Signals, Telemetry } from "../ports.ts";
import type { GateLine } from "./gate-line.ts";
import { ofRun } from "./log-fields.ts";
import { quietly } from "./quietly.ts";

type Deps = { telemetry: Telemetry; logger: Logger; signals: Signals; line: GateLine };

/** What follows from every commit of this process, whoever made it: a line of log, spans that end, news for others. */
export type AfterCommit = (change: Change) => void;

export function createAfterCommit({ telemetry, logger, signals, line }: Deps): AfterCommit {
  return (change) => {
    const { previous, run } = change;
    for (const entry of change.entries) {
      logEntry(logger, change, entry);
      countEntry(telemetry, entry);
    }
    for (const call of previous.calls) recordApproval(telemetry, change, call);
    if (isEnded(previous) || !isEnded(run)) return;
    telemetry.recordEnd(run);
    void line.giveUpAll(previous);
    // Its other steps may be at work elsewhere, for nothing from now on.
    if (previous.calls.some(({ state }) => state === "ready" || state === "started")) {
      const { runId } = run;
      void quietly(logger, { runId }, "the end of a run could not be announced", () => signals.announce(runId));
    }
  };
}

const levels: { [type in FeedEntry["type"]]?: "info" | "warn" } = {
  run_began: "info",
  run_ended: "info",
  run_retried: "info",
  approval_asked: "info",
  approval_expired: "info",
  answer_asked: "info",
  answer_expired: "info",
  model_failed: "warn",
  tool_failed: "warn",
  tool_lost: "warn",
  step_held: "warn",
  step_crashed: "warn",
};

/**
 * A line per feed entry: what happened to which run, in which turn and trace. No content: of an error only its code,
 * since a tool's or a server's message may quote any; "drover show" tells it to whoever may see the run.
 */
function logEntry(logger: Logger, { run }: Change, entry: FeedEntry): void {
  const level = levelOf(entry);
  // Most lines tell of a step, and most logs leave those out.
  if (logger.isLevelEnabled?.(level) === false) return;
  const { type, at: _at, ...rest } = entry;
  const error = "error" in entry && entry.error ? { error: entry.error.code } : {};
  const reason = entry.type === "denied" ? { reason: undefined } : {};
  const fields = {
    ...ofRun(run),
    ...rest,
    ...placeOf(entry),
    ...timesOf(entry),
    ...error,
    ...reason,
    ...totalsOf(run, entry),
  };
  logger[level](fields, type.replaceAll("_", " "));
}

function levelOf(entry: FeedEntry): "debug" | "info" | "warn" {
  const isLimit = entry.type === "step_held" && entry.reason !== "unknown_agent" && entry.reason !== "unknown_tool";
  return isLimit ? "debug" : (levels[entry.type] ?? "debug");
}

/** A line's `message` is its text. */
function placeOf(entry: FeedEntry): Record<string, unknown> {
  return "message" in entry ? { message: undefined, messageIndex: entry.message } : {};
}

/** Of a step: how long it waited in its queue, and how long its call took. */
function timesOf(entry: FeedEntry): Record<string, unknown> {
  if (!("ms" in entry) || !entry.ms) return {};
  const [queueWaitMs, performMs] = entry.ms;
  return { ms: undefined, queueWaitMs, performMs };
}

/** Of a run that ended: what it took from its creation on. */
function totalsOf(run: Run, { type }: FeedEntry): Record<string, unknown> {
  if (type !== "run_ended") return {};
  const { inputTokens, outputTokens, costUsd } = run.usage;
  const ms = (run.endedAt ?? run.updatedAt) - run.createdAt;
  return { turns: run.turns, inputTokens, outputTokens, ...(costUsd === undefined ? {} : { costUsd }), ms };
}

function countEntry(telemetry: Telemetry, entry: FeedEntry): void {
  if (entry.type === "step_held") telemetry.count({ what: "step_held", reason: entry.reason });
  else if (entry.type === "step_crashed") telemetry.count({ what: "step_crashed" });
}

/** Emits the span of a wait for somebody once it is over: decided, answered, expired, or cut off by the run's end. */
function recordApproval(telemetry: Telemetry, { run, entries }: Change, call: OpenCall): void {
  if (!("askedAt" in call)) return;
  const { callId, tool, askedAt } = call;
  const now = run.calls.find((other) => other.callId === callId);
  if (now && "askedAt" in now) return;
  const decided = entries.find(
    (entry) =>
      (entry.type === "approved" || entry.type === "denied" || entry.type === "answered") && entry.callId === callId,
  );
  const { type: decision, by } =
    decided && "by" in decided ? decided : { type: isEnded(run) ? "cancelled" : "expired", by: undefined };
  const from = call.state === "answer" ? { from: call.from } : {};
  const wait = { callId, tool, askedAt, decidedAt: run.updatedAt, decision, by: by ?? "nobody", ...from };
  telemetry.recordApproval(run, wait);
}
