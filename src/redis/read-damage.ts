import { z } from "zod";
import { DamagedRecord } from "../core/errors.ts";
import { type Run, runStatuses } from "../core/run.ts";
import { transcriptOf } from "../core/session.ts";
import type { RedisConnection } from "./connection.ts";
import { type Keys, listMember, runIdOfMember } from "./keys.ts";
import { decodeHead } from "./run-codec.ts";

type Context = { connection: RedisConnection; keys: Keys };

/**
 * A record to which no commit can be made. `type`, `rev`, `tok`: of its head, as they are stored. `run`: what can be read of
 * where others know it from.
 */
export type DamagedRun = {
  why: string;
  type: string;
  rev: string | null;
  tok: string | null;
  run: {
    createdAt?: number | undefined;
    agent?: string | undefined;
    session?: string | null | undefined;
    tenant?: string | undefined;
  };
};

const fixedSchema = z.object({
  createdAt: z.number(),
  agent: z.string(),
  session: z.string().optional(),
  tenant: z.string().optional(),
});
const createdSchema = z.object({ at: z.number(), type: z.enum(["run_created", "run_rejected"]) });

/** What is wrong with the record, if no commit to it can succeed, as the commit script would find it. Null: nothing is. */
export async function readDamage(context: Context, runId: string): Promise<DamagedRun | null> {
  const record = await readRecord(context, runId);
  const why = await damageOf(context, runId, record);
  if (why === undefined) return null;
  const { type, fields, feed } = record;
  const fixed = fixedSchema.safeParse(parseJson(fields.fixed)).data;
  const created = createdSchema.safeParse(parseJson(feed.first)).data;
  const run = fixed ? { ...fixed, session: fixed.session ?? null } : { createdAt: created?.at };
  return { why, type, rev: fields.rev ?? null, tok: fields.tok ?? null, run };
}

type Kept = { type: string; length: number };
type Record = {
  type: string;
  fields: { [field: string]: string };
  messages: Kept;
  feed: Kept & { first: string | undefined; last: string | undefined };
  results: { type: string; callIds: string[] };
  isNoted: boolean;
};

/** All as of one moment. What is asked of a key of another type is an error, and stands for nothing. */
async function readRecord({ connection, keys }: Context, runId: string): Promise<Record> {
  const { head, messages, feed, results } = keys.run(runId);
  const replies = await connection.use(async (client) =>
    client
      .multi()
      .type(head)
      .hgetall(head)
      .type(messages)
      .llen(messages)
      .type(feed)
      .llen(feed)
      .lindex(feed, 0)
      .xrange(feed, "-", "+", "COUNT", 1)
      .xrevrange(feed, "+", "-", "COUNT", 1)
      .type(results)
      .hkeys(results)
      .zscore(keys.owing, runId)
      .exec(),
  );
  const at = <T>(index: number, otherwise: T): T => {
    const [error, reply] = replies?.[index] ?? [];
    return error || reply === null || reply === undefined ? otherwise : (reply as T);
  };
  type Rows = [id: string, fields: string[]][];
  const row = parseJson(at<Rows>(7, [])[0]?.[1][1]);
  return {
    type: at(0, "none"),
    fields: at(1, {}),
    messages: { type: at(2, "none"), length: at(3, 0) },
    feed: {
      type: at(4, "none"),
      length: at(5, 0),
      first: at<string | undefined>(6, Array.isArray(row) ? JSON.stringify(row[0]) : undefined),
      last: at<Rows>(8, [])[0]?.[0],
    },
    results: { type: at(9, "none"), callIds: at(10, []) },
    isNoted: at<string | undefined>(11, undefined) !== undefined,
  };
}

async function damageOf(context: Context, runId: string, record: Record): Promise<string | undefined> {
  const { type, messages, feed, results, isNoted } = record;
  if (type === "none") {
    // A late word or result of a run that was removed goes by itself.
    const isLeft = isNoted || [messages, feed, results].some((part) => part.type !== "none");
    return isLeft ? "its head is gone" : undefined;
  }
  if (type !== "hash") return `its head is a ${type}, not a hash`;
  const run = decodeOrDamage(runId, record);
  if (typeof run === "string") return run;
  return (await transcriptDamage(context, run, messages)) ?? feedDamage(run, feed) ?? resultsDamage(run, results);
}

