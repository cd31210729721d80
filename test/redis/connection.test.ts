import { mkdtemp, rm } from "node:fs/promises";
import { createServer, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { inspect } from "node:util";
import { Redis } from "ioredis";
import { describe, expect, inject, onTestFinished, test, vi } from "vitest";
import { connect, createDampedWarning, within } from "../../src/redis/connection.ts";
import { createKeys } from "../../src/redis/keys.ts";
import { type ConnectionRole, toRedisOptions } from "../../src/redis/redis-options.ts";
import type { RedisTarget } from "../../src/redis/redis-target.ts";
import { createRedisRunStore } from "../../src/redis/run-store.ts";
import { newRun, runCreated, user } from "../contract/run-fixtures.ts";
import { startTestRedis } from "../support/redis.ts";
import { freePort } from "../support/redis-server.ts";
import { collectWarnings } from "./setup.ts";

const url = inject("redisUrl");

/** How long `act` took to fail, and with what. */
async function failure(act: () => Promise<unknown>): Promise<{ ms: number; error: unknown }> {
  const startedAt = performance.now();
  const error = await act().then(
    () => "it did not fail",
    (reason: unknown) => reason,
  );
  return { ms: performance.now() - startedAt, error };
}

/** Nothing else happens in this process meanwhile. */
function block(ms: number): void {
  const until = performance.now() + ms;
  while (performance.now() < until);
}

describe("a producer", () => {
  test("fails in under two seconds where nothing listens, saying where and what to do, not the password", async () => {
    const port = await freePort();
    const connection = connect(`redis://user:canary@127.0.0.1:${port}`, { role: "producer" });
    const { ms, error } = await failure(() => connection.use((client) => client.ping()));
    expect(error).toMatchObject({ name: "DroverError", code: "queue_unavailable" });
    expect(String(error)).toMatch(new RegExp(`Redis at 127\\.0\\.0\\.1:${port} .*ECONNREFUSED.*start Redis`));
    expect(inspect(error, { depth: 9 })).not.toContain("canary");
    expect(ms).toBeLessThan(2_000);
    await connection.close();
  });

  test("fails in under two seconds when the server takes connections and says nothing", async () => {
    const sockets: Socket[] = [];
    const server = createServer((socket) => void sockets.push(socket));
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    const { port } = server.address() as { port: number };
    const connection = connect(`redis://127.0.0.1:${port}`, { role: "producer" });
    const { ms, error } = await failure(() => connection.use((client) => client.ping()));
    expect(error).toMatchObject({ code: "queue_unavailable", message: expect.stringContaining("ETIMEDOUT") });
    expect(ms).toBeLessThan(2_000);
    await connection.close();
    for (const socket of sockets) socket.destroy();
    server.close();
  });

  test("says at once that a host name is unknown or a socket is missing", async () => {
    const targets: [RedisTarget, RegExp][] = [
      [{ host: "no-such-host.invalid", port: 1 }, /no-such-host\.invalid:1 .*(ENOTFOUND|EAI_AGAIN)/],
      ["unix:///nowhere/redis.sock", /\/nowhere\/redis\.sock .*ENOENT/],
      ["/nowhere/redis.sock", /\/nowhere\/redis\.sock .*ENOENT/],
    ];
    for (const [target, words] of targets) {
      const connection = connect(target, { role: "producer" });
      const { ms, error } = await failure(() => connection.ready());
      expect(String(error)).toMatch(words);
      expect(ms).toBeLessThan(2_000);
      await connection.close();
    }
  });

  test("fails fast during an outage and works again after it", async () => {
    const redis = await startTestRedis({ own: true });
    const connection = connect(redis.url, { role: "producer" });
    await connection.use((client) => client.set("a", "1"));
    await redis.kill9();
    const { ms, error } = await failure(() => connection.use((client) => client.get("a")));
    expect(error).toMatchObject({ code: "queue_unavailable" });
    expect(ms).toBeLessThan(2_000);
    await redis.restart();
    await vi.waitFor(async () => expect(await connection.use((client) => client.get("a"))).toBe("1"), {
      timeout: 10_000,
    });
    await connection.close();
    await redis.stop();
  });

  test("does not take for silence what it could not hear while its own process was blocked", async () => {
    const connection = connect(url, { role: "producer" });
    const connecting = connection.ready();
    block(2_500);
    await connecting;
    const answer = within(connection.client.ping(), 1_000);
    await new Promise(setImmediate); // it is sent
    block(1_500);
    expect(await answer).toBe("PONG");
    await connection.close();
  });

  test("many that wait at once leave no listener behind", async () => {
    const connection = connect(url, { role: "producer" });
    await Promise.all(Array.from({ length: 100 }, () => connection.use((client) => client.ping())));
    expect(connection.client.listenerCount("ready")).toBeLessThan(5);
    await connection.close();
    await expect(connection.use((client) => client.ping())).rejects.toMatchObject({ code: "stopped" });
    await expect(connection.ready()).rejects.toMatchObject({ code: "stopped" });
  });
});

describe("a password", () => {
  test("that is missing or wrong fails at once and is named as the reason", async () => {
    const redis = await startTestRedis({ args: ["--requirepass", "right"] });
    const address = new URL(redis.url);
    const targets: [string, RegExp][] = [
      [redis.url, /NOAUTH.*password/],
      [`redis://:canary@${address.host}`, /WRONGPASS.*password/],
    ];
    for (const role of ["producer", "worker"] as const) {
      for (const [target, words] of targets) {
        const connection = connect(target, { role });
        const { ms, error } = await failure(() => connection.ready());
        expect(String(error)).toMatch(words);
        expect(String(error)).not.toContain("canary");
        expect(ms).toBeLessThan(1_000);
        await connection.close();
      }
    }
    const connection = connect(`redis://:right@${address.host}`, { role: "worker" });
    expect(await connection.use((client) => client.ping())).toBe("PONG");
    await connection.close();
    await redis.stop();
  });
});

describe("a worker", () => {
  test("waits for Redis to come back, and its command is done then", async () => {
    const redis = await startTestRedis({ own: true });
    const { logger, warnings } = collectWarnings();
    const connection = connect(redis.url, { role: "worker", logger });
    await connection.ready();
    await redis.kill9();
    const answer = connection.use((client) => client.incr("counter"));
    await redis.restart();
    expect(await answer).toBe(1);
    expect(warnings.length).toBeLessThanOrEqual(3);
    await connection.close();
    await redis.stop();
  });

  test("says at start that Redis is not there", async () => {
    const connection = connect(`redis://127.0.0.1:${await freePort()}`, { role: "worker" });
    await expect(connection.ready(300)).rejects.toMatchObject({ code: "queue_unavailable" });
    await connection.close();
  });

  test("leaves a server that turned into a replica, without hurry, and commits when it is primary again", async () => {
    const redis = await startTestRedis({ own: true });
    const { logger, warnings } = collectWarnings();
    const worker = connect(redis.url, { role: "worker", logger });
    const producer = connect(redis.url, { role: "producer", logger });
    await Promise.all([worker.ready(), producer.ready()]);
    let connects = 0;
    worker.client.on("connect", () => {
      connects += 1;
    });
    await redis.cli("REPLICAOF", "127.0.0.1", String(await freePort()));
    await expect(producer.use((client) => client.set("a", "1"))).rejects.toMatchObject({
      code: "queue_unavailable",
      message: expect.stringMatching(/READONLY.*primary/),
    });
    const answer = worker.use((client) => client.set("b", "2"));
    await vi.waitFor(() => expect(connects).toBeGreaterThanOrEqual(3), { timeout: 5_000 });
    const before = connects;
    // The waits double from 50 ms to 2 s; without that there would be a dozen or more in this time.
    await new Promise((resolve) => setTimeout(resolve, 2_000));
    expect(connects - before).toBeLessThanOrEqual(4);
    await redis.cli("REPLICAOF", "NO", "ONE");
    expect(await answer).toBe("OK");
    expect(warnings.length).toBeLessThan(10);
    await Promise.all([worker.close(), producer.close()]);
    await redis.stop();
  });
});

describe("errors", () => {
  test("of a full Redis hold a code and a sentence, and nothing of what was being written", async () => {
    const redis = await startTestRedis({ own: true });
    const { logger, warnings } = collectWarnings();
    const connection = connect(redis.url, { role: "worker", logger });
    const store = createRedisRunStore({ connection, keys: createKeys(redis.prefix), logger });
    await connection.ready();
    await redis.cli("CONFIG", "SET", "maxmemory", "1");
    const run = newRun({ metadata: { secret: "canary" } });
    const { error } = await failure(() => store.create(run, [user("canary")], [runCreated(run)]));
    expect(error).toMatchObject({
      name: "DroverError",
      code: "queue_unavailable",
      message: expect.stringMatching(/OOM.*maxmemory/),
    });
    expect(inspect(error, { depth: 20, showHidden: true })).not.toContain("canary");
    await redis.cli("CONFIG", "SET", "maxmemory", "0");
    expect(await store.load("run-a")).toBeNull();
    expect(await store.create(run, [user("canary")], [runCreated(run)])).toEqual({ created: true });
    expect(warnings.join()).not.toContain("canary");
    await connection.close();
    await redis.stop();
  });

  test("of a command inside a script that the user may not run name the ACL, and the write succeeds once it is extended", async () => {
    const redis = await startTestRedis({ own: true });
    await redis.cli("ACL", "SETUSER", "ours", "on", ">canary", "~*", "&*", "+@all", "-zadd");
    const { host } = new URL(redis.url);
    const connection = connect(`redis://ours:canary@${host}`, { role: "producer" });
    const store = createRedisRunStore({ connection, keys: createKeys(redis.prefix) });
    const run = newRun();
    const { error } = await failure(() => store.create(run, [user("hi")], [runCreated(run)]));
    expect(error).toMatchObject({
      code: "queue_unavailable",
      message: expect.stringMatching(/NOPERM.*extend its ACL/),
    });
    await redis.cli("ACL", "SETUSER", "ours", "+zadd");
    expect(await store.create(run, [user("hi")], [runCreated(run)])).toEqual({ created: true });
    await connection.close();
    await redis.stop();
  });

  test("do not come of channels that the user may not use: what was committed counts as committed", async () => {
    const redis = await startTestRedis({ own: true });
    // As Redis 7 makes a user who is given no channels.
    await redis.cli("ACL", "SETUSER", "ours", "on", ">canary", "~*", "+@all", "resetchannels");
    const { host } = new URL(redis.url);
    const connection = connect(`redis://ours:canary@${host}`, { role: "producer" });
    const store = createRedisRunStore({ connection, keys: createKeys(redis.prefix) });
    const run = newRun();
    expect(await store.create(run, [user("hi")], [runCreated(run)])).toEqual({ created: true });
    const delta = { turn: 1, attempt: 1, execution: "a", text: "hello" };
    await store.publishLive(run.runId, [delta]);
    expect(await store.readLive(run.runId, "0")).toMatchObject({ deltas: [delta] });
    await connection.close();
    await redis.stop();
  });

  test("of a command Redis does not know are told by code alone", async () => {
    const connection = connect(url, { role: "worker" });
    const { error } = await failure(() => connection.use((client) => client.call("NOSUCHCOMMAND", "canary")));
    expect(error).toMatchObject({ code: "queue_unavailable", message: expect.stringContaining("(ERR)") });
    expect(inspect(error, { depth: 20 })).not.toContain("canary");
    await connection.close();
  });

  test("of one kind are logged once in a while, with the number left out", () => {
    const { logger, warnings } = collectWarnings();
    const now = vi.spyOn(performance, "now").mockReturnValue(0);
    const warn = createDampedWarning(logger);
    for (let index = 0; index < 500; index += 1) warn("READONLY", {}, "trouble");
    warn("OOM", {}, "trouble");
    expect(warnings).toHaveLength(2);
    now.mockReturnValue(10_000);
    warn("READONLY", {}, "trouble");
    expect(warnings.slice(2)).toEqual(['trouble {"suppressed":499}']);
    now.mockRestore();
  });
});

describe("options", () => {
  const refused: [RedisTarget, ConnectionRole, string][] = [
    ["redis://localhost?keyPrefix=x:", "producer", "keyPrefix"],
    [{ keyPrefix: "x:" }, "worker", "keyPrefix"],
    [{ commandTimeout: 1_000 }, "worker", "commandTimeout"],
    [{ maxRetriesPerRequest: 5 }, "worker", "maxRetriesPerRequest"],
    [{ autoResendUnfulfilledCommands: false }, "producer", "autoResendUnfulfilledCommands"],
    [{ stringNumbers: true }, "producer", "stringNumbers"],
    [new Redis({ lazyConnect: true, keyPrefix: "x:" }), "producer", "keyPrefix"],
    [new Redis({ lazyConnect: true, maxRetriesPerRequest: 3 }), "worker", "maxRetriesPerRequest"],
  ];
  test.each(refused)("%# that break a queue are refused by name", (target, role, name) => {
    expect(() => connect(target, { role })).toThrow(
      expect.objectContaining({ code: "invalid", message: expect.stringContaining(`"${name}"`) }),
    );
  });

  test("that only limit a producer are fine, and so is what an instance has by default", () => {
    expect(toRedisOptions({ maxRetriesPerRequest: 5 }, "producer").maxRetriesPerRequest).toBe(1);
    expect(toRedisOptions(new Redis({ lazyConnect: true }), "worker").maxRetriesPerRequest).toBeNull();
    expect(toRedisOptions("redis://h", "worker")).toMatchObject({
      host: "h",
      maxRetriesPerRequest: null,
      enableOfflineQueue: true,
    });
  });

  test("have whoever waits for a connection see one more try before it gives up", () => {
    const readyMs = { producer: 1_500, subscriber: 1_500, worker: 5_000 };
    for (const role of ["producer", "subscriber", "worker"] as const) {
      const pauses = Array.from(
        { length: 50 },
        (_, index) => toRedisOptions(url, role).retryStrategy?.(index + 1) ?? 0,
      );
      expect(Math.max(...pauses.map(Number))).toBeLessThan(readyMs[role] - 300);
    }
  });

  test("come from every form of address", () => {
    expect(toRedisOptions("redis://ann:secret@example.org:7000/3", "worker")).toMatchObject({
      host: "example.org",
      port: 7_000,
      username: "ann",
      password: "secret",
      db: 3,
    });
    expect(toRedisOptions("rediss://example.org", "worker").tls).toBeTruthy();
    expect(toRedisOptions("unix:///run/my%20redis.sock", "worker").path).toBe("/run/my redis.sock");
    expect(toRedisOptions({ host: "h", port: 1, tls: { servername: "n" } }, "worker")).toMatchObject({
      host: "h",
      tls: { servername: "n" },
    });
  });

  test("an address that is none, or a client of another kind, is refused without being shown", () => {
    for (const target of ["localhost:6379", "http://canary@host", "", "canary"]) {
      expect(() => connect(target, { role: "worker" })).toThrow(
        expect.objectContaining({ code: "invalid", message: expect.not.stringContaining("canary") }),
      );
    }
    const other = { duplicate: () => ({}) } as unknown as Redis;
    expect(() => connect(other, { role: "worker" })).toThrow(expect.objectContaining({ code: "unsupported" }));
  });

  test("a given instance is copied from and left alone", async () => {
    const given = new Redis(url);
    const connection = connect(given, { role: "subscriber" });
    await connection.use((client) => client.subscribe("c"));
    expect(await given.ping()).toBe("PONG");
    await connection.close();
    expect(given.status).toBe("ready");
    given.disconnect();
  });

  test("a socket file works as an address", async () => {
    const redis = await startTestRedis({ own: true });
    const dir = await mkdtemp(join(tmpdir(), "drover-socket-"));
    onTestFinished(() => rm(dir, { recursive: true }));
    const path = join(dir, "s");
    // Redis makes its socket at start only: a relay stands in for it.
    const { hostname, port } = new URL(redis.url);
    const { connect: connectSocket } = await import("node:net");
    const relay = createServer((socket) => {
      const upstream = connectSocket(Number(port), hostname);
      socket.pipe(upstream).pipe(socket);
      for (const end of [socket, upstream]) end.on("error", () => {});
    });
    await new Promise<void>((resolve) => relay.listen(path, resolve));
    for (const target of [path, `unix://${path}`]) {
      const connection = connect(target, { role: "producer" });
      expect(connection.address).toBe(path);
      expect(await connection.use((client) => client.ping())).toBe("PONG");
      await connection.close();
    }
    relay.close();
    await redis.stop();
  });
});
