import type { Message } from "../core/message.ts";
import type { Run } from "../core/run.ts";
import type { RunStore } from "../ports.ts";
import type { RedisConnection } from "./connection.ts";
import type { Keys } from "./keys.ts";
import { type Entry, readHeadWithEntries } from "./read.ts";
import { damaged } from "./run-codec.ts";
import { type CachedTranscript, createTranscriptCache } from "./transcript-cache.ts";

/**
 * Loads heads with their transcripts. Of a transcript that was read before only the tail is read, with one entry more:
 * if that does not bear the token it had, the record is another one (lost in a failover, or made anew) and all is read.
 */
export function createTranscriptLoader(
  connection: RedisConnection,
  keys: Keys,
  cacheBytes: number,
): RunStore["loadWithMessages"] {
  const cache = createTranscriptCache(cacheBytes);

  /** Undefined if what is cached does not hold any more. */
  async function loadTail(runId: string, cached: CachedTranscript): Promise<Loaded | undefined> {
    const { run, entries } = await readHeadWithEntries(connection, keys, runId, [cached.messages.length - 1, -1]);
    if (run && entries[0]?.token === cached.lastToken) return { run, cached, entries: entries.slice(1) };
    cache.delete(runId);
    return undefined;
  }

  return async (runId) => {
    const cached = cache.get(runId);
    const tail = cached && (await loadTail(runId, cached));
    const { run, entries } = tail ?? (await readHeadWithEntries(connection, keys, runId, [0, -1]));
    if (!run) return null;
    const transcript = extend(tail?.cached, entries);
    if (transcript.messages.length !== run.messageCount) {
      const [stored, expected] = [transcript.messages.length, run.messageCount];
      throw damaged(`run ${runId}`, `its transcript has ${stored} entries, not ${expected}`);
    }
    if (transcript.messages.length > 0) cache.set(runId, transcript);
    return { run, messages: [...transcript.messages] };
  };
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
