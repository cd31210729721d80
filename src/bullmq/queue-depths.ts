import { Queue } from "bullmq";
import { defaultPrefix } from "../core/defaults.ts";
import { queuePrefix } from "./step-job.ts";
import type { QueueConnection } from "./step-queue.ts";

/** How many steps (or starts, in the queue `runs`) lie in a queue. */
export type QueueDepth = { name: string; waiting: number; active: number; delayed: number };

const scanCount = 1_000;

/**
 * Depths of the three queues that are always there, and of those that tools named.
 *
 * @param prefix default `{drover}`.
 * @throws DroverError "queue_unavailable"
 */
export async function readQueueDepths(
  connection: QueueConnection,
  prefix: string = defaultPrefix,
): Promise<QueueDepth[]> {
  const names = await listQueues(connection, queuePrefix(prefix));
  return Promise.all(names.map((name) => readDepth(connection, queuePrefix(prefix), name)));
}

async function listQueues(connection: QueueConnection, prefix: string): Promise<string[]> {
  const names = new Set(["runs", "model", "tools"]);
  let cursor = "0";
  do {
    const [next, keys] = await connection.use((client) =>
      client.scan(cursor, "MATCH", `${prefix}:*:meta`, "COUNT", scanCount),
    );
    for (const key of keys) names.add(key.slice(prefix.length + 1, -":meta".length));
    cursor = next;
  } while (cursor !== "0");
  return [...names];
}

async function readDepth(connection: QueueConnection, prefix: string, name: string): Promise<QueueDepth> {
  return connection.use(async (client) => {
    const queue = new Queue(name, { connection: client, prefix, skipMetasUpdate: true });
    queue.on("error", () => undefined); // the command that meets it tells
    try {
      const counts = await queue.getJobCounts("wait", "prioritized", "active", "delayed");
      const { wait = 0, prioritized = 0, active = 0, delayed = 0 } = counts;
      return { name, waiting: wait + prioritized, active, delayed };
    } finally {
      await queue.close();
    }
  });
}
