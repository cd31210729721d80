import type { EndedStatus } from "../core/retention.ts";
import type { DampedWarning, RedisConnection } from "./connection.ts";
import { type Keys, runIdOfMember } from "./keys.ts";
import { dropListedScript } from "./lost-scripts.ts";
import { runScript } from "./read.ts";
import { readHeads } from "./read-heads.ts";
import { redisErrorCode } from "./redis-error.ts";
import { noteEndScript } from "./scripts.ts";

type Context = { connection: RedisConnection; keys: Keys; warn: DampedWarning };

/** Runs of a listing that are looked at in one go. */
const looksAtOnce = 500;

/**
 * Notes the ends of runs that older versions ended, also beside this one: they keep no such note, and without it a run would
 * never go. Looks only while more runs are listed than noted, and at one page a time: each call goes on where the last ended.
 * What fails here is left to the next call.
 */
export function createEndNoter(context: Context): (status: EndedStatus) => Promise<void> {
  const places = new Map<EndedStatus, string>();
  return async (status) => {
    try {
      const next = await noteFrom(context, status, places.get(status));
      if (next === undefined) places.delete(status);
      else places.set(status, next);
    } catch (error) {
      const code = redisErrorCode(error);
      context.warn(code, { status, code }, "ends of runs of an older version could not be noted");
    }
  };
}

const unread = "a run that ended is kept beyond its time because its record cannot be read";

/** @returns where to go on; undefined: at the beginning */
async function noteFrom(context: Context, status: EndedStatus, place: string | undefined): Promise<string | undefined> {
  const { connection, keys } = context;
  const [list, ended] = [keys.listByStatus(status), keys.ended(status)];
  const [listed, noted] = await connection.use((client) => Promise.all([client.zcard(list), client.zcard(ended)]));
  if (listed <= noted) return undefined;
  const from = place === undefined ? "-" : `(${place}`;
  const members = await connection.use((client) => client.zrangebylex(list, from, "+", "LIMIT", 0, looksAtOnce));
  const scores = await readScores(context, ended, members.map(runIdOfMember));
  const missing = members.filter((_, index) => scores[index] === null);
  const runs = await readHeads(context, missing.map(runIdOfMember), unread);
  await dropUnknown(
    context,
    list,
    missing.filter((_, index) => runs[index] === null),
  );
  for (const run of runs) {
    if (run?.status !== status) continue;
    const { runId, revision, token, endedAt, updatedAt } = run;
    const input = { keys: [keys.run(runId).head, ended], args: [revision, token, endedAt ?? updatedAt, runId] };
    await connection.use((client) => runScript(client, noteEndScript, input));
  }
  return members.length < looksAtOnce ? undefined : members.at(-1);
}

async function readScores({ connection }: Context, key: string, members: string[]): Promise<unknown[]> {
  if (members.length === 0) return [];
  return connection.use((client) => client.zmscore(key, ...members));
}

/** What is listed and not there was lost, or put there by another program. */
async function dropUnknown({ connection, keys }: Context, list: string, members: string[]): Promise<void> {
  if (members.length === 0) return;
  const heads = members.map((member) => keys.run(runIdOfMember(member)).head);
  await connection.use((client) => runScript(client, dropListedScript, { keys: [list, ...heads], args: members }));
}
