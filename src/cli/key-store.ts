import type { KeyStore } from "../ports.ts";
import { connect } from "../redis/connection.ts";
import { createRedisKeyStore } from "../redis/key-store.ts";
import { createKeys } from "../redis/keys.ts";
import type { Context } from "./context.ts";

/**
 * Runs `fn` with the keys that are kept in Redis, and Redis's time.
 *
 * @throws DroverError "queue_unavailable" when Redis is away.
 */
export async function withKeys<T>(
  context: Context,
  redis: string,
  fn: (store: KeyStore, now: number) => Promise<T>,
): Promise<T> {
  const connection = connect(redis, { role: "producer", name: "drover-keys" });
  try {
    const [seconds] = (await connection.use((client) => client.time())) as unknown as [string];
    const store = createRedisKeyStore({ connection, keys: createKeys(context.config().prefix) });
    return await fn(store, Number(seconds) * 1_000);
  } finally {
    await connection.close();
  }
}
