import fc from "fast-check";
import { expect, test } from "vitest";
import type { Run } from "../../src/core/run.ts";
import type { RunFilter } from "../../src/core/run-filter.ts";
import type { RunStore } from "../../src/ports.ts";
import type { ShardStore } from "../../src/ports-sharding.ts";
import { listShards } from "../../src/sharding/merge.ts";
import { createPlacement } from "../../src/sharding/placement.ts";
import { createMemoryRunStore } from "../../src/testing/memory-run-store.ts";
import { createRandom } from "../chaos/support/seed.ts";
import { newRun } from "../contract/run-fixtures.ts";

const manyRuns = fc.uniqueArray(
  fc.record({
    runId: fc.stringMatching(/^[a-c]{1,5}$/),
    // Many are of the same moment.
    createdAt: fc.integer({ min: 1, max: 12 }),
    status: fc.constantFrom("queued", "completed", "failed"),
    agent: fc.constantFrom("one", "two"),
    session: fc.constantFrom(undefined, "chat-1", "chat-2"),
  }),
  { selector: ({ runId }) => runId, minLength: 10, maxLength: 60, size: "max" },
);
// Few fields at a time: what fits hardly any run says little about pages.
const filters = fc
  .tuple(
    fc.oneof(
      fc.constant<RunFilter>({}),
      fc.record({ agent: fc.constantFrom("one", "two") }),
      fc.record({ status: fc.constantFrom("queued", "completed") }),
      fc.record({ session: fc.constantFrom("chat-1", "chat-2") }),
      fc.record({ search: fc.constantFrom("a", "b", "ab", "cab") }),
      fc.record({ createdAfter: fc.integer({ min: 0, max: 6 }), createdBefore: fc.integer({ min: 6, max: 14 }) }),
    ),
    fc.integer({ min: 1, max: 9 }),
  )
  .map(([filter, limit]): RunFilter & { limit: number } => ({ ...filter, limit }));

async function put(store: RunStore, run: Run): Promise<void> {
  await store.create(run, [], []);
}

/** All pages of a listing, one after the other. */
async function walk(list: RunStore["list"], filter: RunFilter & { limit: number }): Promise<string[]> {
  const ids: string[] = [];
  let cursor: string | undefined;
  for (let pages = 0; pages < 1_000; pages += 1) {
    const page = await list({ ...filter, ...(cursor === undefined ? {} : { cursor }) });
    expect(page.runs.length).toBeLessThanOrEqual(filter.limit);
    ids.push(...page.runs.map(({ runId }) => runId));
    if (page.cursor === undefined) return ids;
    cursor = page.cursor;
  }
  throw new Error("a listing that never ends");
}

test("pages merged over shards are the pages of one store: the same runs, in the same order, each once", async () => {
  await fc.assert(
    fc.asyncProperty(
      manyRuns,
      filters,
      fc.integer({ min: 1, max: 5 }),
      fc.integer(),
      async (fields, filter, count, seed) => {
        const random = createRandom(seed);
        const one = createMemoryRunStore();
        const shards = Array.from({ length: count }, () => createMemoryRunStore());
        // A shard's page may be short, as one is that came to the end of what is looked at in one go.
        const short = shards.map((shard) => ({
          ...shard,
          list: (given: RunFilter) => shard.list({ ...given, limit: random.between(1, filter.limit) }),
        }));
        const placement = createPlacement(short as unknown as ShardStore[]);
        for (const given of fields) {
          const run = newRun(given, []);
          await put(one, run);
          await put(shards[placement.home(run)] as RunStore, run);
        }
        const merged = await walk((given) => listShards(placement, given), filter);
        expect(merged).toEqual(await walk(one.list, filter));
      },
    ),
    { numRuns: 300 },
  );
});
