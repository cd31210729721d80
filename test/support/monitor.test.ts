// Catches: a monitor that breaks on what others send, or that tells other commands than were sent.
import { Redis } from "ioredis";
import { expect, onTestFinished, test } from "vitest";
import { commandsDuring, startMonitor } from "./monitor.ts";
import { startTestRedis, testPrefix } from "./redis.ts";

test("tells what was sent under a prefix, byte by byte, while others send without a pause", async () => {
  const redis = await startTestRedis({ own: true });
  onTestFinished(() => redis.stop());
  const client = new Redis(redis.url);
  const others = new Redis(redis.url);
  onTestFinished(() => {
    for (const each of [client, others]) each.disconnect();
  });
  let isOver = false;
  const noise = (async () => {
    while (!isOver) await Promise.all(Array.from({ length: 50 }, () => others.set("elsewhere", '" \\ \n')));
  })();
  for (let round = 0; round < 20; round += 1) {
    const prefix = testPrefix();
    const key = `${prefix}:k`;
    const text = `"é" \\ \\x00 \r\n\t\0\x07 ] " 😀 ${round}`;
    const commands = await commandsDuring(redis.url, prefix, async () => {
      await client.set(key, text);
      await client.eval("return redis.call('GET', KEYS[1])", 1, key);
    });
    expect(commands).toEqual([
      { name: "set", args: [key, text], source: expect.stringMatching(/^127\.0\.0\.1:\d+$/) },
      { name: "eval", args: ["return redis.call('GET', KEYS[1])", "1", key], source: expect.any(String) },
      { name: "get", args: [key], source: "lua" },
    ]);
  }
  isOver = true;
  await noise;
});

test("is refused with what the server says", async () => {
  const redis = await startTestRedis({ own: true });
  onTestFinished(() => redis.stop());
  await redis.cli("ACL", "SETUSER", "app", "on", ">secret", "~*", "+@all", "-monitor");
  const url = redis.url.replace("redis://", "redis://app:secret@");
  await expect(startMonitor(url, () => {})).rejects.toThrow(/NOPERM/);
});
