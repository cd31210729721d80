import { describe, expect, inject, test } from "vitest";
import { checkRedis } from "../../src/redis/check.ts";
import { connect } from "../../src/redis/connection.ts";
import { createReadiness, watchSettings } from "../../src/redis/watch-settings.ts";
import { eventually } from "../support/eventually.ts";
import { startTestRedis } from "../support/redis.ts";
import { collectWarnings } from "./setup.ts";

const prefix = "{watched}";

describe("the watch on a server's settings", () => {
  test("tells once of what is newly wrong, and once when it is right again", async () => {
    const redis = await startTestRedis({ own: true });
    const connection = connect(redis.url, { role: "worker" });
    const { logger, warnings } = collectWarnings();
    const known = await checkRedis(connection, { prefix });
    const stop = watchSettings({ connection, logger, known, prefix, everyMs: 20 });
    await redis.cli("CONFIG", "SET", "maxmemory-policy", "volatile-lru");
    await eventually(() => warnings[0]);
    await redis.cli("CONFIG", "SET", "maxmemory-policy", "allkeys-lru");
    await eventually(() => warnings[1]);
    await redis.cli("CONFIG", "SET", "maxmemory-policy", "noeviction");
    await eventually(() => warnings[2]);
    // It looks on, and has nothing to say.
    const looksOf = async (): Promise<number> =>
      Number(/cmdstat_config\|get:calls=(\d+)/.exec(String(await redis.cli("INFO", "commandstats")))?.[1]);
    const before = await looksOf();
    await eventually(async () => ((await looksOf()) > before + 12 ? true : undefined));
    stop();
    expect(warnings.map((line) => line.slice(0, 40))).toEqual([
      'maxmemory-policy is "volatile-lru": when',
      'maxmemory-policy is "allkeys-lru": when ',
      "Redis's maxmemory-policy is right again.",
    ]);
    await connection.close();
    await redis.stop();
  });

  test("looks at once when a connection came back, and not at what was known from the start", async () => {
    const redis = await startTestRedis({ args: ["--appendonly", "no"] });
    const connection = connect(redis.url, { role: "worker" });
    const { logger, warnings } = collectWarnings();
    const known = await checkRedis(connection, { prefix });
    const stop = watchSettings({ connection, logger, known, prefix, everyMs: 3_600_000 });
    await redis.cli("CONFIG", "SET", "maxmemory-policy", "allkeys-lru");
    await redis.cli("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes");
    await eventually(() => warnings[0]);
    stop();
    expect(warnings).toEqual([expect.stringContaining('maxmemory-policy is "allkeys-lru"')]);
    await connection.close();
    await redis.stop();
  });
});

describe("readiness", () => {
  test("is given by a server that is set up well, and asks for its settings once in a while only", async () => {
    const connection = connect(inject("redisUrl"), { role: "producer" });
    const ready = createReadiness(connection, { prefix });
    let asked = 0;
    const { config } = connection.client;
    Object.assign(connection.client, {
      config: (...args: Parameters<typeof config>) => {
        asked += 1;
        return config.apply(connection.client, args);
      },
    });
    for (let time = 0; time < 5; time += 1) await ready();
    expect(asked).toBe(4);
    await connection.close();
  });

  test("is refused while anything would be evicted, naming the setting", async () => {
    const redis = await startTestRedis({ args: ["--maxmemory-policy", "volatile-ttl"] });
    const connection = connect(redis.url, { role: "producer" });
    await expect(createReadiness(connection, { prefix })()).rejects.toMatchObject({
      code: "unsupported",
      message: expect.stringContaining('maxmemory-policy is "volatile-ttl"'),
    });
    await redis.stop();
    await expect(createReadiness(connection, { prefix })()).rejects.toMatchObject({ code: "queue_unavailable" });
    await connection.close();
  });
});
