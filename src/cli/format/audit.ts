import type { AuditEntry } from "../../core/audit.ts";
import { toOneLine } from "./text.ts";

/** Who did what to a run, as a table: head and rows. */
export function toAuditTable(entries: readonly AuditEntry[]): [string[], string[][]] {
  const rows = entries.map(({ at, by, action, callId = "", tool = "", argumentsHash = "", reason = "" }) => [
    new Date(at).toISOString(),
    toOneLine(by, 40),
    action,
    callId,
    toOneLine(tool, 64),
    argumentsHash,
    toOneLine(reason, 100),
  ]);
  return [["at", "by", "action", "call", "tool", "arguments", "reason"], rows];
}
