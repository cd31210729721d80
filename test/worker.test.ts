// Catches: a part of the worker that is not wired to the others.
import { expect, inject, onTestFinished, test } from "vitest";
import { defineAgent } from "../src/define-agent.ts";
import { createDrover, type Drover } from "../src/drover.ts";
import { createKeys } from "../src/redis/keys.ts";
import { shardPrefixes } from "../src/sharding/slots.ts";
import { createSilentLogger } from "../src/telemetry/logger.ts";
import { scriptedModel } from "../src/testing/scripted-model.ts";
import { cliOf, deletePrefix, testPrefix } from "./support/redis.ts";

const url = inject("redisUrl");
const talker = defineAgent({
  name: "talker",
  instructions: "Talk.",
  model: scriptedModel([({ runId }) => `answer of ${runId}`]),
});

test.each([1, 3])(
  "the sweeper of a worker wakes a session whose first run's record is lost, of %i shards",
  async (shards) => {
    const prefix = testPrefix();
    const places = [...new Set([prefix, ...shardPrefixes(prefix, shards)])];
    const cli = cliOf(url);
    onTestFinished(async () => {
      for (const own of places) await deletePrefix(url, own);
    });
    const open = (): Drover => {
      const drover = createDrover({ redis: url, prefix, shards, agents: [talker], logger: createSilentLogger() });
      onTestFinished(() => drover.close());
      return drover;
    };
    const producer = open();
    await producer.start(talker, "in first", { runId: "first", session: "chat" });
    await producer.start(talker, "in second", { runId: "second", session: "chat" });
    // Lost, as after a failover; and what it owes is noted since long.
    const lost = places.map(async (place) => {
      const keys = createKeys(place);
      await cli("ZADD", keys.owing, "XX", "1", "first");
      return cli("DEL", keys.run("first").head);
    });
    expect((await Promise.all(lost)).filter((count) => count === 1)).toHaveLength(1);
    await open().work();
    expect(await producer.get("second").result({ timeoutMs: 30_000 })).toMatchObject({ output: "answer of second" });
  },
);
