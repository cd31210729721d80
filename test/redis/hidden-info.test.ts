import { Queue } from "bullmq";
import { onTestFinished, test, vi } from "vitest";
import { makeClient } from "../../src/redis/redis-options.ts";
import { startPrivateRedis } from "../support/redis-server.ts";

// Catches: a client that never gets ready, or a queue that fails, on a host which knows no INFO.
test("a client and BullMQ's queue work where there is no INFO, and print nothing", async ({ expect }) => {
  const redis = await startPrivateRedis({ args: ["--rename-command", "INFO", ""] });
  onTestFinished(() => redis.stop());
  const print = vi.spyOn(console, "warn");
  const client = makeClient(redis.url, "worker");
  onTestFinished(() => client.disconnect());
  const queue = new Queue("q", { connection: client });
  await queue.add("a", {}, { delay: 1 });
  expect(await queue.getJobCounts("delayed")).toEqual({ delayed: 1 });
  await expect(client.info("server")).rejects.toThrow("unknown command");
  expect(await client.info()).toBe("redis_version:6.2.0\r\n");
  await queue.close();
  expect(print).not.toHaveBeenCalled();
});
