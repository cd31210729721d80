import { z } from "zod";
import { type Run, runStatuses } from "../core/run.ts";
import { fitsFilter, isPlace, newestPlace, parseRunFilter, type RunFilter } from "../core/run-filter.ts";
import type { RunPage } from "../ports.ts";
import type { DampedWarning, RedisConnection } from "./connection.ts";
import { firstMember, type Keys, listMember, listTime, pastMembers, runIdOfMember } from "./keys.ts";
import { askEach, runScript } from "./read.ts";
import { readHeads } from "./read-heads.ts";

/** Heads read in one go. */
const headsAtOnce = 200;
/** Runs of which only what a filter looks at is read, in one go, and in one call. */
const peeksAtOnce = 1_000;
const mostPeeked = 5_000;
/** Ids that are looked through in one command, and in one call. */
const idsAtOnce = 5_000;
const mostIds = 50_000;

/** `warn` is told of records that cannot be read. */
export type ListContext = { connection: RedisConnection; keys: Keys; warn: DampedWarning };

/**
 * What is walked along, several indexes as if they were one, from `start` down to `min`. `isWhole`: all in it fit the filter but for the search.
 * `atOnce`, `most`: runs looked at in one round and in one call; where few of them fit, the page comes out short and has
 * a cursor.
 */
type Walk = { indexes: string[]; start: string; min: string; isWhole: boolean; atOnce: number; most: number };

/**
 * Runs that fit the filter, newest first. The cursor is a place in the order of creation, so that a page goes on where
 * the last one ended, whatever came or went meanwhile. A page may be short or empty and still have a cursor.
 *
 * @throws DroverError "invalid" for a filter that does not fit, naming the fields.
 */
export async function listRuns(context: ListContext, given: RunFilter): Promise<RunPage> {
  const filter = parseRunFilter(given);
  const { limit } = filter;
  const walk = await chooseWalk(context, filter);
  const runs = await findWhole(context, filter);
  let { cursor } = filter;
  let scanned = 0;
  for (let after = cursor; scanned < walk.most && runs.length < limit; ) {
    const left = limit - runs.length;
    const count = Math.min(walk.atOnce, takesAll(walk, filter) ? left : walk.most - scanned);
    const { members, isEnd } = await readMembers(context, walk, after, count);
    const places = members.filter(isPlace);
    const fitting = await narrow(context, walk, filter, places);
    const taken = fitting.slice(0, left);
    runs.push(...(await loadHeads(context, taken)).filter((run) => fitsFilter(run, filter)));
    const isCut = taken.length < fitting.length;
    if (isEnd && !isCut) return { runs };
    scanned += members.length;
    cursor = (isCut ? taken : places).at(-1) ?? cursor;
    after = isCut ? cursor : members.at(-1);
  }
  // Nothing but what others have put there: no place to go on from.
  if (scanned > 0 && cursor === filter.cursor) return { runs };
  return { runs, cursor: cursor ?? newestPlace };
}

/** Whether whatever is found along the way fits. */
function takesAll({ isWhole }: Walk, { search }: RunFilter): boolean {
  return isWhole && search === undefined;
}

/**
 * The index to walk along: the one with the fewest runs in the filter's time, or those of all statuses, which together hold
 * every run once. Members are the same in all, and so are cursors.
 */
async function chooseWalk({ connection, keys }: ListContext, filter: RunFilter): Promise<Walk> {
  const { status, agent, session, tenant, metadata, createdAfter, createdBefore, search } = filter;
  const sets = [
    ...(status === undefined ? [] : [keys.listByStatus(status)]),
    ...(agent === undefined ? [] : [keys.listByAgent(agent)]),
    ...(session === undefined ? [] : [keys.listBySession(session)]),
    ...(tenant === undefined ? [] : [keys.listByTenant(tenant)]),
  ];
  const start = createdBefore === undefined ? pastMembers : `(${listTime(createdBefore)}`;
  const min = createdAfter === undefined ? firstMember : `[${listTime(createdAfter)}`;
  const isWhole = sets.length < 2 && metadata === undefined;
  const [atOnce, most] = sizesOf(isWhole, search);
  const walk = { start, min, isWhole, atOnce, most };
  if (sets.length === 0) return { ...walk, indexes: keys.listsByStatus };
  if (sets.length === 1) return { ...walk, indexes: sets };
  const sizes = await connection.use((client) => Promise.all(sets.map((key) => client.zlexcount(key, min, start))));
  return { ...walk, indexes: [sets[sizes.indexOf(Math.min(...sizes))] as string] };
}

