import { toPattern } from "../core/pattern.ts";
import type { RedisConnection } from "./connection.ts";
import type { Keys } from "./keys.ts";
import { askEach, runScript } from "./read.ts";
import { redisErrorCode } from "./redis-error.ts";

/** What one command of a walk over all keys looks at. */
const scannedAtOnce = 1_000;

type Context = { connection: RedisConnection; keys: Keys };
type Owners = { tenant?: string; session?: string };

/**
 * Whose run it was and of which session, by the sets that list it. All keys are walked for that, a piece at a time: nothing
 * else knows every tenant and session. Where that is forbidden nothing is found.
 *
 * @param members the run's in the listing sets
 */
export async function findOwners({ connection, keys }: Context, members: readonly string[]): Promise<Owners> {
  const owners: Owners = {};
  if (members.length === 0) return owners;
  const kinds = { tenant: keys.listByTenant(""), session: keys.listBySession("") };
  const find = async (kind: keyof Owners, found: readonly string[]): Promise<void> => {
    const lists = found.filter((key) => key.startsWith(kinds[kind]));
    const replies = await askEach(connection, lists, (client, key) => client.zmscore(key, ...members));
    const at = replies.findIndex((reply) => Array.isArray(reply) && reply.some((score) => score !== null));
    if (at >= 0) owners[kind] = (lists[at] as string).slice(kinds[kind].length);
  };
  for await (const page of scan({ connection, keys }, `${toPattern(keys.prefix)}:r:list:*`)) {
    await find("tenant", page);
    await find("session", page);
    if (owners.tenant !== undefined && owners.session !== undefined) break;
  }
  return owners;
}

/** In a script, so that it is done by the one node of a cluster that has the keys. KEYS: 1 one of these. ARGV: as SCAN takes them. */
const scanScript = "return redis.call('SCAN', ARGV[1], 'MATCH', ARGV[2], 'COUNT', ARGV[3])";

async function* scan({ connection, keys }: Context, pattern: string): AsyncGenerator<string[]> {
  let cursor = "0";
  do {
    const input = { keys: [keys.counts], args: [cursor, pattern, scannedAtOnce] };
    const reply = await connection.use((client) => runScript(client, scanScript, input).catch(nothingIfForbidden));
    const [next, page] = reply as unknown as [string, string[]];
    yield page;
    cursor = next;
  } while (cursor !== "0");
}

function nothingIfForbidden(error: unknown): unknown {
  if (redisErrorCode(error) !== "NOPERM") throw error;
  return ["0", []];
}
