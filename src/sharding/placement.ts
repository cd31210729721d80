import type { ShardStore } from "../ports-sharding.ts";
import { shardOf } from "./slots.ts";

/** Runs whose shard is remembered, in one process. */
const mostRemembered = 50_000;

/** Where runs and sessions are, over the shards of one installation. */
export type Placement = {
  readonly stores: readonly ShardStore[];
  /** The store of a shard. */
  store(shard: number): ShardStore;
  /** The shard an id belongs to. */
  of(id: string): number;
  /** The shard that the run lives in or is to live in: its session's, else that of its own id. */
  home(run: { runId: string; session?: string | undefined }): number;
  /** Where the run was seen last; it may have been deleted since, and made anew elsewhere. */
  known(runId: string): number | undefined;
  learn(runId: string, shard: number): void;
  forget(runId: string): void;
  /** Looks for the run: a round trip, two if it is in no shard at all. Undefined then. */
  find(runId: string): Promise<number | undefined>;
};

export function createPlacement(stores: readonly ShardStore[]): Placement {
  const seen = new Map<string, number>();
  const of = (id: string): number => shardOf(id, stores.length);
  const store = (shard: number): ShardStore => stores[shard] as ShardStore;

  function learn(runId: string, shard: number): void {
    seen.delete(runId);
    seen.set(runId, shard);
    if (seen.size <= mostRemembered) return;
    for (const oldest of seen.keys()) {
      seen.delete(oldest);
      return;
    }
  }

  /** A failover can lose a pointer with its server's last writes: it is put back. */
  async function search(runId: string): Promise<number | undefined> {
    const own = of(runId);
    const all = await Promise.all(stores.map(async (one, shard) => shard !== own && (await one.whereIs(runId))));
    const shard = all.indexOf("here");
    if (shard < 0) return undefined;
    await store(own).point(runId, { shard, claim: "restored" });
    return shard;
  }

  return {
    stores,
    store,
    of,
    home: ({ runId, session }) => of(session ?? runId),
    known: (runId) => seen.get(runId),
    learn,
    forget: (runId) => void seen.delete(runId),
    async find(runId) {
      const where = await store(of(runId)).whereIs(runId);
      let shard = where === "here" ? of(runId) : where?.shard;
      if (shard === undefined) shard = await search(runId);
      if (shard !== undefined) learn(runId, shard);
      return shard;
    },
  };
}
