import { canonical } from "../core/canonical.ts";
import type { Command } from "../core/command.ts";
import { DroverError } from "../core/errors.ts";
import type { FeedEntry } from "../core/event.ts";
import { type Redaction, redactEvent } from "../core/redact-event.ts";
import type { OpenCall, Run } from "../core/run.ts";
import { isCheckedFor, isNamedBefore } from "../core/transition-decisions.ts";
import type { RunStore, SchemaCheck } from "../ports.ts";
import type { Client } from "./client.ts";
import { toAnswerContent } from "./given-answer.ts";
import { findResult } from "./read-kept.ts";

export type Decided = Extract<Command, { type: "approved" | "denied" | "answered" }>;
type Given = Extract<FeedEntry, { type: "approved" | "denied" | "answered" | "approval_expired" | "answer_expired" }>;
type Deps = { client: Client; store: RunStore; redaction: Redaction };

/**
 * Applies somebody's word on a call. One that was given before by the same person is no error: the command was sent again.
 *
 * @throws DroverError "not_allowed" saying what stands against it: other arguments, an expiry, somebody's word.
 */
export async function decideOn(deps: Deps, runId: string, event: Decided): Promise<void> {
  const { run, applied } = await deps.client.command(runId, event);
  if (!applied) await explain(deps, run, event);
}

type ToAnswer = { callId: string; value: unknown; by: string; decisionId?: string | undefined };

/** Gives an answer that fits what its call asks for, as of the commit. @throws as `toAnswerContent` and `decideOn` */
export async function answerTo(
  deps: Deps & { checkValue: SchemaCheck },
  runId: string,
  given: ToAnswer,
): Promise<void> {
  const { value, ...rest } = given;
  let seen = await deps.client.load(runId);
  for (;;) {
    const asked = seen.calls.find(({ callId }) => callId === given.callId);
    const content = toAnswerContent(value, asked, deps.checkValue);
    const checkedBy = asked?.state === "answer" ? asked.answerSchema : undefined;
    const event = { type: "answered" as const, ...rest, content, checkedBy };
    const { run, applied } = await deps.client.command(runId, event);
    if (applied) return;
    const call = run.calls.find(({ callId }) => callId === given.callId);
    // What was seen was an older record: the call was made, or is another one, since.
    if (call?.state !== "answer" || isCheckedFor(call, event)) return explain(deps, run, event);
    seen = run;
  }
}

/** Why somebody's word was not taken; nothing if it was before. */
async function explain(deps: Deps, run: Run, event: Decided): Promise<void> {
  const { runId } = run;
  const waiting = run.calls.filter(({ state }) => state === "approval" || state === "asking" || state === "answer");
  const call = waiting.find(({ callId }) => callId === event.callId);
  // A call that still waits was never denied.
  if (call && isNamedBefore(call, event) && event.type === "approved") return;
  const given = call ? undefined : await lastGiven(deps.store, runId, event.callId);
  if (given && (await isSame(deps, run, given, event))) return;
  const why = call ? whyNot(call, event) : given ? whatStands(given, event) : nobodyAsked(waiting, event);
  // It names people, in words of their own.
  const said = deps.redaction.redactor.text(why);
  throw new DroverError("not_allowed", `${event.callId} of run "${runId}" was not ${event.type}: ${said}`);
}

/** A call that waits refuses what it does not wait for, a decision on other arguments, and any that comes too late. */
function whyNot(call: OpenCall, event: Decided): string {
  const recorded = call.question?.argumentsHash;
  if (isNamedBefore(call, event)) return "its decisionId was given to an approval before. Give this one its own.";
  if (call.state === "answer" && event.type === "approved") return "it waits for an answer. Answer it, or deny it.";
  if (call.state !== "answer" && event.type === "answered") return "it waits for a decision. Approve it, or deny it.";
  if (event.type === "approved" && event.argumentsHash !== undefined && event.argumentsHash !== recorded) {
    const waits = recorded === undefined ? "none was recorded when it was asked about" : `it waits with ${recorded}`;
    return `the decision is about arguments with the hash ${event.argumentsHash}, ${waits}. Look at the call again.`;
  }
  return whyLate(call);
}

function whyLate(call: OpenCall): string {
  const at = "expiresAt" in call && call.expiresAt !== undefined ? toTime(call.expiresAt) : "its time";
  if (call.state === "answer") return `nobody answered before ${at}, when it expired. The model is told so.`;
  return `nobody decided before ${at}, when it expired. It counts as denied and was not executed.`;
}

function whatStands(given: Given, event: Decided): string {
  const at = toTime(given.at);
  if (given.type === "approval_expired") {
    return `it expired at ${at}, before anybody decided. It counts as denied and was not executed.`;
  }
  if (given.type === "answer_expired") return `it expired at ${at}, before anybody answered. The model was told so.`;
  if (given.type === "answered") return `${given.by} answered it already, at ${at}. That answer stands.`;
  if (given.type === event.type && given.by === event.by) {
    return `${given.by} ${given.type} it at ${at} with arguments of the hash ${given.argumentsHash}, not of another.`;
  }
  const reason = given.type === "denied" ? ` (${given.reason})` : "";
  return `${given.by} ${given.type} it already, at ${at}${reason}. That decision stands.`;
}

function nobodyAsked(waiting: readonly OpenCall[], { type }: Decided): string {
  const which = waiting.length > 0 ? `Waiting are: ${waiting.map((call) => call.callId).join(", ")}.` : "No call is.";
  return `it does not wait for ${type === "answered" ? "an answer" : "a person"}. ${which}`;
}

/** Whether this is what was said before, sent once more. */
async function isSame(deps: Deps, run: Run, given: Given, event: Decided): Promise<boolean> {
  if (event.type === "answered") return given.type === "answered" && isSameAnswer(deps, run, event);
  if (given.type !== event.type || given.by !== event.by) return false;
  const hash = event.type === "approved" ? event.argumentsHash : undefined;
  return hash === undefined || hash === given.argumentsHash;
}

/** An answer is the same one if the same is said under its id or by the same person. */
async function isSameAnswer({ store, redaction }: Deps, run: Run, event: Answered): Promise<boolean> {
  const { answered, content } = await findResult(store, run, event.callId);
  const isSent = event.decisionId !== undefined && event.decisionId === answered?.id;
  const said = redactEvent(event, redaction) as Answered;
  return (isSent || answered?.by === event.by) && canonical(said.content) === canonical(content);
}
type Answered = Extract<Decided, { type: "answered" }>;

const wordsOn = new Set<FeedEntry["type"]>(["approved", "denied", "answered", "approval_expired", "answer_expired"]);

/** The last word on a call, if there was one. */
async function lastGiven(store: RunStore, runId: string, callId: string): Promise<Given | undefined> {
  const entries = await readWholeFeed(store, runId);
  return entries.findLast(
    (entry): entry is Given => wordsOn.has(entry.type) && "callId" in entry && entry.callId === callId,
  );
}

const toTime = (at: number): string => new Date(at).toISOString();
const feedPage = 500;

/** Every entry of a run's feed, oldest first. */
export async function readWholeFeed(store: RunStore, runId: string): Promise<FeedEntry[]> {
  const entries: FeedEntry[] = [];
  for (;;) {
    const page = await store.readFeed(runId, entries.at(-1)?.seq ?? 0, feedPage);
    entries.push(...page);
    if (page.length < feedPage) return entries;
  }
}
