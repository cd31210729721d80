import { DamagedRecord } from "../core/errors.ts";
import type { Message } from "../core/message.ts";
import type { Run } from "../core/run.ts";
import { transcriptOf } from "../core/session.ts";
import type { RunStore } from "../ports.ts";
import type { RedisConnection } from "./connection.ts";
import type { Keys } from "./keys.ts";
import { type Entry, readEntries, readHeadWithEntries } from "./read.ts";
import { type CachedTranscript, createTranscriptCache, type TranscriptCache } from "./transcript-cache.ts";

export type TranscriptLoader = {
  load: RunStore["loadWithMessages"];
  /** Drops what is remembered of a run's own transcript: it has ended, and is read no more, or as a whole. */
  forget(runId: string): void;
};

/**
 * Loads heads with their transcripts. Of a transcript that was read before only the tail is read, with one entry more:
 * if that does not bear the token it had, the record is another one (lost in a failover, or made anew) and all is read.
 */
export function createTranscriptLoader(connection: RedisConnection, keys: Keys, cacheBytes: number): TranscriptLoader {
  const cache = createTranscriptCache(cacheBytes);

  /** Undefined if what is cached does not hold any more. */
  async function loadTail(runId: string, cached: CachedTranscript): Promise<Loaded | undefined> {
    const { run, entries } = await readHeadWithEntries(connection, keys, runId, [cached.messages.length - 1, -1]);
    if (run && entries[0]?.token === cached.lastToken) return { run, cached, entries: entries.slice(1) };
    cache.delete(runId);
    return undefined;
  }

  const load: TranscriptLoader["load"] = async (runId) => {
    const cached = cache.get(runId);
    const tail = cached && (await loadTail(runId, cached));
    const { run, entries } = tail ?? (await readHeadWithEntries(connection, keys, runId, [0, -1]));
    if (!run) return null;
    if (run.baseMessage !== undefined) return { run, messages: await loadShared({ connection, keys, cache }, run) };
    const transcript = extend(tail?.cached, entries);
    if (transcript.messages.length !== run.messageCount) throw tooShort(run, transcript);
    if (transcript.messages.length > 0) cache.set(runId, transcript);
    return { run, messages: [...transcript.messages] };
  };
  return { load, forget: cache.delete };
}

/**
 * The transcript of a session, as far as the run has come to know it. Others may have appended since the head was read;
 * what a run knows is never taken back.
 */
async function loadShared(
  { connection, keys, cache }: { connection: RedisConnection; keys: Keys; cache: TranscriptCache },
  run: Run,
): Promise<Message[]> {
  if (run.messageCount === 0) return [];
  const name = transcriptOf(run);
  const cached = cache.get(name);
  const from = cached ? cached.messages.length - 1 : 0;
  let entries = await readEntries(connection, keys, name, [from, Math.max(run.messageCount - 1, from)]);
  const holds = cached !== undefined && entries[0]?.token === cached.lastToken;
  if (cached && !holds) entries = await readEntries(connection, keys, name, [0, run.messageCount - 1]);
  const transcript = holds ? extend(cached, entries.slice(1)) : extend(undefined, entries);
  if (transcript.messages.length < run.messageCount) throw tooShort(run, transcript);
  cache.set(name, transcript);
  return transcript.messages.slice(0, run.messageCount);
}

function tooShort(run: Run, { messages }: CachedTranscript): Error {
  return new DamagedRecord(
    `run ${run.runId}`,
    `its transcript has ${messages.length} entries, not ${run.messageCount}`,
  );
}

type Loaded = { run: Run; cached?: CachedTranscript; entries: Entry[] };

function extend(cached: CachedTranscript | undefined, entries: Entry[]): CachedTranscript {
  // They are shared by everyone who loads the run from this process.
  for (const entry of entries) deepFreeze(entry.message);
  const messages: readonly Message[] = [...(cached?.messages ?? []), ...entries.map((entry) => entry.message)];
  return {
    messages,
    lastToken: entries.at(-1)?.token ?? cached?.lastToken ?? "",
    bytes: entries.reduce((sum, entry) => sum + entry.bytes, cached?.bytes ?? 0),
  };
}

function deepFreeze(value: unknown): void {
  if (typeof value !== "object" || value === null || Object.isFrozen(value)) return;
  Object.freeze(value);
  for (const inner of Object.values(value)) deepFreeze(inner);
}
