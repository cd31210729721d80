import { connect } from "../../redis/connection.ts";
import { createSilentLogger } from "../../telemetry/logger.ts";

/** Deletes everything under a demo's own prefix. Best effort: a Redis that is gone has nothing to clean. */
export async function deleteAll(redisUrl: string, prefix: string): Promise<void> {
  const connection = connect(redisUrl, { role: "producer", logger: createSilentLogger(), name: "drover-demo" });
  try {
    let cursor = "0";
    do {
      const [next, keys] = await connection.use((client) => client.scan(cursor, "MATCH", `${prefix}:*`, "COUNT", 1000));
      if (keys.length > 0) await connection.use((client) => client.unlink(...keys));
      cursor = next;
    } while (cursor !== "0");
  } catch {
    // Nothing to be done about it, and nothing that matters.
  } finally {
    await connection.close();
  }
}
