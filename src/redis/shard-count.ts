import { DroverError } from "../core/errors.ts";
import type { RedisConnection } from "./connection.ts";
import type { Keys } from "./keys.ts";
import { runScript } from "./read.ts";
import { shardCountScript } from "./shard-scripts.ts";

/**
 * A connection whose first command waits until the installation is known to have that many shards: with another number
 * runs would be looked for where they are not. Whoever comes first decides it.
 *
 * The commands are refused with DroverError "unsupported" if the number is another one.
 */
export function withShardCount(connection: RedisConnection, keys: Keys, shards: number): RedisConnection {
  let isRight = false;
  let asking: Promise<void> | undefined;

  async function ask(): Promise<void> {
    const input = { keys: [keys.shards, keys.listAll, ...keys.listsByStatus], args: [shards] };
    const [held] = await connection.use((client) => runScript(client, shardCountScript, input));
    if (String(held) !== String(shards)) throw refusal(keys, shards, String(held));
    isRight = true;
  }

  return {
    ...connection,
    use(fn) {
      if (isRight) return connection.use(fn);
      // One at a time; after a failure the next one asks again.
      asking ??= ask().finally(() => {
        asking = undefined;
      });
      return asking.then(() => connection.use(fn));
    },
  };
}

function refusal({ prefix, shards: key }: Keys, wanted: number, held: string): DroverError {
  if (held === "unsharded") {
    return new DroverError(
      "unsupported",
      `There are runs under "${prefix}" already that were made without shards, and with ${wanted} shards they would not be found. Use another prefix (DROVER_PREFIX), or leave DROVER_SHARDS at 1.`,
    );
  }
  return new DroverError(
    "unsupported",
    `The installation under "${prefix}" has ${held} ${held === "1" ? "shard" : "shards"}, and this process was told of ${wanted}. Set DROVER_SHARDS (or the option "shards") to ${held} everywhere, or use another prefix. If there are no runs yet, deleting the key "${key}" lets you choose anew.`,
  );
}
