import type { Run } from "../core/run.ts";
import { sessionTranscript } from "../core/session.ts";
import type { CommitResult, RunStore } from "../ports.ts";
import type { ShardStore } from "../ports-sharding.ts";
import { createInShards, removeDamagedFromShards, removeFromShards } from "./claim.ts";
import { countShards, listShards, owingOfShards } from "./merge.ts";
import type { Placement } from "./placement.ts";
import { retentionOf } from "./retention.ts";

export type ShardedRunStoreOptions = {
  placement: Placement;
  /** Keeps what belongs to no run: leases and agent definitions. */
  base: Pick<RunStore, "tryLease" | "putDefinition" | "getDefinition" | "removeDefinitions">;
  /** A short random token, new each time. */
  token: () => string;
  /** Waits that many ms. */
  pause: (ms: number) => Promise<unknown>;
};

const sessionNames = sessionTranscript("");

/**
 * Many run stores as one. A run lives in one of them with all that is its own: a run of a session in its session's, any
 * other in that of its id. Contract and guarantees: `RunStore`.
 */
export function createShardedRunStore(options: ShardedRunStoreOptions): RunStore {
  const { placement, base } = options;
  const { store, of } = placement;

  /** In the shard of a run. A run that is nowhere is asked for where it would be by its id. */
  function at<T>(runId: string, act: (shard: ShardStore) => Promise<T>): Promise<T> {
    const known = placement.known(runId);
    if (known !== undefined) return act(store(known));
    return placement.find(runId).then((shard = of(runId)) => act(store(shard)));
  }

  return {
    create: (run, messages, entries) => createInShards(options, { run, messages, entries }),
    load: (runId) => read(placement, runId, (shard) => shard.load(runId)),
    loadWithMessages: (runId) => read(placement, runId, (shard) => shard.loadWithMessages(runId)),
    loadWithLastMessage: (runId) => read(placement, runId, (shard) => shard.loadWithLastMessage(runId)),

    // Begun before anything is awaited, so that a commit and the steps it makes owed leave together.
    commit(change) {
      const { run } = change;
      const home = placement.home(run);
      placement.learn(run.runId, home);
      return store(home)
        .commit(change)
        .then((result) => (result.committed || result.run ? result : lookElsewhere(placement, run)));
    },

    readMessages: (name, from, to) =>
      name.startsWith(sessionNames)
        ? store(of(name.slice(sessionNames.length))).readMessages(name, from, to)
        : at(name, (shard) => shard.readMessages(name, from, to)),
    ...sessionsOf(placement),
    putOutput: (runId, ref, text) => at(runId, (shard) => shard.putOutput(runId, ref, text)),
    readOutput: (runId, ref, from, to) => at(runId, (shard) => shard.readOutput(runId, ref, from, to)),
    dropOutputs: (runId, beginning, except) => at(runId, (shard) => shard.dropOutputs(runId, beginning, except)),
    readResults: (runId) => at(runId, (shard) => shard.readResults(runId)),
    readFeed: (runId, after, limit) => at(runId, (shard) => shard.readFeed(runId, after, limit)),
    publishLive: (runId, deltas) => at(runId, (shard) => shard.publishLive(runId, deltas)),
    readLive: (runId, from) => at(runId, (shard) => shard.readLive(runId, from)),
    list: (filter) => listShards(placement, filter),
    count: (filter) => countShards(placement.stores, filter),
    owing: (before, limit, offset) => owingOfShards(placement.stores, before, { limit, offset }),
    dropOwing: async (runId) => (await Promise.all(placement.stores.map((one) => one.dropOwing(runId)))).includes(true),
    remove: (run) => removeFromShards(placement, run),
    removeDamaged: (runId) => removeDamagedFromShards(placement, runId),
    whyDamaged: (runId) => at(runId, (shard) => shard.whyDamaged(runId)),
    ...retentionOf(placement),
    tryLease: base.tryLease,
    putDefinition: base.putDefinition,
    getDefinition: base.getDefinition,
    removeDefinitions: base.removeDefinitions,
  };
}

/** Reads what may be gone from where it was seen last. */
async function read<T>(
  placement: Placement,
  runId: string,
  load: (shard: ShardStore) => Promise<T | null>,
): Promise<T | null> {
  const { store, of, known, learn, forget, find } = placement;
  const seen = known(runId);
  if (seen !== undefined) {
    const found = await load(store(seen));
    if (found) return found;
    forget(runId);
  }
  // Most runs are where their ids belong.
  const own = of(runId);
  const [found, shard] = await Promise.all([load(store(own)), find(runId)]);
  if (found) learn(runId, own);
  return found ?? (shard === undefined || shard === own ? null : load(store(shard)));
}

/** Whoever has the id of a run that is not there any more, as a single store would tell. */
async function lookElsewhere(placement: Placement, { runId }: Run): Promise<CommitResult> {
  placement.forget(runId);
  return { committed: false, run: await read(placement, runId, (shard) => shard.load(runId)) };
}

/** What concerns a session is in its shard, and so are its runs. */
function sessionsOf(
  placement: Placement,
): Pick<RunStore, "readSession" | "dropFromLine" | "claimInput" | "confirmInput"> {
  const { store, of, learn } = placement;
  return {
    async readSession(session, limit) {
      const shard = of(session);
      const state = await store(shard).readSession(session, limit);
      for (const { runId } of state.line) learn(runId, shard);
      return state;
    },
    dropFromLine: (session, entry, lost) => store(of(session)).dropFromLine(session, entry, lost),
    async claimInput(session, inputId, inputHash, refusedBy) {
      const shard = of(session);
      const own = store(shard);
      const [claim, holder] = await Promise.all([
        own.claimInput(session, inputId, inputHash, refusedBy),
        of(inputId) === shard ? null : store(of(inputId)).whereIs(inputId),
      ]);
      // The input's id is a run's, in another shard: as if that run had refused it for the one that is active.
      const isElsewhere = holder === "here" || (holder !== null && holder.shard !== shard);
      if (isElsewhere && claim.runId !== inputId && !claim.taken)
        return own.claimInput(session, inputId, inputHash, claim.runId);
      if (claim.runId !== inputId) learn(claim.runId, shard);
      return claim;
    },
    confirmInput: (session, inputId, claim) => store(of(session)).confirmInput(session, inputId, claim),
  };
}
