import { feedEntryBytes, messageBytes } from "./bytes.ts";
import type { EventMeta, FeedEntry, StepTimes } from "./event.ts";
import type { Message, ToolMessage } from "./message.ts";
import { dueAt } from "./owed.ts";
import { type CallBase, isEnded, type OpenCall, type Run, type RunError, type StopReason } from "./run.ts";
import { waitsForSession } from "./session.ts";

/** What one commit adds to the transcript, in order: a new message, or an early result moved out of the hash. */
export type Appended = { type: "message"; message: Message } | { type: "result"; callId: string };

/** The outcome of one transition; a store commits it whole or not at all. */
export type Change = {
  previous: Run;
  /** The next head: revision one higher, token the one given. */
  run: Run;
  append: Appended[];
  /** Early results to keep until the last call of the turn is settled. */
  results: ToolMessage[];
  entries: FeedEntry[];
};

/** Distributes over the union, so that each kind of entry keeps its own fields. */
type WithoutPlace<T> = T extends FeedEntry ? Omit<T, "seq" | "at" | "turn"> : never;

/** A change in the making. Mutable inside one transition, never seen outside it. */
export type Draft = {
  readonly previous: Run;
  readonly meta: EventMeta;
  readonly run: Run;
  readonly append: Appended[];
  readonly results: ToolMessage[];
  readonly entries: FeedEntry[];
};

export function makeDraft(previous: Run, meta: EventMeta): Draft {
  const run = { ...previous, revision: previous.revision + 1, token: meta.token, updatedAt: meta.at };
  return { previous, meta, run, append: [], results: [], entries: [] };
}

export function log(draft: Draft, entry: WithoutPlace<FeedEntry>): void {
  draft.run.eventSeq += 1;
  draft.entries.push({ seq: draft.run.eventSeq, at: draft.meta.at, turn: draft.run.turns, ...entry } as FeedEntry);
  hold(draft.run, feedEntryBytes(entry));
}

/** Counts what a run keeps from now on. */
export function hold(run: Run, bytes: number): void {
  run.bytes = (run.bytes ?? 0) + bytes;
}

/** Whether these may be kept as well, by what was said that the run may hold. */
export function hasRoom(run: Run, messages: readonly Message[], maxBytes: number | undefined): boolean {
  if (maxBytes === undefined) return true;
  return messages.reduce((sum, message) => sum + messageBytes(message), run.bytes ?? 0) <= maxBytes;
}

/** Appends something new to the transcript and returns the message's index. */
export function append(draft: Draft, message: Message): number {
  hold(draft.run, messageBytes(message));
  return place(draft, message);
}

/** Appends what the run has kept, and counted, before. */
function place(draft: Draft, message: Message): number {
  draft.append.push({ type: "message", message });
  draft.run.messageCount += 1;
  return draft.run.messageCount - 1;
}

export function replaceCall(draft: Draft, call: OpenCall): void {
  draft.run.calls = draft.run.calls.map((other) => (other.callId === call.callId ? call : other));
}

/** What of a call stays the same in its next state; counts of crashes and of isolated starts begin anew. */
export function baseOf(call: OpenCall): CallBase {
  const { callId, toolCallId, turn, position, tool, effect, repeatable, onUnknown, timeoutMs } = call;
  const { queue, question, decision, approvalIds, child, attempt, owedAt } = call;
  return {
    ...{ callId, toolCallId, turn, position, tool, effect, repeatable, onUnknown, timeoutMs },
    ...(queue ? { queue } : {}),
    ...(question ? { question } : {}),
    ...(decision ? { decision } : {}),
    ...(approvalIds ? { approvalIds } : {}),
    ...(child ? { child } : {}),
    attempt,
    owedAt,
  };
}

/** Settles one open call with its only result. Its message is appended when the last call of the turn is settled. */
export function settle(
  draft: Draft,
  call: OpenCall,
  result: Pick<ToolMessage, "content" | "outcome" | "described" | "full" | "answered">,
  times?: StepTimes,
): void {
  const { callId, toolCallId, position, tool, attempt, decision } = call;
  const kept: ToolMessage = { role: "tool", callId, toolCallId, name: tool, ...result };
  if (decision) kept.decision = decision;
  draft.results.push(kept);
  hold(draft.run, messageBytes(kept));
  const { question: _question, decision: _decision, approvalIds: _ids, child: _child, ...base } = baseOf(call);
  replaceCall(draft, { ...base, state: "settled" });
  // While calls are open the transcript ends with the message that made them.
  const message = draft.run.messageCount + position - 1;
  log(draft, { type: "tool_finished", callId, tool, attempt, outcome: result.outcome, message, ...times });
}

