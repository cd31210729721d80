// Catches: a long result that comes out with holes or broken characters, and one that drives somebody's terminal.
import { afterAll, beforeAll, expect, inject, test } from "vitest";
import { z } from "zod";
import { createDrover, type Drover } from "../../src/drover.ts";
import { defineAgent, defineTool } from "../../src/index.ts";
import { createSilentLogger } from "../../src/telemetry/logger.ts";
import { scriptedModel } from "../../src/testing/index.ts";
import { deletePrefix, testPrefix } from "../support/redis.ts";
import { runDrover } from "./run-drover.ts";

const redis = inject("redisUrl");
const prefix = testPrefix();
const env = { REDIS_URL: redis, DROVER_PREFIX: prefix };
// Pages end within a character.
const whole = `x${"🎉".repeat(1_200_000)}\u001b[2J\r\nthe end`;
let drover: Drover;

beforeAll(async () => {
  const tool = defineTool({
    name: "dump",
    description: "Dumps.",
    parameters: z.object({}),
    effect: "read",
    execute: () => whole,
  });
  const model = scriptedModel([{ toolCalls: [{ name: "dump", arguments: {} }] }, "done"]);
  const agent = defineAgent({ name: "dumper", instructions: "", model, tools: [tool] });
  drover = createDrover({ redis, prefix, agents: [agent], logger: createSilentLogger() });
  await drover.work();
  await (await drover.start(agent, "go", { runId: "dump-1" })).result({ timeoutMs: 30_000 });
});
afterAll(async () => {
  await drover.close();
  await deletePrefix(redis, prefix);
});

test("show --result gives a whole result as it is, from any character on", async () => {
  const shown = await runDrover(["show", "dump-1", "--result", "call-1-1"], { env });
  expect(shown.stdout === `${whole}\n`).toBe(true);
  const rest = await runDrover(["show", "dump-1", "--result", "call-1-1", "--from", "2400008"], { env });
  expect(rest.stdout).toBe(`${whole.slice(2_400_008)}\n`);
});

test("on a terminal, what would be obeyed there is left out", async () => {
  const nodeArgs = ["--import", "data:text/javascript,process.stdout.isTTY=true"];
  const args = ["show", "dump-1", "--result", "call-1-1", "--from", "2400001"];
  const { stdout } = await runDrover(args, { env, nodeArgs });
  expect(stdout).toBe("[2J\nthe end\n");
});

test("says what is wrong with a call that has no result", async () => {
  const { code, stderr } = await runDrover(["show", "dump-1", "--result", "call-9-9"], { env });
  expect(code).not.toBe(0);
  expect(stderr).toContain('Run "dump-1" has no result of call-9-9');
});
