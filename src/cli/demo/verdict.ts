import { existsSync } from "node:fs";
import type { Message } from "../../core/message.ts";
import type { RunResult } from "../../engine/run-handle.ts";
import type { Kill } from "./director.ts";
import type { LedgerEntry } from "./ledger.ts";

/** What a demo ended with. */
export type Ending = {
  result: RunResult;
  transcript: Message[];
  ledger: LedgerEntry[];
  kill: Kill | undefined;
  /** The file the run was to write. */
  file: string;
};

/** Everything about a demo that is not as it should be, in words. Empty: all was right. */
export function findFaults({ result, transcript, ledger, kill, file }: Ending): string[] {
  const results = transcript.filter((message) => message.role === "tool");
  const asked = transcript.flatMap((message) => (message.role === "assistant" ? (message.toolCalls ?? []) : []));
  const ok = results.filter((message) => message.outcome === "ok").length;
  return [
    ...(result.status === "completed" ? [] : [`the run is ${result.status}: ${result.error?.message ?? ""}`]),
    ...(kill === undefined ? ["no worker was killed: the model called no tool in its second turn"] : []),
    ...(kill && kill.rescuer === undefined ? ["no other worker took up the step"] : []),
    ...(asked.length === results.length ? [] : [`${asked.length} calls have ${results.length} results`]),
    ...[...countByKey(ledger)].flatMap(([key, times]) =>
      times === 1 ? [] : [`effect ${key} happened ${times} times`],
    ),
    ...(ledger.length === ok ? [] : [`${ok} calls succeeded and ${ledger.length} effects took place`]),
    ...(existsSync(file) ? [] : [`${file} was not written`]),
  ];
}

function countByKey(ledger: LedgerEntry[]): Map<string, number> {
  const counts = new Map<string, number>();
  for (const { key } of ledger) counts.set(key, (counts.get(key) ?? 0) + 1);
  return counts;
}

/** `calculator 4, write_file 1`. */
export function toEffectCounts(ledger: LedgerEntry[]): string {
  const byTool = Map.groupBy(ledger, (entry) => entry.tool);
  return [...byTool].map(([tool, entries]) => `${tool} ${entries.length}`).join(", ");
}
