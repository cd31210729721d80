import { describe, expect, inject, test, vi } from "vitest";
import { checkRedis, type Finding } from "../../src/redis/check.ts";
import { connect, type RedisConnection } from "../../src/redis/connection.ts";
import { startTestRedis } from "../support/redis.ts";
import { freePort } from "../support/redis-server.ts";

async function check(url: string, options?: Parameters<typeof checkRedis>[1]): Promise<Finding[]> {
  const connection = connect(url, { role: "worker" });
  try {
    return await checkRedis(connection, options);
  } finally {
    await connection.close();
  }
}

/** A server that answers as told; for versions that cannot be had. */
function fakeServer(info: string, config: (name: string) => string | Error): RedisConnection {
  const client = {
    info: async () => info,
    config: async (_get: string, name: string) => {
      const value = config(name);
      if (value instanceof Error) throw value;
      return [name, value];
    },
    time: async () => [String(Math.floor(Date.now() / 1_000)), "0"],
  };
  return { client, ready: async () => {} } as unknown as RedisConnection;
}

const fine = (name: string): string =>
  ({ "maxmemory-policy": "noeviction", appendonly: "yes", appendfsync: "everysec", save: "" })[name] ?? "";

describe("the check of a server", () => {
  test("finds nothing wrong with one that is set up well", async () => {
    // Debian 12's own Redis is 7.0.15.
    expect(await check(inject("redisUrl"))).toEqual([]);
  });

  test.each(["volatile-lru", "allkeys-lru"])("refuses the eviction policy %s and says what to set", async (policy) => {
    const redis = await startTestRedis({ args: ["--maxmemory-policy", policy] });
    expect(await check(redis.url)).toEqual([
      {
        severity: "error",
        setting: "maxmemory-policy",
        message: expect.stringMatching(new RegExp(`"${policy}".*"noeviction"`)),
      },
    ]);
    await redis.stop();
  });

  test("warns when a restart or a power cut loses runs", async () => {
    const redis = await startTestRedis({ own: true });
    const findings = async (...settings: [string, string][]): Promise<Finding[]> => {
      for (const [name, value] of settings) await redis.cli("CONFIG", "SET", name, value);
      return check(redis.url);
    };
    expect(await findings(["appendfsync", "no"])).toEqual([
      { severity: "warning", setting: "appendfsync", message: expect.stringContaining('"everysec"') },
    ]);
    expect(await findings(["appendonly", "no"], ["save", "60 1000"])).toEqual([
      {
        severity: "warning",
        setting: "appendonly",
        message: expect.stringMatching(/snapshots.*60 1000.*"appendonly yes"/),
      },
    ]);
    expect(await findings(["save", ""])).toEqual([
      {
        severity: "warning",
        setting: "appendonly",
        message: expect.stringMatching(/nothing is saved.*"appendonly yes"/),
      },
    ]);
    await redis.stop();
  });

  test("warns of what the host does not let it see", async () => {
    const redis = await startTestRedis({ own: true });
    await redis.cli("ACL", "SETUSER", "limited", "on", ">pw", "~*", "+@all", "-config", "-info");
    const limited = redis.url.replace("redis://", "redis://limited:pw@");
    // The client library tells its own readiness check's failure to the console.
    const print = vi.spyOn(console, "warn").mockImplementation(() => {});
    const findings = await check(limited);
    print.mockRestore();
    expect(findings.map(({ severity, setting }) => `${severity} ${setting}`)).toEqual([
      "warning version",
      "warning maxmemory-policy",
      "warning appendonly",
    ]);
    await redis.stop();
  });

  test("takes what INFO tells where CONFIG is refused", async () => {
    const refused = (): Error => new Error("ERR unknown command 'CONFIG'");
    const info = (policy: string, aof: string): string =>
      `redis_version:8.2.0\r\nmaxmemory_policy:${policy}\r\naof_enabled:${aof}\r\n`;
    expect(await checkRedis(fakeServer(info("noeviction", "1"), refused))).toEqual([]);
    const findings = await checkRedis(fakeServer(info("allkeys-lru", "0"), refused));
    expect(findings.map(({ severity, setting }) => `${severity} ${setting}`)).toEqual([
      "error maxmemory-policy",
      "warning appendonly",
    ]);
  });

  test.each([
    ["6.0.16", "error"],
    ["5.0.7", "error"],
    ["6.2.0", "warning"],
    ["7.0.7", "warning"],
    ["7.0.8", undefined],
    ["7.4.1", undefined],
    ["8.0.0", undefined],
    ["10.0.0", undefined],
  ])("judges version %s", async (version, severity) => {
    const [finding] = await checkRedis(fakeServer(`redis_version:${version}\r\n`, fine));
    expect(finding?.severity).toBe(severity);
    if (finding) expect(finding).toMatchObject({ setting: "version", message: expect.stringContaining("Upgrade") });
  });

  test.each([
    [3_600_000, "3600 s ahead of"],
    [-60_000, "60 s behind"],
  ])("warns of a clock that is off by %i ms", async (skew, words) => {
    const findings = await check(inject("redisUrl"), { machineNow: () => Date.now() + skew });
    expect(findings).toEqual([{ severity: "warning", setting: "clock", message: expect.stringContaining(words) }]);
  });

  test("refuses a prefix that a cluster cannot work with", async () => {
    const redis = await startTestRedis({ args: ["--cluster-enabled", "yes"] });
    expect(await check(redis.url, { prefix: "mine" })).toEqual([
      { severity: "error", setting: "prefix", message: expect.stringContaining('"{mine}"') },
    ]);
    expect(await check(redis.url, { prefix: "{mine}" })).toEqual([]);
    expect(await check(redis.url)).toEqual([]);
    await redis.stop();
  });

  test("says that a server cannot be reached", async () => {
    const connection = connect(`redis://127.0.0.1:${await freePort()}`, { role: "producer" });
    await expect(checkRedis(connection)).rejects.toMatchObject({ code: "queue_unavailable" });
    await connection.close();
  });
});
