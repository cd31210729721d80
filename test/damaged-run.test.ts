// Catches: a run whose record takes no commit, and whose model is asked and tools are run again and again, for nothing.
import { Redis } from "ioredis";
import { expect, inject, onTestFinished, test } from "vitest";
import { z } from "zod";
import { defineAgent } from "../src/define-agent.ts";
import { createDrover } from "../src/drover.ts";
import { createKeys } from "../src/redis/keys.ts";
import { createSilentLogger } from "../src/telemetry/logger.ts";
import { scriptedModel } from "../src/testing/scripted-model.ts";
import { defineTool } from "../src/tools/define-tool.ts";
import { eventually } from "./support/eventually.ts";
import { deletePrefix, testPrefix } from "./support/redis.ts";

test.each(["model", "tool"] as const)("a damaged run costs no more than two calls of its %s", async (stage) => {
  const url = inject("redisUrl");
  const prefix = testPrefix();
  const redis = new Redis(url);
  onTestFinished(async () => {
    redis.disconnect();
    await deletePrefix(url, prefix);
  });
  const keys = createKeys(prefix);
  let calls = 0;
  const spoil = async (): Promise<void> => {
    calls += 1;
    await redis.rpush(keys.run("spoilt").feed, "{}");
  };
  const look = defineTool({
    name: "look",
    description: 'Looks. Example: {"note":"a"}',
    parameters: z.object({ note: z.string() }),
    effect: "read",
    async execute({ note }) {
      if (stage === "tool") await spoil();
      return note;
    },
  });
  const answer = async (): Promise<string> => {
    if (stage === "model") await spoil();
    return "done";
  };
  const model = scriptedModel([{ toolCalls: [{ name: "look", arguments: { note: "a" } }] }, answer]);
  const agent = defineAgent({ name: "a", instructions: "", model, tools: [look] });
  const drover = createDrover({ redis: url, prefix, agents: [agent], logger: createSilentLogger() });
  onTestFinished(() => drover.close());
  await drover.work();
  const run = await drover.start("a", "go", { runId: "spoilt" });
  await eventually(async () => {
    const [, found] = await redis.scan("0", "MATCH", `*${prefix.slice(1, -1)}*:q:model:*-spoilt`, "COUNT", 10_000);
    const [key] = found;
    return (key !== undefined && Number(await redis.hget(key, "ats")) > 4) || undefined;
  });
  expect(calls).toBe(2);
  expect((await run.status()).status).not.toBe("completed");
  await drover.delete("spoilt");
  await expect(run.status()).rejects.toMatchObject({ code: "not_found" });
});
