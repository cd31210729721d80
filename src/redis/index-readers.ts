import { type RunStatus, runStatuses } from "../core/run.ts";
import { parseCountFilter, type RunFilter } from "../core/run-filter.ts";
import type { RunStore } from "../ports.ts";
import type { RedisConnection } from "./connection.ts";
import type { Keys } from "./keys.ts";
import { type ListContext, listRuns } from "./list-runs.ts";
import { maxPage, runScript, scoreOf } from "./read.ts";

/** How runs are found by what commits have noted of them. */
export function createIndexReaders(context: ListContext): Pick<RunStore, "list" | "count" | "owing"> {
  const { connection, keys } = context;
  return {
    list: (filter) => listRuns(context, filter),
    count: async (filter = {}) => countRuns(connection, keys, parseCountFilter(filter)),
    async owing(before, limit, offset = 0) {
      const count = Math.min(limit, maxPage);
      if (count < 1) return [];
      // By rank: LIMIT would walk through all that is left out, and the last pages of a hundred thousand hold Redis up.
      const last = offset + count - 1;
      const page = await connection.use((client) => client.zrange(keys.owing, `${offset}`, `${last}`, "WITHSCORES"));
      return page.filter((_, index) => index % 2 === 0 && scoreOf(page[index + 1] ?? "") < before);
    },
  };
}

/**
 * How many runs there are of each status: the sizes of the listing sets, or, narrowed, what commits have counted. Runs
 * that an older version made are in the narrowed counts from their next change of status on.
 */
async function countRuns(
  connection: RedisConnection,
  keys: Keys,
  { tenant, agent }: Pick<RunFilter, "tenant" | "agent">,
): Promise<Record<RunStatus, number>> {
  if (tenant === undefined && agent === undefined) return countAll(connection, keys);
  const key = tenant === undefined ? keys.counts : keys.countsOfTenant(tenant);
  if (agent !== undefined) {
    const fields = runStatuses.map((status) => `${status} ${agent}`);
    const counts = await connection.use((client) => client.hmget(key, ...fields));
    return toCounts((_, index) => toCount(counts[index]));
  }
  const counts = Object.entries(await connection.use((client) => client.hgetall(key)));
  return toCounts((status) =>
    counts.reduce((sum, [field, count]) => (field.startsWith(`${status} `) ? sum + toCount(count) : sum), 0),
  );
}

/** What another program has put there counts for nothing. */
function toCount(stored: string | null | undefined): number {
  const count = Number(stored ?? 0);
  return Number.isSafeInteger(count) && count > 0 ? count : 0;
}

/** As of one moment. KEYS: the listing sets. */
const sizesScript = `
local sizes = {}
for i, list in ipairs(KEYS) do sizes[i] = redis.call('ZCARD', list) end
return sizes
`;

async function countAll(connection: RedisConnection, keys: Keys): Promise<Record<RunStatus, number>> {
  const input = { keys: runStatuses.map(keys.listByStatus), args: [] };
  const sizes = await connection.use((client) => runScript(client, sizesScript, input));
  return toCounts((_, index) => Number(sizes[index] ?? 0));
}

function toCounts(count: (status: RunStatus, index: number) => number): Record<RunStatus, number> {
  return Object.fromEntries(runStatuses.map((status, index) => [status, count(status, index)])) as Record<
    RunStatus,
    number
  >;
}
