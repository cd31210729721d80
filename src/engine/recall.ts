import type { Change } from "../core/change.ts";
import type { Message, ToolMessage } from "../core/message.ts";
import { isEnded, type Run } from "../core/run.ts";
import type { RunStore } from "../ports.ts";

/** A run as this process last wrote or read it. It may be stale. */
export type Recalled = { run: Run; messages: readonly Message[] };

/**
 * What this process knows of runs it works on, so that the usual step needs no read: it was made owed by a commit of
 * this very process. Whoever acts on it must be able to bear that it is stale: every change is compared and set.
 */
export type Recall = {
  /** The store, with what passes through it remembered. */
  store: RunStore;
  get(runId: string): Recalled | undefined;
  /** Null: everything. */
  forget(runId: string | null): void;
};

type Known = { run: Run; messages: Message[]; results: Map<string, ToolMessage>; size: number };

/** About how many characters of transcripts are kept; the runs used last are. */
const keptCharacters = 32 * 1024 * 1024;

export function createRecall(store: RunStore, limit: number = keptCharacters): Recall {
  const runs = new Map<string, Known>();
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

  function keep(runId: string, known: Known): void {
    forget(runId);
    runs.set(runId, known);
    total += known.size;
    trim();
  }

  function trim(): void {
    for (const oldest of runs.keys()) {
      if (total <= limit) return;
      forget(oldest);
    }
  }

  function onCommit({ previous, run, append, results }: Change): void {
    const { runId } = run;
    const known = runs.get(runId);
    if (known?.run.token !== previous.token || isEnded(run)) return forget(runId);
    for (const result of results) known.results.set(result.callId, result);
    for (const item of append) {
      const message = item.type === "message" ? item.message : known.results.get(item.callId);
      // A result that another process committed is in the store alone.
      if (!message) return forget(runId);
      if (item.type === "result") known.results.delete(item.callId);
      known.messages.push(message);
      total += sizeOf(message);
      known.size += sizeOf(message);
    }
    known.run = run;
    // The runs used last come last.
    runs.delete(runId);
    runs.set(runId, known);
    trim();
  }

  return {
    get: (runId) => runs.get(runId),
    forget,
    store: {
      ...store,
      async create(run, messages, entries) {
        const result = await store.create(run, messages, entries);
        forget(run.runId);
        return result;
      },
      async loadWithMessages(runId) {
        const loaded = await store.loadWithMessages(runId);
        // Early results of a turn in progress are not read here.
        if (!loaded || loaded.run.calls.length > 0) forget(runId);
        else {
          const messages = [...loaded.messages];
          const size = messages.reduce((sum, message) => sum + sizeOf(message), overhead);
          keep(runId, { run: loaded.run, messages, results: new Map(), size });
        }
        return loaded;
      },
      async commit(change) {
        const result = await store.commit(change);
        if (result.committed) onCommit(change);
        else forget(change.run.runId);
        return result;
      },
    },
  };
}

const overhead = 1_000;

/** About how many characters a message holds. */
function sizeOf(message: Message): number {
  const { content } = message;
  const text = typeof content === "string" ? content.length : content === null ? 0 : JSON.stringify(content).length;
  if (message.role !== "assistant" || !message.toolCalls) return text + overhead / 10;
  return message.toolCalls.reduce((sum, call) => sum + call.arguments.length + overhead / 10, text);
}
