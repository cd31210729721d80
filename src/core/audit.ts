// Who did what to a run (features H22), derived from its feed, which is append-only: nobody can change it afterwards.

import type { FeedEntry } from "./event.ts";

/** What Drover did by itself is by this name. */
const ourselves = "drover";

/**
 * One act. `by`: a person's or a program's name as they gave it; "drover" for what nobody ordered.
 * - `ruled`: a policy decided something about a call other than whether it asks;
 * - `asked`: a call waits for a person, or for its caller; `reason` says why; - `described`: a dry run told of a call and did not make it.
 */
export type AuditEntry = {
  at: number;
  by: string;
  action:
    | "started"
    | "rejected"
    | "sent_input"
    | "ruled"
    | "asked"
    | "approved"
    | "denied"
    | "answered"
    | "expired"
    | "described"
    | "cancelled"
    | "paused"
    | "resumed"
    | "retried";
  callId?: string | undefined;
  tool?: string | undefined;
  argumentsHash?: string | undefined;
  reason?: string | undefined;
};

/** The acts among the entries of a run's feed, in order. */
export function auditOf(entries: readonly FeedEntry[]): AuditEntry[] {
  return entries.flatMap((entry) => toAct(entry) ?? []);
}

function toAct(entry: FeedEntry): AuditEntry | undefined {
  const { at } = entry;
  switch (entry.type) {
    case "run_created":
      return { at, by: entry.by ?? "unknown", action: "started" };
    case "run_rejected":
      return { at, by: ourselves, action: "rejected", reason: entry.error.message };
    case "input_received":
      return { at, by: entry.by ?? "unknown", action: "sent_input" };
    case "run_retried":
      return { at, by: entry.by, action: "retried" };
    case "run_paused":
      return { at, by: entry.by, action: "paused", reason: entry.reason };
    case "run_resumed":
      return { at, by: entry.by, action: "resumed" };
    case "run_ended":
      if (entry.by === undefined) return undefined;
      return { at, by: entry.by, action: "cancelled", reason: entry.error?.message };
    default:
      return toActOnCall(entry);
  }
}

function toActOnCall(entry: FeedEntry): AuditEntry | undefined {
  switch (entry.type) {
    case "policy_applied":
      return { ...placeOf(entry), by: ourselves, action: "ruled", reason: entry.policy };
    case "approval_asked":
      return { ...placeOf(entry), by: ourselves, action: "asked", reason: entry.reason ?? entry.why };
    case "approved":
      return { ...placeOf(entry), by: entry.by, action: "approved" };
    case "denied":
      return { ...placeOf(entry), by: entry.by, action: "denied", reason: entry.reason };
    case "approval_expired":
      return { ...placeOf(entry), by: ourselves, action: "expired" };
    case "answer_asked":
      return { ...placeOf(entry), by: ourselves, action: "asked", reason: whoAnswers[entry.from] };
    case "answered":
      return { ...placeOf(entry), by: entry.by, action: "answered" };
    case "answer_expired":
      return { ...placeOf(entry), by: ourselves, action: "expired" };
    case "tool_described":
      return { ...placeOf(entry), by: ourselves, action: "described" };
    default:
      return undefined;
  }
}

const whoAnswers = { person: "a person answers it", caller: "its caller executes it" };

type Place = Pick<AuditEntry, "at" | "callId" | "tool" | "argumentsHash">;

function placeOf(entry: { at: number; callId: string; tool: string; argumentsHash?: string | undefined }): Place {
  const { at, callId, tool, argumentsHash } = entry;
  return { at, callId, tool, ...(argumentsHash === undefined ? {} : { argumentsHash }) };
}
