// The steps of one turn, told from what was committed of it and from what the run's head still owes.

import type { FeedEntry } from "./event.ts";
import type { StepView } from "./report.ts";
import type { TurnEntries } from "./report-split.ts";
import { isEnded, type OpenCall, type Run } from "./run.ts";

type EntryOf<T extends FeedEntry["type"]> = Extract<FeedEntry, { type: T }>;
type Kind = StepView["kind"];
/** `attempts`: which attempt comes next, by call, and by kind for a step between turns. */
type Told = { steps: StepView[]; attempts: Map<string, number>; isAnswered: boolean };

/** The steps of a turn in the order in which they were asked for or begun, as far as that was committed. */
export function stepsOf({ turn, entries }: Pick<TurnEntries, "turn" | "entries">, run: Run): StepView[] {
  const told: Told = { steps: [], attempts: new Map(), isAnswered: false };
  for (const entry of entries) (tellers[entry.type] as Teller<FeedEntry> | undefined)?.(told, entry);
  if (!isEnded(run)) addOwed(told, turn, run);
  return told.steps;
}

type Teller<E extends FeedEntry> = (told: Told, entry: E) => void;

const tellers: { [T in FeedEntry["type"]]?: Teller<EntryOf<T>> } = {
  model_answered(told, entry) {
    told.steps.push({ kind: "model", attempt: entry.attempt, outcome: "ok", ...timesOf(entry) });
    told.isAnswered = true;
  },
  model_failed(told, entry) {
    const { attempt, error, nextAt, task = "model" } = entry;
    told.attempts.set(task, attempt + 1);
    told.steps.push({ kind: task, attempt, outcome: "failed", error, nextAt, ...timesOf(entry) });
  },
  summarised(told, entry) {
    const attempt = attemptOf(told, "summary");
    told.attempts.delete("summary");
    const reason = entry.execution === "" ? { reason: "made by another run of its session" } : {};
    told.steps.push({ kind: "summary", attempt, outcome: "ok", ...timesOf(entry), ...reason });
  },
  window_shrunk(told, entry) {
    const reason = `too long for the model: at most ${entry.budgetTokens} tokens are sent from here on`;
    const attempt = attemptOf(told, "model");
    told.steps.push({ kind: "model", attempt, outcome: "failed", error: entry.error, reason, ...timesOf(entry) });
  },
  answer_verified(told, entry) {
    told.steps.push({ kind: "verify", attempt: attemptOf(told, "verify"), outcome: "ok", ...timesOf(entry) });
  },
  answer_refused(told, entry) {
    const error = { code: "answer_refused", message: refusals[entry.why] };
    const attempt = attemptOf(told, "verify");
    told.steps.push({ kind: "verify", attempt, outcome: "failed", error, ...timesOf(entry) });
  },
  verify_failed(told, entry) {
    const { attempt, error, nextAt } = entry;
    told.attempts.set("verify", attempt + 1);
    told.steps.push({ kind: "verify", attempt, outcome: "failed", error, nextAt, ...timesOf(entry) });
  },
  run_retried(told) {
    told.attempts.clear();
  },
  step_held(told, entry) {
    const { callId, detail, until } = entry;
    told.steps.push({ ...befallen(told, callId), outcome: "held", reason: detail, nextAt: until, endedAt: entry.at });
  },
  step_crashed(told, entry) {
    const { callId, error, nextAt } = entry;
    told.steps.push({ ...befallen(told, callId), outcome: "crashed", error, nextAt, endedAt: entry.at });
  },
  tool_started(told, { callId, tool, attempt, at }) {
    told.steps.push({ kind: "tool", callId, tool, attempt, outcome: "open", startedAt: at });
  },
  tool_finished: toolFinished,
  tool_failed(told, entry) {
    const { callId, attempt, error, nextAt } = entry;
    told.attempts.set(callId, attempt + 1);
    closeTool(told, entry, { outcome: "failed", error, nextAt });
  },
  tool_lost(told, entry) {
    closeTool(told, entry, { outcome: "lost" });
  },
  approval_asked(told, entry) {
    const { callId, tool, why, at } = entry;
    const isUnknown = why === "unknown_outcome";
    if (isUnknown) {
      const lost = openOf(told, callId, "tool");
      if (lost) Object.assign(lost, { outcome: "unknown", ...timesOf(entry) });
    }
    const reason = isUnknown ? "its outcome is unknown" : entry.reason;
    const attempt = attemptOf(told, callId);
    told.steps.push({ kind: "approval", callId, tool, attempt, outcome: "open", startedAt: at, reason });
  },
  approved(told, { callId, by, at }) {
    close(told, callId, "approval", { outcome: "ok", by, endedAt: at });
  },
  denied(told, { callId, by, reason, at }) {
    close(told, callId, "approval", { outcome: "denied", by, reason, endedAt: at });
  },
  approval_expired(told, { callId, at }) {
    close(told, callId, "approval", { outcome: "expired", endedAt: at });
  },
  answer_asked(told, { callId, tool, from, at }) {
    const reason = from === "person" ? "a person answers it" : "whoever started the run answers it";
    told.steps.push({ kind: "answer", callId, tool, attempt: 1, outcome: "open", startedAt: at, reason });
  },
  answered(told, { callId, by, at }) {
    close(told, callId, "answer", { outcome: "ok", by, endedAt: at });
  },
  answer_expired(told, { callId, at }) {
    close(told, callId, "answer", { outcome: "expired", endedAt: at });
  },
  child_started(told, { callId, tool, childId, at }) {
    const attempt = attemptOf(told, callId);
    told.steps.push({ kind: "tool", callId, tool, attempt, outcome: "open", startedAt: at, childId });
  },
  child_lost(told, { callId, at }) {
    close(told, callId, "tool", { outcome: "lost", endedAt: at });
  },
};

