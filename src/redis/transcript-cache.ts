import type { Message } from "../core/message.ts";

/** Transcripts as last read, with the token of the last entry, which tells whether they still hold. */
export type CachedTranscript = { messages: readonly Message[]; lastToken: string; bytes: number };

export type TranscriptCache = {
  get(runId: string): CachedTranscript | undefined;
  set(runId: string, transcript: CachedTranscript): void;
  delete(runId: string): void;
  /** Bytes held, as counted by whoever put them in. */
  bytes(): number;
};

/** Keeps the transcripts used last, up to `maxBytes` in all. */
export function createTranscriptCache(maxBytes: number): TranscriptCache {
  const entries = new Map<string, CachedTranscript>();
  let total = 0;
  const remove = (runId: string): void => {
    total -= entries.get(runId)?.bytes ?? 0;
    entries.delete(runId);
  };
  return {
    get(runId) {
      const entry = entries.get(runId);
      if (!entry) return undefined;
      entries.delete(runId);
      entries.set(runId, entry);
      return entry;
    },
    set(runId, transcript) {
      remove(runId);
      if (transcript.bytes > maxBytes) return;
      entries.set(runId, transcript);
      total += transcript.bytes;
      for (const oldest of entries.keys()) {
        if (total <= maxBytes) break;
        remove(oldest);
      }
    },
    delete: remove,
    bytes: () => total,
  };
}