function sizesOf(isWhole: boolean, search: string | undefined): [atOnce: number, most: number] {
  if (!isWhole) return [peeksAtOnce, mostPeeked];
  return search === undefined ? [headsAtOnce, mostPeeked] : [idsAtOnce, mostIds];
}

/** The run that has what is searched as its whole id: the first of the first page, and left out of the walk. */
async function findWhole(context: ListContext, filter: RunFilter): Promise<Run[]> {
  const { search, cursor } = filter;
  if (search === undefined || cursor !== undefined) return [];
  return (await loadRuns(context, [search])).filter(isRun).filter((run) => fitsFilter(run, filter));
}

/** As of one moment: a run that changes its status meanwhile is in one of them. KEYS: the indexes. ARGV: 1 from, 2 to, 3 how many. */
const membersScript = `
local pages = {}
for i, index in ipairs(KEYS) do pages[i] = redis.call('ZREVRANGEBYLEX', index, ARGV[1], ARGV[2], 'LIMIT', 0, ARGV[3]) end
return pages
`;

async function readMembers(
  { connection }: ListContext,
  { indexes, start, min }: Walk,
  after: string | undefined,
  count: number,
): Promise<{ members: string[]; isEnd: boolean }> {
  // Of two places to begin at, the one further down.
  const from = after !== undefined && after < start.slice(1) ? `(${after}` : start;
  const input = { keys: indexes, args: [from, min, count + 1] };
  const pages = await connection.use((client) => runScript(client, membersScript, input));
  const found = (pages as unknown as string[][]).filter((page) => page.length > 0);
  const members = found.length === 1 ? (found[0] as string[]) : found.flat().sort().reverse();
  return { members: members.slice(0, count), isEnd: members.length <= count };
}

/** Those that fit, as far as their ids and, where the index says too little, the fixed part of their heads tell. */
async function narrow(context: ListContext, walk: Walk, filter: RunFilter, members: string[]): Promise<string[]> {
  const { search } = filter;
  const found =
    search === undefined
      ? members
      : members
          .map((member) => ({ member, runId: runIdOfMember(member) }))
          .filter(({ runId }) => runId.includes(search) && runId !== search)
          .map(({ member }) => member);
  return walk.isWhole ? found : peek(context, filter, found);
}

const fixedSchema = z.object({
  agent: z.string(),
  session: z.string().optional(),
  tenant: z.string().optional(),
  metadata: z.record(z.string(), z.unknown()).default({}),
  createdAt: z.number(),
});
const statusSchema = z.enum(runStatuses);

/** Reads what a filter looks at and no more. A record that cannot be read stays: who loads it tells of it. */
async function peek({ connection, keys }: ListContext, filter: RunFilter, members: string[]): Promise<string[]> {
  if (members.length === 0) return [];
  const heads = members.map((member) => keys.run(runIdOfMember(member)).head);
  const replies = await askEach(connection, heads, (client, head) => client.hmget(head, "status", "fixed"));
  return members.filter((member, index) => {
    const values = replies[index];
    if (!values || values instanceof Error) return true;
    const [status = null, fixed = null] = values;
    const known = statusSchema.safeParse(status);
    const rest = fixedSchema.safeParse(parseJson(fixed));
    if (!known.success || !rest.success) return status !== null;
    return fitsFilter({ runId: runIdOfMember(member), status: known.data, ...rest.data }, filter);
  });
}

function parseJson(json: string | null): unknown {
  try {
    return JSON.parse(json ?? "");
  } catch {
    return undefined;
  }
}

async function loadHeads(context: ListContext, members: string[]): Promise<Run[]> {
  const runs = await loadRuns(context, members.map(runIdOfMember));
  // One that is listed under a time which is not its own would come twice.
  return runs.filter((run, index) => run && listMember(run) === members[index]).filter(isRun);
}

/** In the order of their ids. One record that cannot be read must not hide the others. */
async function loadRuns(context: ListContext, ids: string[]): Promise<(Run | null | undefined)[]> {
  const runs: (Run | null | undefined)[] = [];
  for (let from = 0; from < ids.length; from += headsAtOnce) {
    const some = ids.slice(from, from + headsAtOnce);
    runs.push(...(await readHeads(context, some, "a run is left out of a listing because its record cannot be read")));
  }
  return runs;
}

function isRun(run: Run | null | undefined): run is Run {
  return run !== null && run !== undefined;
}
