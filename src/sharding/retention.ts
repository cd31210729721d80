import type { EndedStatus } from "../core/retention.ts";
import type { Removal, RetentionStore, RunStore } from "../ports.ts";
import { releasePointer } from "./claim.ts";
import type { Placement } from "./placement.ts";

/** The page of one shard's ended runs, with the pointers to those that went. */
async function removeEnded(
  placement: Placement,
  shard: number,
  ...page: Parameters<RetentionStore["removeEnded"]>
): Promise<Removal> {
  const result = await placement.store(shard).removeEnded(...page);
  await Promise.all(result.removed.map((runId) => releasePointer(placement, runId, shard)));
  return result;
}

/** Over all shards, one after the other as if they were one list. */
export function retentionOf(placement: Placement): Omit<RetentionStore, "removeDefinitions"> {
  const { stores } = placement;
  return {
    async removeEnded(status, before, limit, { offset = 0, spare } = {}) {
      const all: Removal = { removed: [], kept: 0 };
      let skipped = offset;
      for (const [shard, store] of stores.entries()) {
        const left = limit - all.removed.length - all.kept;
        if (left <= 0) break;
        const there = await store.countEnded(status, before);
        if (skipped < there) {
          const options = { offset: skipped, spare };
          const { removed, kept } = await removeEnded(placement, shard, status, before, left, options);
          all.removed.push(...removed);
          all.kept += kept;
        }
        skipped = Math.max(0, skipped - there);
      }
      return all;
    },
    async removeIdleSessions(before, limit) {
      let looked = 0;
      for (const store of stores) {
        if (looked < limit) looked += await store.removeIdleSessions(before, limit - looked);
      }
      return looked;
    },
    async oldestEnd(status: EndedStatus) {
      return earliest(await Promise.all(stores.map((store) => store.oldestEnd(status))));
    },
    async oldestCreation() {
      return earliest(await Promise.all(stores.map((store) => store.oldestCreation())));
    },
  };
}

function earliest(times: (number | undefined)[]): number | undefined {
  const known = times.filter((at) => at !== undefined);
  return known.length === 0 ? undefined : Math.min(...known);
}

/**
 * The store as whoever keeps one shard in order sees it: what is looked for is looked for there, and what is found is
 * acted on wherever it is. So each shard can have its own sweeper, with its own lease.
 */
export function shardOfStore(whole: RunStore, placement: Placement, shard: number): RunStore {
  const own = placement.store(shard);
  return {
    ...whole,
    async owing(before, limit, offset) {
      const runIds = await own.owing(before, limit, offset);
      for (const runId of runIds) placement.learn(runId, shard);
      return runIds;
    },
    dropOwing: own.dropOwing,
    removeEnded: (...page) => removeEnded(placement, shard, ...page),
    removeIdleSessions: own.removeIdleSessions,
    oldestEnd: own.oldestEnd,
    tryLease: own.tryLease,
  };
}
