import { afterEach, beforeEach, describe, expect, inject, test } from "vitest";
import { connect, type RedisConnection } from "../../src/redis/connection.ts";
import { createKeys, type Keys } from "../../src/redis/keys.ts";
import { createRedisRunStore } from "../../src/redis/run-store.ts";
import { withShardCount } from "../../src/redis/shard-count.ts";
import { created } from "../contract/run-fixtures.ts";
import { cliOf, deletePrefix, testPrefix } from "../support/redis.ts";
import { startPrivateRedis } from "../support/redis-server.ts";

const url = inject("redisUrl");
const cli = cliOf(url);

describe("the number of shards", () => {
  let connection: RedisConnection;
  let keys: Keys;
  beforeEach(() => {
    connection = connect(url, { role: "worker" });
    keys = createKeys(testPrefix());
  });
  afterEach(async () => {
    await connection.close();
    await deletePrefix(url, keys.prefix);
  });

  const ping = (shards: number): Promise<string> =>
    withShardCount(connection, keys, shards).use((client) => client.ping());

  test("is decided by whoever comes first, and another one is refused by name", async () => {
    expect(await ping(4)).toBe("PONG");
    expect(await cli("GET", keys.shards)).toBe("4");
    expect(await ping(4)).toBe("PONG");
    for (const other of [1, 3, 40]) {
      const refused = ping(other);
      await expect(refused).rejects.toMatchObject({ code: "unsupported" });
      await expect(refused).rejects.toThrow(/has 4 shards.*told of .*DROVER_SHARDS/);
    }
    expect(await cli("GET", keys.shards)).toBe("4");
  });

  test("one is decided just the same, so that no other process spreads what this one writes", async () => {
    expect(await ping(1)).toBe("PONG");
    await expect(ping(2)).rejects.toThrow(/has 1 shard,/);
  });

  test("of many who begin together one decides", async () => {
    const all = await Promise.allSettled([1, 2, 3, 4, 1, 2, 3, 4].map(ping));
    expect(all.filter(({ status }) => status === "fulfilled")).toHaveLength(2);
  });

  test("runs that were made before there were shards are not left behind", async () => {
    await created(createRedisRunStore({ connection, keys }));
    await expect(ping(2)).rejects.toThrow(/made without shards.*another prefix/);
    expect(await cli("EXISTS", keys.shards)).toBe(0);
    expect(await ping(1)).toBe("PONG");
  });

  test("need not be noted to reach a server that takes no writes, unless there are several", async () => {
    const full = await startPrivateRedis({ own: true, args: ["--maxmemory", "1"] });
    const wire = connect(full.url, { role: "worker" });
    try {
      expect(await withShardCount(wire, keys, 1).use((client) => client.ping())).toBe("PONG");
      await expect(withShardCount(wire, keys, 2).use((client) => client.ping())).rejects.toThrow(/memory/);
    } finally {
      await wire.close();
      await full.stop();
    }
  });

  test("is asked for once, and again after it could not be told", async () => {
    let asked = 0;
    let broken = true;
    const counting: RedisConnection = {
      ...connection,
      async use(fn) {
        asked += 1;
        if (broken) throw new Error("away");
        return connection.use(fn);
      },
    };
    const guarded = withShardCount(counting, keys, 2);
    await expect(guarded.use((client) => client.ping())).rejects.toThrow("away");
    broken = false;
    asked = 0;
    await Promise.all([1, 2, 3].map(() => guarded.use((client) => client.ping())));
    expect(asked).toBe(4);
    await guarded.use((client) => client.ping());
    expect(asked).toBe(5);
  });
});
