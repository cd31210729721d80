import { isCut, type Message, type ToolMessage } from "../core/message.ts";
import type { Run } from "../core/run.ts";
import type { Reminders } from "../core/window-plan.ts";
import type { Rendering } from "../core/window-render.ts";

/** What the next window of the same transcript can go on from, while this process remembers the run. */
export type WindowMemo = { reminders?: Reminders; rendering?: Rendering };

/**
 * A run as last written or read, its transcript with the provider's ids of its calls and whether a result in it was cut, and
 * the results that wait for the
 * others of their turn. `memo`: of its last window.
 */
export type KnownRun = {
  run: Run;
  messages: Message[];
  usedIds: Set<string>;
  hasCut: boolean;
  results: Map<string, ToolMessage>;
  memo: WindowMemo;
  size: number;
};

/** Adds a message to what is known. */
export function addMessage(known: KnownRun, message: Message): void {
  known.messages.push(message);
  known.size += sizeOf(message);
  if (isCut(message)) known.hasCut = true;
  if (message.role === "assistant") for (const call of message.toolCalls ?? []) known.usedIds.add(call.id);
}

/** The runs used last, up to about so many characters of transcript. */
export type KnownRuns = {
  get(runId: string): KnownRun | undefined;
  /** Puts a run last in line; `size` may have grown since. */
  keep(runId: string, known: KnownRun): void;
  /** Null: everything. */
  forget(runId: string | null): void;
};

export function createKnownRuns(limit: number): KnownRuns {
  const runs = new Map<string, { known: KnownRun; size: number }>();
  let total = 0;

  function forget(runId: string | null): void {
    if (runId === null) {
      runs.clear();
      total = 0;
      return;
    }
    total -= runs.get(runId)?.size ?? 0;
    runs.delete(runId);
  }

  return {
    get: (runId) => runs.get(runId)?.known,
    keep(runId, known) {
      forget(runId);
      runs.set(runId, { known, size: known.size });
      total += known.size;
      for (const oldest of runs.keys()) {
        if (total <= limit) return;
        forget(oldest);
      }
    },
    forget,
  };
}

/** What a run costs beside its text, and a message beside its own. */
export const runOverhead = 1_000;
const messageOverhead = 100;

/** About how many characters a message holds. */
function sizeOf(message: Message): number {
  const { content } = message;
  const said = typeof content === "string" ? content.length : content === null ? 0 : JSON.stringify(content).length;
  const text = said + (message.role === "tool" ? (message.full?.middle?.length ?? 0) : 0);
  if (message.role !== "assistant" || !message.toolCalls) return text + messageOverhead;
  return message.toolCalls.reduce((sum, call) => sum + call.arguments.length + messageOverhead, text);
}
