import type { Change } from "../core/change.ts";
import { isEnded, type Run } from "../core/run.ts";
import type { RunStore } from "../ports.ts";
import { addMessage, createKnownRuns, type KnownRun, type KnownRuns, runOverhead } from "./known-runs.ts";

/**
 * What this process knows of runs it works on, so that the usual step needs no read: it was made owed by a commit of
 * this very process. Whoever acts on it must be able to bear that it is stale: every change is compared and set.
 */
export type Recall = {
  /** The store, with what passes through it remembered. */
  store: RunStore;
  get(runId: string): Readonly<KnownRun> | undefined;
  /** Null: everything. */
  forget(runId: string | null): void;
};

const defaultLimit = 32 * 1024 * 1024;

/** @param limit about how many characters of transcripts are kept; the runs used last are. */
export function createRecall(store: RunStore, limit: number = defaultLimit): Recall {
  const known = createKnownRuns(limit);
  return {
    get: known.get,
    forget: known.forget,
    store: {
      ...store,
      async create(run, messages, entries) {
        known.forget(run.runId);
        return store.create(run, messages, entries);
      },
      async loadWithMessages(runId) {
        const loaded = await store.loadWithMessages(runId);
        // Early results of a turn in progress are not read here.
        if (!loaded || loaded.run.calls.length > 0) known.forget(runId);
        else {
          const own: KnownRun = {
            run: loaded.run,
            messages: [],
            usedIds: new Set(),
            hasCut: false,
            results: new Map(),
            memo: {},
            size: runOverhead + sizeOfTools(loaded.run),
          };
          for (const message of loaded.messages) addMessage(own, message);
          known.keep(runId, own);
        }
        return loaded;
      },
      async commit(change) {
        const result = await store.commit(change);
        if (!result.committed || !learn(known, change)) known.forget(change.run.runId);
        return result;
      },
    },
  };
}

/** A caller's tools come with every head that is read. */
function sizeOfTools({ tools }: Run): number {
  return tools ? JSON.stringify(tools).length : 0;
}

/** Adds what was committed to what is known. False if that is not enough to go on from. */
function learn(known: KnownRuns, { previous, run, append, results }: Change): boolean {
  const own = known.get(run.runId);
  if (own?.run.token !== previous.token || isEnded(run)) return false;
  // Others have appended to its session's transcript.
  if (own.messages.length !== run.messageCount - append.length) return false;
  for (const result of results) own.results.set(result.callId, result);
  for (const item of append) {
    const message = item.type === "message" ? item.message : own.results.get(item.callId);
    // A result that another process committed is in the store alone.
    if (!message) return false;
    if (item.type === "result") own.results.delete(item.callId);
    addMessage(own, message);
  }
  known.keep(run.runId, { ...own, run });
  return true;
}
