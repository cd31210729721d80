import { DamagedRecord } from "../core/errors.ts";
import { isEnded, type Run } from "../core/run.ts";
import { transcriptOf } from "../core/session.ts";
import type { CommitResult, Logger, RunStore } from "../ports.ts";
import { type CommitInput, toCommitArguments } from "./commit-plan.ts";
import { createDampedWarning, type RedisConnection } from "./connection.ts";
import { createDefinitions } from "./definitions.ts";
import { createEndedRuns } from "./ended-runs.ts";
import { createIndexReaders } from "./index-readers.ts";
import type { Keys } from "./keys.ts";
import { createLeases } from "./leases.ts";
import { createTranscriptLoader } from "./load-transcript.ts";
import { createLostRecords } from "./lost-records.ts";
import { createOutputs } from "./outputs.ts";
import { readHead, readHeadWithEntries, runScript, toFields } from "./read.ts";
import { decodeHead } from "./run-codec.ts";
import { createReaders } from "./run-readers.ts";
import { commitScript } from "./scripts.ts";
import { createSessionStore } from "./sessions.ts";
import { whetherMade } from "./whether-made.ts";

export type RedisRunStoreOptions = {
  connection: RedisConnection;
  keys: Keys;
  logger?: Logger | undefined;
  /** How much memory the cache of transcripts may take, about; default 64 MiB, 0 for none. */
  cacheBytes?: number | undefined;
};

/** About how much memory a process spends on transcripts. */
export const defaultCacheBytes: number = 64 * 1024 * 1024;

/** Runs in Redis. Contract and guarantees: `RunStore`. */
export function createRedisRunStore(options: RedisRunStoreOptions): RunStore {
  const { connection, keys } = options;
  const readers = createReaders(connection, keys);
  const transcripts = createTranscriptLoader(connection, keys, options.cacheBytes ?? defaultCacheBytes);
  const warn = createDampedWarning(options.logger);

  const tryCommit = (input: CommitInput): Promise<CommitResult> => commit({ connection, keys }, input);

  return {
    async create(run, messages, entries) {
      const append = messages.map((message) => ({ type: "message" as const, message }));
      let previous: Run | null = null;
      for (;;) {
        const result = await tryCommit({ previous, run, append, results: [], entries, fresh: true });
        if (result.committed) return { created: true };
        if (result.run && result.run.status !== "rejected") return { created: false, run: result.run };
        // A rejected record does not hold its id: replaced, if it is still the one that was seen.
        previous = result.run;
      }
    },

    load: (runId) => readHead(connection, keys, runId),
    loadWithMessages: transcripts.load,

    async loadWithLastMessage(runId) {
      const { run, entries } = await readHeadWithEntries(connection, keys, runId, [-1, -1]);
      if (!run) return null;
      // The last message of a shared transcript may be another run's.
      if (run.baseMessage === undefined) return { run, last: entries[0]?.message };
      const [last] = await readers.readMessages(transcriptOf(run), run.messageCount - 1, run.messageCount);
      return { run, last };
    },

    commit(change) {
      // Sent at once, so that what follows on this connection leaves with it.
      const committing = tryCommit({ ...change, fresh: false });
      if (isEnded(change.run)) transcripts.forget(change.run.runId);
      return committing;
    },

    ...readers,
    ...createDefinitions(connection, keys),
    ...createOutputs(connection, keys),
    ...createSessionStore(connection, keys),
    ...createIndexReaders({ connection, keys, warn }),
    ...createEndedRuns({ connection, keys, warn }),
    ...createLostRecords({ connection, keys }),

    ...createLeases({ connection, keys }),
  };
}

type Context = { connection: RedisConnection; keys: Keys };

async function commit({ connection, keys }: Context, input: CommitInput): Promise<CommitResult> {
  const { runId } = input.run;
  const plan = toCommitArguments(keys, input);
  let reply: (string | number)[];
  try {
    reply = await connection.use((client) => runScript(client, commitScript, plan));
  } catch (error) {
    return await whetherMade({ connection, keys }, input, error);
  }
  const [code, ...rest] = reply;
  if (code === 1 || code === 2) return { committed: true };
  if (code === 0) return { committed: false, run: decodeHead(runId, toFields(rest)) };
  throw new DamagedRecord(`run ${runId}`, `what the commit needs is not there: ${rest.join(" ")}`);
}
