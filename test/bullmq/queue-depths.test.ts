import { Queue } from "bullmq";
import { Redis } from "ioredis";
import { expect, inject, test } from "vitest";
import { readQueueDepths } from "../../src/bullmq/queue-depths.ts";
import { connect } from "../../src/redis/connection.ts";
import { testPrefix } from "../support/redis.ts";

test("counts what waits, with and without priority, and what is delayed, in queues named by tools too", async () => {
  const prefix = testPrefix();
  const client = new Redis(inject("redisUrl"), { maxRetriesPerRequest: null });
  const connection = connect(inject("redisUrl"), { role: "producer" });
  const none = { waiting: 0, active: 0, delayed: 0 };
  expect(await readQueueDepths(connection, prefix)).toEqual(
    ["runs", "model", "tools"].map((name) => ({ name, ...none })),
  );
  const queue = new Queue("tools-browser", { connection: client, prefix: `${prefix}:q` });
  await queue.add("step", {});
  await queue.add("step", {}, { priority: 5 });
  await queue.add("step", {}, { delay: 60_000 });
  const depths = await readQueueDepths(connection, prefix);
  expect(depths.at(-1)).toEqual({ name: "tools-browser", waiting: 2, active: 0, delayed: 1 });
  await queue.close();
  await connection.close();
  client.disconnect();
});
