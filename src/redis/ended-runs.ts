import { type EndedStatus, mayGo } from "../core/retention.ts";
import { isPlace } from "../core/run-filter.ts";
import type { Removal, RemovalOptions, RunStore } from "../ports.ts";
import type { DampedWarning, RedisConnection } from "./connection.ts";
import { firstMember, type Keys, pastMembers, timeOfMember } from "./keys.ts";
import { createEndNoter } from "./note-ends.ts";
import { maxPage, runScript, scoreOf } from "./read.ts";
import { readHeads } from "./read-heads.ts";
import { removeRun } from "./remove-run.ts";
import { forgetEndsScript, removeSessionScript } from "./scripts.ts";

type Context = { connection: RedisConnection; keys: Keys; warn: DampedWarning };

/**
 * As of one moment: a run that changes its status meanwhile is in one of them. KEYS: the listing sets. ARGV: 1 from, 2 to,
 * 3 how many. Returns the first of each.
 */
const firstsScript = `
local firsts = {}
for i, list in ipairs(KEYS) do firsts[i] = redis.call('ZRANGEBYLEX', list, ARGV[1], ARGV[2], 'LIMIT', 0, ARGV[3]) end
return firsts
`;
/** So many are looked at, lest the first is none of ours. */
const firstsAtOnce = 20;

/** What removes runs that have ended, and what they leave behind. */
export function createEndedRuns(
  context: Context,
): Pick<RunStore, "remove" | "removeEnded" | "removeIdleSessions" | "oldestEnd" | "oldestCreation"> {
  const { connection, keys } = context;
  const noteEnds = createEndNoter(context);
  return {
    remove: (run) => removeRun(context, run),
    async removeEnded(status, before, limit, options) {
      const removal = await removeEnded(context, { status, before, limit, ...options });
      // Once those that are known of are through.
      if (removal.removed.length + removal.kept < limit) await noteEnds(status);
      return removal;
    },
    async removeIdleSessions(before, limit) {
      const count = Math.min(limit, maxPage);
      const { idleSessions } = keys;
      const sessions = await connection.use((client) =>
        client.zrangebyscore(idleSessions, "-inf", `(${before}`, "LIMIT", 0, count),
      );
      const remove = (session: string): Promise<unknown> => {
        const { messages, line, inputs } = keys.session(session);
        const input = {
          keys: [idleSessions, keys.listBySession(session), messages, line, inputs],
          args: [session, before],
        };
        return connection.use((client) => runScript(client, removeSessionScript, input));
      };
      await Promise.all(sessions.map(remove));
      return sessions.length;
    },
    async oldestEnd(status) {
      const [, at] = await connection.use((client) => client.zrange(keys.ended(status), "0", "0", "WITHSCORES"));
      return at === undefined ? undefined : scoreOf(at);
    },
    async oldestCreation() {
      const input = { keys: [...keys.listsByStatus], args: [firstMember, pastMembers, firstsAtOnce] };
      const firsts = await connection.use((client) => runScript(client, firstsScript, input));
      const times = (firsts as unknown as string[][]).map(firstTime).filter((at) => at !== undefined);
      return times.length === 0 ? undefined : Math.min(...times);
    },
  };
}

/** When the first of these members was created; 0 if none of so many tells it: then nothing is known to be older. */
function firstTime(members: string[]): number | undefined {
  const first = members.find(isPlace);
  if (first !== undefined) return timeOfMember(first);
  return members.length < firstsAtOnce ? undefined : 0;
}

type Page = RemovalOptions & { status: EndedStatus; before: number; limit: number };

async function removeEnded(context: Context, page: Page): Promise<Removal> {
  const { connection, keys } = context;
  const { status, before, limit, offset = 0, spare } = page;
  const count = Math.min(limit, maxPage);
  const runIds = await connection.use((client) =>
    client.zrangebyscore(keys.ended(status), "-inf", `(${before}`, "LIMIT", offset, count),
  );
  const runs = await readHeads(context, runIds, "a run is kept beyond its time because its record cannot be read");
  const removed: string[] = [];
  const gone: string[] = [];
  await Promise.all(
    runIds.map(async (runId, index) => {
      const run = runs[index];
      // What is noted of a run that is not there any more, or has gone on since, as after a failover.
      if (run === null || (run && run.status !== status)) gone.push(runId);
      else if (run && mayGo(run, status, before) && !(await spare?.(run))) {
        if (await removeRun(context, run, run.endedAt ?? before)) removed.push(runId);
      }
    }),
  );
  // It may have ended once more meanwhile: that end stays noted.
  const input = { keys: [keys.ended(status)], args: [before, ...gone] };
  if (gone.length > 0) await connection.use((client) => runScript(client, forgetEndsScript, input));
  return { removed, kept: runIds.length - removed.length - gone.length };
}
