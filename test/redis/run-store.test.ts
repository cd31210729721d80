import { inject } from "vitest";
import { connect } from "../../src/redis/connection.ts";
import { createKeys } from "../../src/redis/keys.ts";
import { createRedisRunStore } from "../../src/redis/run-store.ts";
import { runStoreContract } from "../contract/run-store.contract.ts";
import { deletePrefix, testPrefix } from "../support/redis.ts";

runStoreContract("Redis", async () => {
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
});
