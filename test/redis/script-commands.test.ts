import fc from "fast-check";
import { Command, type Redis } from "ioredis";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { runScript } from "../../src/redis/read.ts";
import { makeClient } from "../../src/redis/redis-options.ts";
import { encodeCommand } from "../../src/redis/script-commands.ts";
import { startPrivateRedis } from "../support/redis-server.ts";

const argument = fc.oneof(
  fc.string({ unit: "binary" }),
  fc.constantFrom("", "é", "日本", "😀", "\r\n", "$3\r\nabc"),
  fc.uint8Array({ maxLength: 40 }).map((bytes) => Buffer.from(bytes)),
);

test("a command is written as the client library writes it, byte by byte", () => {
  fc.assert(
    fc.property(fc.array(argument, { maxLength: 12 }), (args) => {
      const ours = encodeCommand("evalsha", args);
      const theirs = new Command("evalsha", args).toWritable({});
      expect(Buffer.from(ours as string)).toEqual(Buffer.from(theirs as string));
      expect(typeof ours).toBe(typeof theirs);
    }),
    { numRuns: 2_000 },
  );
});

const echo = "return {KEYS[1], ARGV[1], #ARGV, {ARGV[2] or 'none'}}";

describe("a script", () => {
  let redis: Awaited<ReturnType<typeof startPrivateRedis>>;
  let client: Redis;
  beforeEach(async () => {
    redis = await startPrivateRedis({});
    client = makeClient(redis.url, "worker") as Redis;
    client.on("error", () => {}); // A connection that is killed may be written to first.
  });
  afterEach(async () => {
    client.disconnect();
    await redis.stop();
  });
  const run = (key: string, ...args: (string | number)[]): Promise<unknown> =>
    runScript(client, echo, { keys: [key], args });
  /** How often the server was sent the whole text, and how often the hash. */
  async function calls(): Promise<Record<"eval" | "evalsha", number>> {
    const stats = await client.info("commandstats");
    const of = (name: string): number => Number(new RegExp(`cmdstat_${name}:calls=(\\d+)`).exec(stats)?.[1] ?? 0);
    return { eval: of("eval"), evalsha: of("evalsha") };
  }

  test("goes with its text once per connection, then by its hash", async () => {
    expect(await run("k", "ä", 2)).toEqual(["k", "ä", 2, ["2"]]);
    expect(await Promise.all([run("a", 1), run("b", 1)])).toHaveLength(2);
    expect(await calls()).toEqual({ eval: 1, evalsha: 2 });
    await client.call("CLIENT", "KILL", "SKIPME", "no", "TYPE", "normal");
    expect(await run("k", 1)).toEqual(["k", "1", 1, ["none"]]);
    expect(await calls()).toEqual({ eval: 2, evalsha: 2 });
  });

  test("is sent again with its text when the server has forgotten it, all of those on their way too", async () => {
    await run("k", 1);
    await client.script("FLUSH");
    const replies = await Promise.all(Array.from({ length: 5 }, (_, index) => run(`k${index}`, index)));
    expect(replies.map((reply) => (reply as unknown[])[0])).toEqual(["k0", "k1", "k2", "k3", "k4"]);
    expect((await calls()).eval).toBe(6);
    await run("k", 1);
    expect((await calls()).eval).toBe(6);
  });

  test("takes bytes as they are, and a number of keys that is given with its definition", async () => {
    client.defineCommand("keep", { lua: "redis.call('SET', KEYS[1], ARGV[1]) return 'kept'", numberOfKeys: 1 });
    const { keep } = client as unknown as { keep(key: string, bytes: Buffer): Promise<string> };
    const bytes = Buffer.from([0, 255, 13, 10, 36, 128]);
    expect(await keep.call(client, "k", bytes)).toBe("kept");
    expect(await client.getBuffer("k")).toEqual(bytes);
  });

  test("is part of a transaction, and is not run when that is not", async () => {
    client.defineCommand("add", { lua: "return redis.call('INCRBY', KEYS[1], ARGV[1])", numberOfKeys: 1 });
    const multi = client.multi() as unknown as { add(key: string, by: number): void } & ReturnType<Redis["multi"]>;
    multi.add("n", 2);
    multi.add("n", 3);
    expect(await client.get("n")).toBeNull();
    expect(await multi.exec()).toEqual([
      [null, 2],
      [null, 5],
    ]);
  });

  test("fails with what the server says of it", async () => {
    await client.set("k", "text");
    await expect(
      runScript(client, "return redis.call('LPUSH', KEYS[1], 1)", { keys: ["k"], args: [] }),
    ).rejects.toThrow("WRONGTYPE");
    client.disconnect();
    await expect(run("k", 1)).rejects.toThrow("Connection is closed.");
  });
});

test("scripts of a producer are refused at once while Redis is away", async () => {
  const client = makeClient("redis://127.0.0.1:1", "producer") as Redis;
  await expect(runScript(client, echo, { keys: ["k"], args: [1] })).rejects.toThrow();
  client.disconnect();
});