/** Closes the turn once every call is settled: results in call order, then waiting input, then the next model step. */
export function joinIfSettled(draft: Draft): void {
  const { run } = draft;
  if (run.calls.length === 0 || run.calls.some((call) => call.state !== "settled")) return;
  appendResults(draft);
  oweModel(draft);
}

function appendResults(draft: Draft): void {
  const from = draft.run.messageCount;
  for (const call of draft.run.calls) {
    const at = draft.results.findIndex((result) => result.callId === call.callId);
    const own = at >= 0 ? draft.results.splice(at, 1)[0] : undefined;
    if (own) place(draft, own);
    else {
      draft.append.push({ type: "result", callId: call.callId });
      draft.run.messageCount += 1;
    }
  }
  draft.run.calls = [];
  log(draft, { type: "messages_appended", messages: [from, draft.run.messageCount] });
}

/** Takes waiting input into the transcript and owes the next model answer. */
export function oweModel(draft: Draft): void {
  const { run } = draft;
  if (run.pendingInput.length > 0) {
    const from = run.messageCount;
    for (const message of run.pendingInput) place(draft, message);
    run.pendingInput = [];
    log(draft, { type: "messages_appended", messages: [from, run.messageCount] });
  }
  run.model = { attempt: 1, owedAt: run.revision };
}

export type Ending = {
  status: "completed" | "failed" | "cancelled";
  stopReason: StopReason;
  error?: RunError | undefined;
  by?: string | undefined;
};

/** Ends the run. Open calls are settled, so that the transcript stays valid and the run can be taken up again. */
export function endRun(draft: Draft, ending: Ending): void {
  const { run } = draft;
  const why = ending.by ? `the run was cancelled by ${ending.by}` : `the run ended (${ending.stopReason})`;
  leaveChildren(run);
  for (const call of run.calls) {
    if (call.state === "settled") continue;
    const begun = call.state === "started" || call.state === "lost" || call.state === "asking";
    settle(
      draft,
      call,
      begun
        ? { outcome: "unknown", content: `Outcome unknown: ${why} while "${call.tool}" was being executed.` }
        : {
            outcome: "cancelled",
            content: `${notDone(call)}: ${why} first.`,
          },
    );
  }
  if (run.calls.length > 0) appendResults(draft);
  run.unchecked = run.model?.task === "verify" || undefined;
  run.model = undefined;
  run.paused = undefined;
  if (run.parent) run.parent = { ...run.parent, owedAt: run.revision };
  if (run.place) run.place = { state: "leaving", round: run.place.round, owedAt: run.revision };
  run.status = ending.status;
  run.stopReason = ending.stopReason;
  run.error = ending.error;
  run.endedAt = draft.meta.at;
  log(draft, { type: "run_ended", ...ending });
}

function notDone({ state, child }: OpenCall): string {
  if (state === "answer") return "Not answered";
  return child?.since === undefined ? "Not executed" : `Not finished by run ${child.runId}, which is ended too`;
}

/** The run whose result a call waits for, if there may be one. A call that is ready may be starting it just now. */
function childLeftBy({ state, child }: OpenCall): string[] {
  return child !== undefined && (state === "ready" || state === "child") ? [child.runId] : [];
}

/** Owes the end of every child that a call still waits for (K3). */
function leaveChildren(run: Run): void {
  const left = run.calls.flatMap(childLeftBy);
  if (left.length === 0) return;
  run.leftChildren = { runIds: [...(run.leftChildren?.runIds ?? []), ...left], owedAt: run.revision };
}

/** A step due within this time counts as running; a longer wait shows as waiting. */
const waitingAfterMs = 5_000;

/** Derives what only follows from the rest: the status and the name of the wake step. */
export function finish(draft: Draft): Change {
  const { previous, run, append: appended, results, entries, meta } = draft;
  if (!isEnded(run)) run.status = statusOf(run, meta.at);
  if (dueAt(run) !== dueAt(previous)) run.wakeOwedAt = run.revision;
  return { previous, run, append: appended, results, entries };
}

function statusOf(run: Run, at: number): Run["status"] {
  if (run.paused) return "paused";
  if (waitsForSession(run)) return "queued";
  const soon = ({ hold, notBefore = 0 }: { hold?: unknown; notBefore?: number | undefined }): boolean =>
    !hold && notBefore <= at + waitingAfterMs;
  const goesOn =
    (run.model && soon(run.model)) ||
    run.calls.some((call) => call.state === "started" || (call.state === "ready" && soon(call)));
  if (!goesOn) return "waiting";
  return run.startedAt === undefined ? "queued" : "running";
}
