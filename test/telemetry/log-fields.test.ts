import { expect, inject, onTestFinished, test } from "vitest";
import { z } from "zod";
import { RetryableError } from "../../src/core/errors.ts";
import { defineAgent } from "../../src/define-agent.ts";
import { createDrover } from "../../src/drover.ts";
import { logFields } from "../../src/telemetry/log-fields.ts";
import { createLogger } from "../../src/telemetry/logger.ts";
import { scriptedModel } from "../../src/testing/scripted-model.ts";
import { defineTool } from "../../src/tools/define-tool.ts";
import { deletePrefix, testPrefix } from "../support/redis.ts";

const parameters = z.object({ note: z.string().describe("What it is about") });
const look = defineTool({
  name: "look",
  description: 'Looks. Example: {"note":"a"}',
  parameters,
  effect: "read",
  retry: { attempts: 2, delayMs: 10 },
  execute({ note }, { attempt, log, progress }) {
    log.info({ note: 1 }, "a tool's own line");
    progress("half way");
    if (attempt === 1) throw new RetryableError("canary-5b1e is busy");
    return note;
  },
});
const pay = defineTool({
  name: "pay",
  description: 'Pays. Example: {"note":"a"}',
  parameters,
  effect: "irreversible",
  execute: ({ note }) => note,
});
const usage = { inputTokens: 100, outputTokens: 10, cachedTokens: 0, costUsd: 0.5 };
const model = scriptedModel(
  [
    {
      toolCalls: [{ name: "look", arguments: { note: "canary-5b1e" } }],
      usage,
      fail: [{ class: "transient", code: "rate_limited", message: "canary-5b1e" }],
    },
    { toolCalls: [{ name: "pay", arguments: { note: "canary-5b1e" } }], usage },
    { text: "canary-5b1e", usage },
  ],
  { retry: { attempts: 2, delayMs: 10 } },
);
const agent = defineAgent({ name: "support", instructions: "", model, tools: [look, pay] });

type Line = Record<string, unknown> & { level: string; message: string };

test("lines of a run carry run, turn and trace, its end its totals, its steps their times, and nothing its content", async () => {
  const [redis, prefix] = [inject("redisUrl"), testPrefix()];
  onTestFinished(() => deletePrefix(redis, prefix));
  const lines: Line[] = [];
  const write = (text: string): void => void lines.push(JSON.parse(text) as Line);
  const logger = createLogger({ level: "debug", destination: { write } });
  const drover = createDrover({ redis, prefix, agents: [agent], logger });
  onTestFinished(() => drover.close());
  await drover.work();
  const run = await drover.start(agent, "canary-5b1e");
  for await (const event of run.events()) {
    if (event.type === "approval_asked") await run.approve(event.callId, { by: "ann" });
  }
  await drover.close();

  const ofRun = lines.filter(({ runId }) => runId === run.id);
  expect(ofRun.length).toBeGreaterThan(10);
  for (const line of ofRun) {
    expect(line).toMatchObject({ traceId: expect.any(String), turn: expect.any(Number) });
  }
  const named = (message: string): Line[] => ofRun.filter((line) => line.message === message);
  expect(named("run ended")).toEqual([
    expect.objectContaining({
      level: "info",
      agent: "support",
      status: "completed",
      stopReason: "answered",
      turns: 3,
      inputTokens: 300,
      outputTokens: 30,
      costUsd: 1.5,
      ms: expect.any(Number),
    }),
  ]);
  for (const step of [...named("model answered"), ...named("tool finished")]) {
    expect(step).toMatchObject({ level: "debug", queueWaitMs: expect.any(Number), performMs: expect.any(Number) });
    expect(step).not.toHaveProperty("ms");
  }
  expect(named("model failed")).toMatchObject([{ level: "warn", error: "rate_limited" }]);
  expect(named("tool failed")).toMatchObject([{ level: "warn", tool: "look", error: "retryable" }]);
  expect(JSON.stringify(lines)).not.toContain("canary-5b1e");

  const known = new Set([...Object.keys(logFields), "level", "time", "message", "note"]);
  const strange = lines.flatMap((line) => Object.keys(line).filter((field) => !known.has(field)));
  expect([...new Set(strange)]).toEqual([]);
});
