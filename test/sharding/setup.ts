import { randomBytes } from "node:crypto";
import { inject } from "vitest";
import type { RunStore } from "../../src/ports.ts";
import type { ShardStore } from "../../src/ports-sharding.ts";
import { connect, type RedisConnection } from "../../src/redis/connection.ts";
import { createKeys, type Keys } from "../../src/redis/keys.ts";
import { createRedisRunStore } from "../../src/redis/run-store.ts";
import { createRedisShardStore } from "../../src/redis/shard-store.ts";
import { createPlacement, type Placement } from "../../src/sharding/placement.ts";
import { createShardedRunStore } from "../../src/sharding/sharded-run-store.ts";
import { shardPrefixes } from "../../src/sharding/slots.ts";
import { cliOf, deletePrefix, testPrefix } from "../support/redis.ts";

export type Shards = {
  /** A store as one process has it: what it remembers is its own. */
  open(wrap?: (store: ShardStore, shard: number) => ShardStore): { store: RunStore; placement: Placement };
  keys: Keys[];
  prefixes: string[];
  connection: RedisConnection;
  cli: ReturnType<typeof cliOf>;
  close(): Promise<void>;
};

/** Some shards on the shared server, under a prefix of their own. */
export function setUpShards(count = 3): Shards {
  const url = inject("redisUrl");
  const prefix = testPrefix();
  const prefixes = shardPrefixes(prefix, count);
  const connection = connect(url, { role: "worker" });
  const keys = prefixes.map((own) => createKeys(own, prefix));
  const base = createRedisRunStore({ connection, keys: createKeys(prefix) });
  return {
    keys,
    prefixes,
    connection,
    cli: cliOf(url),
    open(wrap = (store) => store) {
      const stores = keys.map((own, shard) => wrap(createRedisShardStore({ connection, keys: own }), shard));
      const placement = createPlacement(stores);
      const token = (): string => randomBytes(8).toString("hex");
      const pause = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));
      return { placement, store: createShardedRunStore({ placement, base, token, pause }) };
    },
    async close() {
      await connection.close();
      for (const own of [prefix, ...prefixes]) await deletePrefix(url, own);
    },
  };
}
