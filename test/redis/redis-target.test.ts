// Catches: a form of address that is read wrongly, or an option that breaks a queue and is let through.
import { Cluster, Redis } from "ioredis";
import { describe, expect, test } from "vitest";
import { createDrover } from "../../src/drover.ts";
import { connect } from "../../src/redis/connection.ts";
import { type ConnectionRole, toRedisOptions } from "../../src/redis/redis-options.ts";
import { addressOf, isCluster, type RedisTarget, redisSecrets, toClient } from "../../src/redis/redis-target.ts";
import { freePort } from "../support/redis-server.ts";

const nodes = [{ host: "a", port: 7_000 }, "redis://:node-secret@b:7001", 7_002];

describe("sentinels", () => {
  test("are told by a URL: who they are, which group, which database, whose passwords", () => {
    const target = "redis+sentinel://ann:one%21@a:1,b/my%20group/2?sentinelUsername=bob&sentinelPassword=two";
    expect(toRedisOptions(target, "worker")).toMatchObject({
      sentinels: [
        { host: "a", port: 1 },
        { host: "b", port: 26_379 },
      ],
      ...{ name: "my group", db: 2, username: "ann", password: "one!" },
      ...{ sentinelUsername: "bob", sentinelPassword: "two", maxRetriesPerRequest: null },
    });
    expect(redisSecrets(target).map(({ value }) => value)).toEqual(expect.arrayContaining(["one%21", "one!", "two"]));
    expect(toRedisOptions("rediss+sentinel://a/g?servername=n", "producer")).toMatchObject({
      ...{ tls: { servername: "n" }, sentinelTLS: { servername: "n" }, enableTLSForSentinelMode: true },
      maxRetriesPerRequest: 1,
    });
  });

  test.each([
    ["redis+sentinel://a", /which group/],
    ["redis+sentinel://a/group/x", /which group/],
    ["redis+sentinel://a/group/1/2", /which group/],
    ["redis+sentinel://a/group?family=6", /"family".*sentinelUsername/],
    ["redis+sentinel://a/group?ca=/x", /only TLS uses/],
    [{ sentinels: [{ host: "a" }] }, /redis\.name/],
    [{ sentinels: [{ host: "a" }], name: "g", role: "slave" as const }, /"role"/],
  ] satisfies [RedisTarget, RegExp][])("%j is refused", (target, words) => {
    expect(() => toRedisOptions(target, "worker")).toThrow(words);
  });

  test("that are not there are named within two seconds, without a password", async () => {
    const connection = connect(`redis+sentinel://:canary@127.0.0.1:${await freePort()}/group`, { role: "producer" });
    const startedAt = performance.now();
    const error = await connection.use((client) => client.ping()).catch((thrown: unknown) => thrown);
    expect(error).toMatchObject({
      code: "queue_unavailable",
      message: expect.stringMatching(/sentinel group "group".*NOSENTINEL.*no sentinel tells/),
    });
    expect(String(error)).not.toContain("canary");
    expect(performance.now() - startedAt).toBeLessThan(2_000);
    await connection.close();
  });
});

describe("a cluster", () => {
  test("is told by a URL, by options or by an instance", () => {
    const url = toClient("redis+cluster://ann:pw@a:7000,b");
    expect(isCluster(url) && url.options.redisOptions).toMatchObject({ username: "ann", password: "pw" });
    expect(addressOf(url)).toBe("cluster a:7000,b:6379");
    expect(addressOf(toClient({ cluster: nodes }))).toBe("cluster a:7000,b:7001,127.0.0.1:7002");
    const instance = new Cluster(nodes, { lazyConnect: true });
    expect(toClient(instance)).toBe(instance);
    const values = redisSecrets({ cluster: nodes, options: { redisOptions: { password: "all" } } });
    expect(values.map(({ value }) => value)).toEqual(["all", "node-secret"]);
  });

  test.each([
    ["redis+cluster://a/1", "worker", /only one/],
    [{ cluster: [] }, "worker", /redis\.cluster/],
    [{ cluster: nodes, options: { keyPrefix: "x" } }, "worker", /"keyPrefix"/],
    [{ cluster: nodes, options: { scaleReads: "slave" as const } }, "producer", /"scaleReads"/],
    [{ cluster: nodes, options: { redisOptions: { commandTimeout: 1 } } }, "worker", /"commandTimeout"/],
    [{ cluster: nodes, options: { redisOptions: { socketTimeout: 1 } } }, "worker", /"socketTimeout"/],
    [{ cluster: nodes, options: { redisOptions: { maxRetriesPerRequest: 3 } } }, "worker", /"maxRetriesPerRequest"/],
  ] satisfies [RedisTarget, ConnectionRole, RegExp][])("%j as a %s is refused", (target, role, words) => {
    expect(() => toRedisOptions(target, role)).toThrow(words);
  });

  test("wants a hash tag in the prefix: without one nothing starts, and the error names the setting", () => {
    const refusal = expect.objectContaining({
      code: "invalid",
      message: expect.stringMatching(/prefix: "mine" has no hash tag.*"\{mine\}".*DROVER_PREFIX/),
    });
    for (const redis of ["redis+cluster://a:7000", { cluster: nodes }]) {
      expect(() => createDrover({ redis, prefix: "mine" })).toThrow(refusal);
      createDrover({ redis, prefix: "{mine}" });
    }
    createDrover({ redis: new Redis({ lazyConnect: true }), prefix: "mine" });
  });

  test("of which no node is there is named within two seconds", async () => {
    const port = await freePort();
    const connection = connect(`redis+cluster://127.0.0.1:${port}`, { role: "producer" });
    const startedAt = performance.now();
    const error = await connection.use((client) => client.ping()).catch((thrown: unknown) => thrown);
    expect(error).toMatchObject({
      code: "queue_unavailable",
      message: expect.stringMatching(`cluster 127.0.0.1:${port} .*ECONNREFUSED`),
    });
    expect(performance.now() - startedAt).toBeLessThan(2_000);
    await connection.close();
  });
});