const refusals = { output: "The answer does not fit the output.", verify: "The answer did not pass its check." };

/** What is executed ends its step; what was never begun settles what it waited for. */
function toolFinished(told: Told, entry: EntryOf<"tool_finished">): void {
  const { callId, outcome, at } = entry;
  const asked = told.steps.findLast((step) => step.callId === callId && askedKinds.has(step.kind));
  if (!asked || (asked.kind === "approval" && asked.outcome === "ok")) closeTool(told, entry, { outcome });
  // An answer or a refusal was told with its reason already.
  else if (asked.outcome === "open") Object.assign(asked, { outcome, endedAt: at });
}

const askedKinds: ReadonlySet<Kind> = new Set<Kind>(["approval", "answer"]);

type Closed = Pick<StepView, "outcome" | "error" | "nextAt">;

/** Of tools that may run again no start is committed: their end is all that is known. */
function closeTool(told: Told, entry: EntryOf<"tool_finished" | "tool_failed" | "tool_lost">, closed: Closed): void {
  const { callId, tool, attempt } = entry;
  const begun = openOf(told, callId, "tool");
  const ended = { ...closed, ...timesOf(entry) };
  if (begun) Object.assign(begun, ended);
  else told.steps.push({ kind: "tool", callId, tool, attempt, ...ended });
}

function close(told: Told, callId: string, kind: Kind, closed: Partial<StepView>): void {
  const asked = openOf(told, callId, kind);
  if (asked) Object.assign(asked, closed);
}

function openOf({ steps }: Told, callId: string, kind: Kind): StepView | undefined {
  return steps.findLast((step) => step.callId === callId && step.kind === kind && step.outcome === "open");
}

function attemptOf({ attempts }: Told, key: string): number {
  return attempts.get(key) ?? 1;
}

/** The step that was held or crashed; which task it had is not told. */
function befallen(told: Told, callId: string | undefined): Pick<StepView, "kind" | "callId" | "attempt"> {
  if (callId !== undefined) return { kind: "tool", callId, attempt: attemptOf(told, callId) };
  const kind = told.isAnswered ? "verify" : "model";
  return { kind, attempt: attemptOf(told, kind) };
}

type Ended = { at: number; ms?: [number, number] | undefined; deliveries?: number | undefined };

function timesOf({ at, ms, deliveries }: Ended): Partial<StepView> {
  return {
    endedAt: at,
    ...(ms === undefined ? {} : { queueWaitMs: ms[0], performMs: ms[1] }),
    ...(deliveries === undefined ? {} : { deliveries }),
  };
}

/** What is owed and has left no trace yet. */
function addOwed(told: Told, turn: number, { turns, model, calls }: Run): void {
  if (model && turn === (model.task === "verify" ? turns : turns + 1)) {
    const { task: kind = "model", attempt, notBefore, hold } = model;
    told.steps.push({ kind, attempt, outcome: "open", ...owedFields(notBefore, hold?.detail) });
  }
  for (const call of calls) if (call.turn === turn) told.steps.push(...owedOf(call));
}

function owedOf(call: OpenCall): StepView[] {
  const { callId, tool, attempt } = call;
  const step = { kind: "tool" as const, callId, tool, attempt, outcome: "open" as const };
  // What a child is at work on began with it.
  if (call.child?.since !== undefined) return [];
  if (call.state === "ready") return [{ ...step, ...owedFields(call.notBefore, call.hold?.detail) }];
  if (call.state !== "lost") return [];
  return [{ ...step, ...owedFields(call.timeoutAt, "its worker was lost, its result may still come") }];
}

function owedFields(nextAt: number | undefined, reason: string | undefined): Partial<StepView> {
  return { ...(nextAt === undefined ? {} : { nextAt }), ...(reason === undefined ? {} : { reason }) };
}
