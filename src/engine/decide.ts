import type { Command } from "../core/command.ts";
import { DroverError } from "../core/errors.ts";
import type { FeedEntry } from "../core/event.ts";
import type { OpenCall } from "../core/run.ts";
import type { RunStore } from "../ports.ts";
import type { Client } from "./client.ts";

export type Decided = Extract<Command, { type: "approved" | "denied" }>;
type Answer = Extract<FeedEntry, { type: "approved" | "denied" | "approval_expired" }>;

/**
 * Applies a person's decision. One that was made before by the same person is no error: the command was sent again.
 *
 * @throws DroverError "not_allowed" saying what stands against it: other arguments, an expiry, somebody's decision.
 */
export async function decideOn(
  { client, store }: { client: Client; store: RunStore },
  runId: string,
  event: Decided,
): Promise<void> {
  const { run, applied } = await client.command(runId, event);
  if (applied) return;
  const waiting = run.calls.filter((call) => call.state === "approval" || call.state === "asking");
  const call = waiting.find(({ callId }) => callId === event.callId);
  if (call && event.decisionId !== undefined && event.decisionId === call.decision?.id) return;
  const given = call ? undefined : await lastAnswer(store, runId, event.callId);
  if (given && isSame(given, event)) return;
  const why = call ? whyNot(call, event) : given ? whatStands(given, event) : nobodyAsked(waiting);
  throw new DroverError("not_allowed", `${event.callId} of run "${runId}" was not ${event.type}: ${why}`);
}

/** A call that waits refuses a decision on other arguments, and any that comes too late. */
function whyNot(call: OpenCall, event: Decided): string {
  const recorded = call.question?.argumentsHash;
  if (event.type === "approved" && event.argumentsHash !== undefined && event.argumentsHash !== recorded) {
    const waits = recorded === undefined ? "none was recorded when it was asked about" : `it waits with ${recorded}`;
    return `the decision is about arguments with the hash ${event.argumentsHash}, ${waits}. Look at the call again.`;
  }
  const at = call.state === "approval" ? toTime(call.expiresAt ?? call.askedAt) : "";
  return `nobody decided before ${at}, when it expired. It counts as denied and was not executed.`;
}

function whatStands(given: Answer, event: Decided): string {
  const at = toTime(given.at);
  if (given.type === "approval_expired") {
    return `it expired at ${at}, before anybody decided. It counts as denied and was not executed.`;
  }
  if (given.type === event.type && given.by === event.by) {
    return `${given.by} ${given.type} it at ${at} with arguments of the hash ${given.argumentsHash}, not of another.`;
  }
  const reason = given.type === "denied" ? ` (${given.reason})` : "";
  return `${given.by} ${given.type} it already, at ${at}${reason}. That decision stands.`;
}

function nobodyAsked(waiting: readonly OpenCall[]): string {
  const which = waiting.length > 0 ? `Waiting are: ${waiting.map((call) => call.callId).join(", ")}.` : "No call is.";
  return `it does not wait for a person. ${which}`;
}

/** Whether this is the decision that was made, sent once more. */
function isSame(given: Answer, event: Decided): boolean {
  if (given.type !== event.type || given.by !== event.by) return false;
  const hash = event.type === "approved" ? event.argumentsHash : undefined;
  return hash === undefined || hash === given.argumentsHash;
}

/** How the last question about a call was answered, if it was. */
async function lastAnswer(store: RunStore, runId: string, callId: string): Promise<Answer | undefined> {
  const entries = await readWholeFeed(store, runId);
  return entries.findLast(
    (entry): entry is Answer =>
      (entry.type === "approved" || entry.type === "denied" || entry.type === "approval_expired") &&
      entry.callId === callId,
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
