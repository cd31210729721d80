import type { AgentDefinition } from "../core/agent.ts";
import type { Change } from "../core/change.ts";
import { DroverError } from "../core/errors.ts";
import type { FeedEntry } from "../core/event.ts";
import type { ToolMessage } from "../core/message.ts";
import { isEnded, minReader, type Run, schemaVersion } from "../core/run.ts";
import type { Clock, CommitResult, LiveDelta, RunStore } from "../ports.ts";
import { createMemoryListing } from "./memory-listing.ts";
import { createMemoryRetention } from "./memory-retention.ts";
import { copy, createMemorySessions, type MemorySessions } from "./memory-sessions.ts";
import type { MemorySignals } from "./memory-signals.ts";

export type MemoryRunStoreOptions = {
  /** Judges when live text is dropped; without one it is kept. */
  clock?: Clock | undefined;
  /** Told of every commit and of live text. */
  signals?: MemorySignals | undefined;
};

type Stored = {
  run: Run;
  results: Map<string, ToolMessage>;
  feed: FeedEntry[];
  live: LiveDelta[];
};

const liveAfterEndMs = 600_000;

/** Runs in the memory of this process, with the guarantees of `RunStore`. What goes in or out is copied. */
export function createMemoryRunStore(options: MemoryRunStoreOptions = {}): RunStore {
  const records = new Map<string, Stored>();
  const sessions = createMemorySessions(records);
  const shared = createShared(options.clock);

  const runs = (): Run[] => [...records.values()].map(({ run }) => run);
  const load = (runId: string): Run | null => {
    const stored = records.get(runId);
    return stored ? copyRun(stored.run) : null;
  };

  async function remove(run: Run): Promise<boolean> {
    const stored = records.get(run.runId)?.run;
    if (stored && (stored.revision !== run.revision || stored.token !== run.token)) return false;
    records.delete(run.runId);
    sessions.forget(run);
    await shared.dropOutputs(run.runId, "");
    return true;
  }

  return {
    async create(run, messages, entries) {
      const held = records.get(run.runId)?.run;
      if (held?.token === run.token) return { created: true };
      if (held && held.status !== "rejected") return { created: false, run: copyRun(held) };
      const content = { feed: copy(entries), results: new Map(), live: [] };
      records.set(run.runId, { run: copy(run), ...content });
      sessions.transcripts.set(run.runId, copy(messages));
      sessions.move(null, run);
      options.signals?.notifyRun(run.runId, isEnded(run));
      await shared.dropOutputs(run.runId, "");
      return { created: true };
    },
    load: async (runId) => load(runId),
    async loadWithMessages(runId) {
      const run = load(runId);
      return run && { run, messages: sessions.messagesOf(run) };
    },
    async loadWithLastMessage(runId) {
      const run = load(runId);
      return run && { run, last: sessions.messagesOf(run).at(-1) };
    },
    async commit(change) {
      const stored = records.get(change.run.runId);
      if (!stored) return { committed: false, run: null };
      const result = commitTo(stored, change, sessions);
      if (result.committed) options.signals?.notifyRun(change.run.runId, isEnded(change.run));
      return result;
    },
    ...createReaders(records, options.clock),
    ...sessions.readers,
    async publishLive(runId, deltas) {
      records.get(runId)?.live.push(...copy(deltas));
      options.signals?.notifyRun(runId);
    },
    ...shared,
    ...createMemoryListing(runs),
    ...createMemoryRetention({ runs, remove, sessions, clock: options.clock }),
  };
}

/** What is read and written by a name alone. */
function createShared(
  clock: Clock | undefined,
): Pick<
  RunStore,
  "tryLease" | "putDefinition" | "getDefinition" | "removeDefinitions" | "putOutput" | "readOutput" | "dropOutputs"
> {
  const leases = new Map<string, { until: number; holder: string | undefined }>();
  const outputs = new Map<string, string>();
  const definitions = new Map<string, { definition: AgentDefinition; putAt: number }>();
  return {
    async tryLease(name, ms, holder) {
      const now = clock?.now() ?? 0;
      const held = leases.get(name);
      if (held && held.until > now && (holder === undefined || held.holder !== holder)) return false;
      leases.set(name, { until: now + ms, holder });
      return true;
    },
    async putDefinition(hash, definition) {
      const kept = definitions.get(hash)?.definition ?? copy(definition);
      definitions.set(hash, { definition: kept, putAt: clock?.now() ?? 0 });
    },
    getDefinition: async (hash) => copy(definitions.get(hash)?.definition ?? null),
    async removeDefinitions(before, limit) {
      const due = [...definitions].filter(([, { putAt }]) => putAt < before).slice(0, limit);
      for (const [hash] of due) definitions.delete(hash);
      return due.length;
    },
    async putOutput(runId, ref, text) {
      outputs.set(`${runId} ${ref}`, text);
    },
    readOutput: async (runId, ref, from, to) =>
      outputs.get(`${runId} ${ref}`)?.slice(Math.max(0, from), Math.max(0, to)),
    async dropOutputs(runId, beginning, except) {
      for (const name of outputs.keys()) {
        if (name.startsWith(`${runId} ${beginning}`) && name !== `${runId} ${except}`) outputs.delete(name);
      }
    },
  };
}

function commitTo(stored: Stored, change: Change, sessions: MemorySessions): CommitResult {
  const { previous, run } = change;
  if (stored.run.token === run.token) return { committed: true };
  if (stored.run.revision !== previous.revision || stored.run.token !== previous.token) {
    return { committed: false, run: copyRun(stored.run) };
  }
  const appended = change.append.map((item) => {
    const message = item.type === "message" ? item.message : stored.results.get(item.callId);
    if (!message) throw new DroverError("invalid", `The stored record of run ${run.runId} is damaged (no result).`);
    return message;
  });
  for (const result of change.results) stored.results.set(result.callId, copy(result));
  for (const item of change.append) if (item.type === "result") stored.results.delete(item.callId);
  sessions.append(change, copy(appended));
  sessions.move(previous, run);
  stored.feed.push(...copy(change.entries));
  stored.run = copy(run);
  return { committed: true };
}

type Readers = Pick<RunStore, "readResults" | "readFeed" | "readLive">;

function createReaders(records: Map<string, Stored>, clock: Clock | undefined): Readers {
  return {
    readResults: async (runId) => copy(Object.fromEntries(records.get(runId)?.results ?? [])),
    async readFeed(runId, after, limit) {
      const feed = records.get(runId)?.feed.filter((entry) => entry.seq > after) ?? [];
      return copy(feed.slice(0, Math.max(0, Math.min(limit, maxPage))));
    },
    async readLive(runId, from) {
      if (!/^\d+$/.test(from)) throw new DroverError("invalid", `"${from}" is no position in live text. Use 0.`);
      const stored = records.get(runId);
      if (!stored) return { deltas: [], next: from };
      dropLive(stored, clock);
      return {
        deltas: copy(stored.live.slice(Number(from))),
        next: String(Math.max(Number(from), stored.live.length)),
      };
    },
  };
}

function dropLive(stored: Stored, clock: Clock | undefined): void {
  const { endedAt } = stored.run;
  if (endedAt !== undefined && clock && clock.now() >= endedAt + liveAfterEndMs) stored.live = [];
}

const maxPage = 1_000;

function copyRun(run: Run): Run {
  if (run.minReader <= schemaVersion) return copy(run);
  throw new DroverError(
    "unsupported",
    `Run ${run.runId} was written by a newer version of Drover (needs reader ${run.minReader}, this writes for ${minReader}).`,
  );
}