/** @throws DroverError "unsupported" of a run that a newer version keeps: it is whole for that one */
function decodeOrDamage(runId: string, { fields }: Record): Run | string {
  try {
    return decodeHead(runId, fields) ?? "its head is gone";
  } catch (error) {
    if (error instanceof DamagedRecord) return error.why;
    throw error;
  }
}

/** Who may append to a transcript must know all of it. */
async function transcriptDamage({ connection, keys }: Context, run: Run, own: Kept): Promise<string | undefined> {
  const isShared = run.baseMessage !== undefined;
  // Others append to a session's while the run does not; and its commits do not look then.
  if (isShared && run.place?.state !== "active") return undefined;
  const { type, length } = isShared ? await readShared({ connection, keys }, run) : own;
  if (type !== "none" && type !== "list") return `its transcript is a ${type}, not a list`;
  return length === run.messageCount ? undefined : `its transcript has ${length} entries, not ${run.messageCount}`;
}

/** What comes between the two looks, the script finds out by the head. */
async function readShared({ connection, keys }: Context, run: Run): Promise<Kept> {
  const key = keys.transcript(transcriptOf(run));
  const replies = await connection.use((client) => client.multi().type(key).llen(key).exec());
  return { type: String(replies?.[0]?.[1]), length: Number(replies?.[1]?.[1]) };
}

function feedDamage({ eventSeq }: Run, { type, length, last }: Record["feed"]): string | undefined {
  if (type === "stream") {
    const reached = Number(last?.split("-")[0] ?? 0);
    return reached > eventSeq ? `its feed has come to ${reached}, its head to ${eventSeq}` : undefined;
  }
  if (type !== "none" && type !== "list") return `its feed is a ${type}, not a list`;
  return length === eventSeq ? undefined : `its feed has ${length} entries, not ${eventSeq}`;
}

/** A result that came early is wanted by the commit that settles the last call of its turn. */
function resultsDamage({ calls }: Run, { type, callIds }: Record["results"]): string | undefined {
  if (type !== "none" && type !== "hash") return `its early results are a ${type}, not a hash`;
  const lost = calls.find(({ state, callId }) => state === "settled" && !callIds.includes(callId));
  return lost && `the result of ${lost.callId} is gone`;
}

/** What one command of a walk looks at. */
const scannedAtOnce = 1_000;

/** The run's members in the listing sets. Where it is not known when the run was made, they are looked for a piece at a time. */
export async function findMembers(context: Context, runId: string, { run }: DamagedRun): Promise<string[]> {
  const { createdAt } = run;
  const member = createdAt === undefined ? undefined : listMember({ runId, createdAt });
  if (member !== undefined && (await isListed(context, member))) return [member];
  const found = new Set<string>();
  for (const status of runStatuses) {
    for (const member of await scan(context, context.keys.listByStatus(status), `*:${runId}`)) {
      if (runIdOfMember(member) === runId) found.add(member);
    }
  }
  return [...found];
}

async function isListed({ connection, keys }: Context, member: string): Promise<boolean> {
  const scores = await connection.use((client) =>
    Promise.all(keys.listsByStatus.map((key) => client.zscore(key, member))),
  );
  return scores.some((score) => score !== null);
}

async function scan({ connection }: Context, key: string, pattern: string): Promise<string[]> {
  const members: string[] = [];
  let cursor = "0";
  do {
    const from = cursor;
    const [next, flat] = await connection.use((client) =>
      client.zscan(key, from, "MATCH", pattern, "COUNT", scannedAtOnce),
    );
    members.push(...flat.filter((_, index) => index % 2 === 0));
    cursor = next;
  } while (cursor !== "0");
  return members;
}

/** Agents under which the run may be listed: its own, or all that are counted. */
export async function findAgents({ connection, keys }: Context, { run }: DamagedRun): Promise<string[]> {
  if (run.agent !== undefined) return [run.agent];
  const fields = await connection.use((client) => client.hkeys(keys.counts));
  return [...new Set(fields.map((field) => field.slice(field.indexOf(" ") + 1)))];
}

function parseJson(json: string | undefined): unknown {
  try {
    return JSON.parse(json ?? "");
  } catch {
    return undefined;
  }
}
