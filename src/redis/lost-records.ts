import { runIdSchema } from "../core/new-run.ts";
import { endedStatuses } from "../core/retention.ts";
import { runStatuses } from "../core/run.ts";
import type { Damage, RunStore } from "../ports.ts";
import type { RedisConnection } from "./connection.ts";
import { findOwners } from "./find-owners.ts";
import type { Keys } from "./keys.ts";
import { dropFromLineScript, dropOwingScript, removeDamagedScript } from "./lost-scripts.ts";
import { runScript } from "./read.ts";
import { type DamagedRun, findAgents, findMembers, readDamage } from "./read-damage.ts";
import { encodeEntry } from "./run-codec.ts";
import { compactReader } from "./run-schema.ts";

type Context = { connection: RedisConnection; keys: Keys };

/** What takes a run whose record is lost or damaged out of the way of others. */
export function createLostRecords(
  context: Context,
): Pick<RunStore, "dropOwing" | "removeDamaged" | "whyDamaged" | "dropFromLine"> {
  const { connection, keys } = context;
  return {
    async dropOwing(runId) {
      // What can be no run's id may name one of the keys of a run: another program has put it there.
      const looks = runIdSchema.safeParse(runId).success ? 1 : 0;
      const input = { keys: [keys.run(runId).head, keys.owing], args: [runId, looks] };
      const [dropped] = await connection.use((client) => runScript(client, dropOwingScript, input));
      return dropped === 1;
    },
    async dropFromLine(session, { runId, round }, { seen, messageCount, messages }) {
      const { line, messages: transcript } = keys.session(session);
      // Its commits are over, so no other entry has this token.
      const token = `lost.${round}.${runId}`;
      const input = {
        keys: [keys.run(runId).head, line, transcript],
        args: [
          ...[`${round}:${runId}`, messageCount, seen?.revision ?? "", seen?.token ?? ""],
          ...messages.map((message) => encodeEntry(token, message)),
        ],
      };
      const [dropped] = await connection.use((client) => runScript(client, dropFromLineScript, input));
      return Number(dropped) > 0;
    },
    removeDamaged: (runId) => removeDamaged(context, runId),
    whyDamaged: (runId) => whyDamaged(context, runId),
  };
}

/** A session's transcript is looked at after the head: what was committed between the two is no damage, and a second look tells. */
async function whyDamaged(context: Context, runId: string): Promise<string | undefined> {
  const seen = await readDamage(context, runId);
  const now = seen && (await readDamage(context, runId));
  return now && now.rev === seen.rev && now.tok === seen.tok ? now.why : undefined;
}

async function removeDamaged(context: Context, runId: string): Promise<Damage | null> {
  for (;;) {
    const damage = await readDamage(context, runId);
    if (!damage) return null;
    const members = await findMembers(context, runId, damage);
    const agents = await findAgents(context, damage);
    const isKnown = damage.run.agent !== undefined;
    const run = isKnown ? damage.run : { ...damage.run, ...(await findOwners(context, members)) };
    const input = toArguments(context.keys, runId, { ...damage, run }, { members, agents });
    const [removed] = await context.connection.use((client) => runScript(client, removeDamagedScript, input));
    const { why } = damage;
    if (removed === 1) return { why, session: run.session };
  }
}

/** Keys and arguments of the script, as its header describes them. */
function toArguments(
  keys: Keys,
  runId: string,
  { type, rev, tok, run }: DamagedRun,
  { members, agents }: { members: string[]; agents: string[] },
): { keys: string[]; args: (string | number)[] } {
  const { head, messages, results, feed, live, outputs } = keys.run(runId);
  const { tenant = "" } = run;
  const session = run.session ?? "";
  const said = (value: string | null): string => (value === null ? "" : `=${value}`);
  const sizes = [endedStatuses.length, runStatuses.length, agents.length, members.length];
  return {
    keys: [
      ...[head, messages, results, feed, live, outputs, keys.owing, keys.counts],
      ...endedStatuses.map(keys.ended),
      keys.listAll,
      ...keys.listsByStatus,
      ...agents.map(keys.listByAgent),
      ...(tenant === "" ? [] : [keys.listByTenant(tenant), keys.countsOfTenant(tenant)]),
      ...(session === "" ? [] : [keys.listBySession(session), keys.idleSessions]),
    ],
    args: [
      ...[type, said(rev), said(tok), runId, tenant, session, compactReader],
      ...sizes,
      ...runStatuses,
      ...agents,
      ...members,
    ],
  };
}
