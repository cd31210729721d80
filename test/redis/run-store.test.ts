import { inject } from "vitest";
import { connect } from "../../src/redis/connection.ts";
import { createKeys } from "../../src/redis/keys.ts";
import { createRedisRunStore } from "../../src/redis/run-store.ts";
import { outputsContract } from "../contract/outputs.contract.ts";
import { retentionContract } from "../contract/retention.contract.ts";
import { runIndexContract } from "../contract/run-index.contract.ts";
import { runStoreContract, type StoreUnderTest } from "../contract/run-store.contract.ts";
import { sessionsContract } from "../contract/sessions.contract.ts";
import { deletePrefix, testPrefix } from "../support/redis.ts";

async function start(): Promise<StoreUnderTest> {
  const prefix = testPrefix();
  const connection = connect(inject("redisUrl"), { role: "worker" });
  const store = createRedisRunStore({ connection, keys: createKeys(prefix) });
  return {
    store,
    async close() {
      await connection.close();
      await deletePrefix(inject("redisUrl"), prefix);
    },
  };
}

runStoreContract("Redis", start);
runIndexContract("Redis", start);
retentionContract("Redis", start);
sessionsContract("Redis", start);
outputsContract("Redis", start);
