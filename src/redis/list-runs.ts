import { DroverError } from "../core/errors.ts";
import type { Run } from "../core/run.ts";
import type { RunFilter, RunPage } from "../ports.ts";
import type { DampedWarning, RedisConnection } from "./connection.ts";
import { isListMember, type Keys, runIdOfMember } from "./keys.ts";
import { unwrap } from "./read.ts";
import { decodeHead } from "./run-codec.ts";

const defaultLimit = 50;
const maxLimit = 1_000;
/** Heads read in one pipeline. */
const batchSize = 200;
/** Heads looked at in one call. Where few of them fit the filter, the page comes out short and has a cursor. */
const maxScanned = 2_000;

/** `warn` is told of records that cannot be read. */
export type ListContext = { connection: RedisConnection; keys: Keys; warn: DampedWarning };

/**
 * Runs that fit the filter, newest first. The cursor is a place in the order of creation, so that a page goes on where
 * the last one ended, whatever came or went meanwhile. A page may be short or empty and still have a cursor.
 */
export async function listRuns(context: ListContext, filter: RunFilter): Promise<RunPage> {
  const limit = Math.min(filter.limit ?? defaultLimit, maxLimit);
  if (!Number.isInteger(limit) || limit < 1) throw new DroverError("invalid", "A page's limit must be from 1 to 1000.");
  if (filter.cursor !== undefined && !isListMember(filter.cursor)) {
    throw new DroverError("invalid", "This cursor is none of ours. Pass one from the previous page, or none.");
  }
  const key = await chooseIndex(context, filter);
  const runs: Run[] = [];
  let cursor = filter.cursor;
  for (let scanned = 0; scanned < maxScanned && runs.length < limit; ) {
    const wanted = Math.min(batchSize, limit - runs.length, maxScanned - scanned);
    const members = await readMembers(context, key, cursor, wanted + 1);
    const batch = members.slice(0, wanted);
    runs.push(...(await loadHeads(context, batch)).filter((run) => fits(run, filter)));
    if (members.length <= wanted) return { runs };
    scanned += batch.length;
    cursor = batch.at(-1);
  }
  return { runs, cursor };
}

/** The set to walk along: of several the smallest, since members are the same in all, and so are cursors. */
async function chooseIndex({ connection, keys }: ListContext, filter: RunFilter): Promise<string> {
  const { status, agent, session } = filter;
  const sets = [
    ...(status === undefined ? [] : [keys.listByStatus(status)]),
    ...(agent === undefined ? [] : [keys.listByAgent(agent)]),
    ...(session === undefined ? [] : [keys.listBySession(session)]),
  ];
  const [only = keys.listAll] = sets;
  if (sets.length < 2) return only;
  const sizes = await connection.use((client) => Promise.all(sets.map((key) => client.zcard(key))));
  return sets[sizes.indexOf(Math.min(...sizes))] as string;
}

function readMembers(
  { connection }: ListContext,
  key: string,
  after: string | undefined,
  count: number,
): Promise<string[]> {
  const start = after === undefined ? "+" : `(${after}`;
  return connection.use((client) => client.zrevrangebylex(key, start, "-", "LIMIT", 0, count));
}

async function loadHeads({ connection, keys, warn }: ListContext, members: string[]): Promise<Run[]> {
  if (members.length === 0) return [];
  const ids = members.map(runIdOfMember);
  const replies = await connection.use((client) => {
    const pipeline = client.pipeline();
    for (const id of ids) pipeline.hgetall(keys.run(id).head);
    return pipeline.exec();
  });
  return (replies ?? []).flatMap((reply, index) => {
    const runId = ids[index] as string;
    try {
      return decodeHead(runId, unwrap(reply) as Record<string, string>) ?? [];
    } catch (error) {
      // One record that cannot be read must not hide the others.
      const code = error instanceof DroverError ? error.code : "wrong_type";
      warn(code, { runId, code }, "a run is left out of a listing because its record cannot be read");
      return [];
    }
  });
}

function fits(run: Run, filter: RunFilter): boolean {
  return (
    (filter.status === undefined || run.status === filter.status) &&
    (filter.agent === undefined || run.agent === filter.agent) &&
    (filter.session === undefined || run.session === filter.session)
  );
}
