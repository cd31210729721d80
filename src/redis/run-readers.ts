import { z } from "zod";
import { DroverError } from "../core/errors.ts";
import type { FeedEntry } from "../core/event.ts";
import type { Message } from "../core/message.ts";
import type { RunStore } from "../ports.ts";
import { liveAfterEndMs } from "./commit-plan.ts";
import type { RedisConnection } from "./connection.ts";
import type { Keys } from "./keys.ts";
import { maxPage, runScript } from "./read.ts";
import { redisErrorCode } from "./redis-error.ts";
import { decodeEntry, decodeFeedEntry, decodeFeedRow, decodeResult, parseStored } from "./run-codec.ts";
import { publishLiveScript } from "./scripts.ts";

const liveEntriesKept = 10_000;
const liveKeptMs = 24 * 3_600_000;

const deltasSchema = z.array(
  z.object({ turn: z.number(), attempt: z.number(), execution: z.string(), text: z.string() }),
);

export type Readers = Pick<RunStore, "readMessages" | "readResults" | "readFeed" | "publishLive" | "readLive">;

/** What is read and written beside heads and commits. */
export function createReaders(connection: RedisConnection, keys: Keys): Readers {
  return {
    async readMessages(transcript, from, to) {
      const messages: Message[] = [];
      const key = keys.transcript(transcript);
      for (let start = Math.max(0, from); start < to; start += maxPage) {
        const stop = Math.min(to, start + maxPage) - 1;
        const page = await connection.use((client) => client.lrange(key, start, stop));
        messages.push(...page.map((entry) => decodeEntry(entry, `transcript of ${transcript}`).message));
        if (page.length < stop - start + 1) break;
      }
      return messages;
    },

    async readResults(runId) {
      const stored = await connection.use((client) => client.hgetall(keys.run(runId).results));
      const where = `results of run ${runId}`;
      return Object.fromEntries(Object.entries(stored).map(([callId, json]) => [callId, decodeResult(json, where)]));
    },

    readFeed: (runId, after, limit) => readFeed(connection, keys.run(runId).feed, { runId, after, limit }),

    async publishLive(runId, deltas) {
      if (deltas.length === 0) return;
      const { live, head, channel } = keys.run(runId);
      const args = [JSON.stringify(deltas), liveEntriesKept, liveKeptMs, liveAfterEndMs, channel];
      await connection.use((client) => runScript(client, publishLiveScript, { keys: [live, head], args }));
    },

    async readLive(runId, from) {
      if (!/^\d+(-\d+)?$/.test(from)) throw new DroverError("invalid", `"${from}" is no position in live text. Use 0.`);
      const key = keys.run(runId).live;
      const rows = await connection.use((client) => client.xrange(key, `(${from}`, "+", "COUNT", maxPage));
      const where = `live text of run ${runId}`;
      return {
        deltas: rows.flatMap(([, fields]) => parseStored(deltasSchema, fields[1] ?? "", where)),
        next: rows.at(-1)?.[0] ?? from,
      };
    },
  };
}

/** Entries of a feed, be it a list or, of a run that an older version made, a stream. */
async function readFeed(
  connection: RedisConnection,
  feed: string,
  { runId, after, limit }: { runId: string; after: number; limit: number },
): Promise<FeedEntry[]> {
  const count = Math.min(limit, maxPage);
  if (count < 1) return [];
  const from = Math.max(0, Math.trunc(after));
  const where = `feed of run ${runId}`;
  return connection.use(async (client) => {
    try {
      const entries = await client.lrange(feed, from, from + count - 1);
      return entries.map((json, index) => decodeFeedEntry(from + index + 1, json, where));
    } catch (error) {
      if (redisErrorCode(error) !== "WRONGTYPE") throw error;
    }
    const rows = await client.xrange(feed, `${from + 1}-0`, "+", "COUNT", count);
    // A row holds the entries of one commit, and may begin before the one asked for.
    return rows
      .flatMap(([id, fields]): FeedEntry[] => decodeFeedRow(id, fields[1] ?? "", where))
      .filter(({ seq }) => seq > from)
      .slice(0, count);
  });
}
