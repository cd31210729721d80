// Catches: a commit that breaks off at a key that all runs share, of another type say, and leaves its run damaged for good.
import { expect, test } from "vitest";
import { connect } from "../../src/redis/connection.ts";
import { createKeys } from "../../src/redis/keys.ts";
import { createRedisRunStore } from "../../src/redis/run-store.ts";
import { newRun, runCreated, user } from "../contract/run-fixtures.ts";
import { startTestRedis } from "../support/redis.ts";

test.each(["owing", "counts"] as const)(
  "a commit that a shared key stopped is made once that is mended: %s",
  async (shared) => {
    const redis = await startTestRedis({ own: true });
    const connection = connect(redis.url, { role: "worker" });
    const keys = createKeys(redis.prefix);
    const store = createRedisRunStore({ connection, keys });
    const run = newRun();
    await store.create(run, [user("hi")], [runCreated(run)]);
    await redis.cli("DEL", keys[shared]);
    await redis.cli("SET", keys[shared], "x");
    const next = {
      ...run,
      revision: 2,
      token: "t2",
      status: "cancelled" as const,
      endedAt: run.updatedAt,
      model: undefined,
      messageCount: 2,
      eventSeq: 2,
    };
    const change = {
      previous: run,
      run: next,
      append: [{ type: "message" as const, message: user("more") }],
      results: [],
      entries: [{ ...runCreated(run), seq: 2 }],
    };
    await expect(store.commit(change as never)).rejects.toThrow("WRONGTYPE");
    expect((await store.loadWithMessages(run.runId))?.messages).toHaveLength(1);
    await redis.cli("DEL", keys[shared]);
    expect(await store.commit(change as never)).toEqual({ committed: true });
    expect(await store.readFeed(run.runId, 0, 10)).toHaveLength(2);
    await connection.close();
    await redis.stop();
  },
);
