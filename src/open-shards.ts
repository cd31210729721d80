import { createStepQueue } from "./bullmq/step-queue.ts";
import type { Run } from "./core/run.ts";
import { createIds } from "./ids.ts";
import type { Clock, Logger, RunStore, StepQueue } from "./ports.ts";
import type { RedisConnection } from "./redis/connection.ts";
import { createKeys, type Keys } from "./redis/keys.ts";
import { createRedisRunStore, defaultCacheBytes } from "./redis/run-store.ts";
import { createRedisShardStore } from "./redis/shard-store.ts";
import { createPlacement } from "./sharding/placement.ts";
import { shardOfStore } from "./sharding/retention.ts";
import { createShardedRunStore } from "./sharding/sharded-run-store.ts";
import { createShardedStepQueue } from "./sharding/sharded-step-queue.ts";
import { shardPrefixes } from "./sharding/slots.ts";

/** One shard, or the whole of an installation that has no more. */
export type OpenShard = {
  keys: Keys;
  /** The store and queue of whoever keeps this shard in order. */
  store: RunStore;
  queue: StepQueue;
  /** Says that a step of the run came out of this shard's queue. */
  sawRun: (runId: string) => void;
};

export type OpenShards = {
  store: RunStore;
  queue: StepQueue;
  shards: readonly OpenShard[];
  /** The keys of the shard that a run is in. */
  keysOf(run: Run): Keys;
  close(): Promise<void>;
};

export type OpenShardsOptions = {
  connection: RedisConnection;
  keys: Keys;
  shards: number;
  clock: Clock;
  logger: Logger;
};

/** Runs and steps, in as many shards as there are. One is what there would be without any: same keys, same code. */
export function openShards({ connection, keys, shards: count, clock, logger }: OpenShardsOptions): OpenShards {
  const base = createRedisRunStore({ connection, keys, logger });
  const openQueue = (prefix: string): ReturnType<typeof createStepQueue> =>
    createStepQueue({ connection, prefix, clock, logger });
  if (count === 1) {
    const queue = openQueue(keys.prefix);
    const ports = { store: base, queue };
    return { ...ports, shards: [{ ...ports, keys, sawRun: () => {} }], keysOf: () => keys, close: queue.close };
  }
  const own = shardPrefixes(keys.prefix, count).map((prefix) => createKeys(prefix, keys.prefix));
  const cacheBytes = Math.ceil(defaultCacheBytes / count);
  const placement = createPlacement(
    own.map((keysOfShard) => createRedisShardStore({ connection, keys: keysOfShard, logger, cacheBytes })),
  );
  const queues = own.map(({ prefix }) => openQueue(prefix));
  const { token } = createIds();
  const store = createShardedRunStore({ placement, base, token, pause: (ms) => clock.sleep(ms) });
  return {
    store,
    queue: createShardedStepQueue(queues, placement),
    shards: own.map((keysOfShard, shard) => ({
      keys: keysOfShard,
      store: shardOfStore(store, placement, shard),
      queue: queues[shard] as StepQueue,
      sawRun: (runId) => placement.learn(runId, shard),
    })),
    keysOf: (run) => own[placement.home(run)] as Keys,
    close: async () => void (await Promise.all(queues.map((queue) => queue.close()))),
  };
}
