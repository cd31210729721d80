import { inject } from "vitest";
import type { Run } from "../../src/core/run.ts";
import type { Logger, RunStore } from "../../src/ports.ts";
import { connect, type RedisClient, type RedisConnection } from "../../src/redis/connection.ts";
import { createKeys, type Keys } from "../../src/redis/keys.ts";
import { createRedisRunStore } from "../../src/redis/run-store.ts";
import { change, committed, created, inputReceived, openCall, toolResult, user } from "../contract/run-fixtures.ts";
import { cliOf, deletePrefix, testPrefix } from "../support/redis.ts";

export type StoreSetup = {
  url: string;
  store: RunStore;
  keys: Keys;
  connection: RedisConnection;
  cli: ReturnType<typeof cliOf>;
  warnings: string[];
  close(): Promise<void>;
};

/** A store on the shared server under a prefix of its own, or on another one. */
export function setUpStore(url: string = inject("redisUrl"), prefix: string = testPrefix()): StoreSetup {
  const keys = createKeys(prefix);
  const { logger, warnings } = collectWarnings();
  const connection = connect(url, { role: "worker", logger });
  return {
    url,
    store: createRedisRunStore({ connection, keys, logger }),
    keys,
    connection,
    cli: cliOf(url),
    warnings,
    async close() {
      await connection.close();
      await deletePrefix(url, prefix);
    },
  };
}

export function collectWarnings(): { logger: Logger; warnings: string[] } {
  const warnings: string[] = [];
  const ignore = (): void => {};
  const warn: Logger["warn"] = (fields, message) => void warnings.push(`${message} ${JSON.stringify(fields)}`);
  return { logger: { debug: ignore, info: ignore, warn, error: warn }, warnings };
}

/** A run at work, with something under every key that a run may have. */
export async function atWork(store: RunStore, fields: Partial<Run> = {}, bytes = 100): Promise<Run> {
  const calls = [openCall(1), openCall(2, { state: "settled" })];
  const model = { attempt: 1, owedAt: 1 };
  let run = await created(store, { tenant: "t1", model, ...fields }, [user("x".repeat(bytes))]);
  const parts = { results: [toolResult("call-1-2", "early")], entries: [inputReceived(2)] };
  run = await committed(store, change(run, { status: "running", calls, model: undefined }, parts));
  await store.putOutput(run.runId, "call-1-1.a", "x".repeat(bytes));
  await store.publishLive(run.runId, [{ turn: 1, attempt: 1, execution: "e", text: "x" }]);
  return run;
}

/** A connection to which something happens just before its `n`-th use. */
export function interrupted(
  connection: RedisConnection,
  n: number,
  happen: (client: RedisClient) => unknown,
): RedisConnection {
  let uses = 0;
  return {
    ...connection,
    use: (fn) =>
      connection.use(async (client) => {
        uses += 1;
        if (uses === n) await happen(client);
        return fn(client);
      }),
  };
}

/** Every key, and what is in those of the indexes. */
export async function everything({ cli, keys }: StoreSetup): Promise<Record<string, unknown>> {
  const names = ((await cli("KEYS", `${keys.prefix}*`)) as string[]).toSorted();
  const contents = names.map(async (name) => {
    const type = await cli("TYPE", name);
    if (type === "zset") return cli("ZRANGE", name, "0", "-1", "WITHSCORES");
    return type === "hash" ? cli("HGETALL", name) : cli("DUMP", name);
  });
  const read = await Promise.all(contents);
  return Object.fromEntries(names.map((name, index) => [name, read[index]]));
}
