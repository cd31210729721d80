// Catches: a job that carries the history, so that each step copies it once more; input of any size; and what failures
// leave behind growing with each of them.
import { describe, expect, onTestFinished, test } from "vitest";
import { z } from "zod";
import { RetryableError } from "../../src/core/errors.ts";
import { defineAgent } from "../../src/define-agent.ts";
import { createDrover, type Drover } from "../../src/drover.ts";
import type { StepSpan } from "../../src/ports.ts";
import { createSilentLogger } from "../../src/telemetry/logger.ts";
import { createNoTelemetry } from "../../src/telemetry/no-telemetry.ts";
import { scriptedModel } from "../../src/testing/scripted-model.ts";
import { defineTool } from "../../src/tools/define-tool.ts";
import { eventually } from "../support/eventually.ts";
import { startTestRedis } from "../support/redis.ts";
import { makeWorld, type World } from "../support/world.ts";
import { tellFigure } from "./support/figure.ts";
import { isLong } from "./support/seed.ts";

/** A turn is a model step and a tool step. */
const turnCount = isLong ? 300 : 100;
const content = "0123456789".repeat(1_024);

const median = (values: number[]): number => values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? 0;

type Sample = { turn: number; jobBytes: number; netBytes: number };

/** Of the job that is at work in this queue: all that it holds, names and values. */
async function activeJobBytes({ redis, keys }: World, queue: string): Promise<number> {
  const [id = ""] = await redis.lrange(`${keys.queuePrefix}:${queue}:active`, 0, 0);
  const fields = await redis.hgetall(`${keys.queuePrefix}:${queue}:${id}`);
  expect(Object.keys(fields)).toContain("data");
  return JSON.stringify(fields).length;
}

async function netBytes({ redis }: World): Promise<number> {
  return Number(/total_net_input_bytes:(\d+)/.exec(await redis.info("stats"))?.[1]);
}

const parameters = z.object({ note: z.string() });

test("[Q24] a step's job is as large at the end of a long run as at its beginning, and its commit takes as long", async () => {
  // Its own, since all that it is sent is counted.
  const server = await startTestRedis({ own: true });
  onTestFinished(() => server.stop());
  const world = await makeWorld({ respond: () => "unused", server });
  const samples: Sample[] = [];
  const commits: { turn: number; ms: number }[] = [];
  const model = scriptedModel(
    Array.from({ length: turnCount }, (_, index) => async () => {
      const turn = index + 1;
      const jobBytes = await activeJobBytes(world, "model");
      samples.push({ turn, jobBytes, netBytes: await netBytes(world) });
      if (turn === turnCount) return "done";
      return { text: `${turn} ${content}`, toolCalls: [{ name: "note", arguments: { note: `${turn} ${content}` } }] };
    }),
  );
  const note = defineTool({
    name: "note",
    description: 'Notes. Example: {"note":"a"}',
    parameters,
    effect: "read",
    execute: (args) => args.note,
  });
  const agent = defineAgent({
    name: "long",
    instructions: "Go on.",
    model,
    tools: [note],
    limits: { maxTurns: 1_000 },
  });
  const telemetry = {
    ...createNoTelemetry(),
    recordStep: ({ turn, commitMs }: StepSpan) => void commits.push({ turn, ms: commitMs }),
  };
  const { redisUrl: redis, prefix } = world.options;
  const drover = createDrover({ redis, prefix, agents: [agent], logger: createSilentLogger(), telemetry });
  onTestFinished(() => drover.close());
  await drover.work({ concurrency: 1 });
  const run = await drover.start("long", "go", { runId: "long-1" });
  expect(await run.result({ timeoutMs: 300_000 })).toMatchObject({ status: "completed", turns: turnCount });

  const sizes = samples.map(({ jobBytes }) => jobBytes);
  // Numbers in it get longer; that is all.
  expect(Math.max(...sizes)).toBeLessThan(Math.min(...sizes) + 40);
  expect(Math.max(...sizes)).toBeLessThan(600);
  const sent = samples.slice(1).map((sample, index) => sample.netBytes - (samples[index]?.netBytes ?? 0));
  const [early, late] = [median(sent.slice(2, 22)), median(sent.slice(-20))];
  expect(late).toBeLessThan(early * 1.1);
  const commitMs = (first: number, last: number): number =>
    median(commits.filter(({ turn }) => turn >= first && turn <= last).map(({ ms }) => ms));
  // Other programs share the machine: whole milliseconds, and one more for the clock's grain.
  const [earlyMs, lateMs] = [commitMs(3, 33), commitMs(turnCount - 30, turnCount)];
  expect(lateMs).toBeLessThanOrEqual(2 * Math.max(1, earlyMs) + 1);
  tellFigure(
    "Q24",
    `a job of ${Math.min(...sizes)} to ${Math.max(...sizes)} bytes at each of ${turnCount} turns; a commit takes ` +
      `${earlyMs.toFixed(2)} ms at the beginning and ${lateMs.toFixed(2)} ms at the end`,
  );
});

describe("what is too large", () => {
  test("[Q24] input of 5 MB is refused by its type, whichever way it comes, and nothing of it is kept", async () => {
    const world = await makeWorld({ respond: () => "done" });
    const input = "x".repeat(5_242_880);
    const refused = world.drover.start("e2e", input, { runId: "big-1" });
    await expect(refused).rejects.toMatchObject({
      code: "too_large",
      message: expect.stringMatching(/1[.,]?0?4?8?.*/),
    });
    expect(await world.drover.list()).toEqual({ runs: [] });
    await world.work();
    await world.plainQueue("runs").add("start", { agent: "e2e", input }, { jobId: "big-2" });
    const rejected = await eventually(() =>
      world.drover
        .get("big-2")
        .status()
        .catch(() => undefined),
    );
    expect(rejected).toMatchObject({ status: "rejected", error: { message: expect.stringContaining("1048576") } });
    expect(await world.redis.memory("USAGE", world.keys.run("big-2").head)).toBeLessThan(10_000);
    const job = `${world.keys.queuePrefix}:runs:big-2`;
    await eventually(async () => ((await world.redis.exists(job)) === 0 ? true : undefined));
    await world.drover.start("e2e", "go", { runId: "big-1" });
    expect(await world.drover.get("big-1").result({ timeoutMs: 20_000 })).toMatchObject({ status: "completed" });
  });

  test("[Q24] 300 failures of one step leave no more behind than a line each", async () => {
    const failures = isLong ? 300 : 100;
    const world = await makeWorld({ respond: () => "unused" });
    const model = scriptedModel([{ toolCalls: [{ name: "flaky", arguments: { note: "a" } }] }, "done"]);
    let jobBytes = 0;
    const flaky = defineTool({
      name: "flaky",
      description: 'Fails. Example: {"note":"a"}',
      parameters,
      effect: "read",
      retry: { attempts: failures + 1, delayMs: 1 },
      async execute(_args, { attempt }) {
        jobBytes = Math.max(jobBytes, await activeJobBytes(world, "tools"));
        if (attempt <= failures) throw new RetryableError(`${attempt} ${content}`, { delayMs: 1 });
        return "at last";
      },
    });
    const agent = defineAgent({ name: "flaky", instructions: "Try.", model, tools: [flaky] });
    const drover = createWith(agent, world);
    await drover.work({ concurrency: 1 });
    const run = await drover.start("flaky", "go", { runId: "flaky-1" });
    expect(await run.result({ timeoutMs: 120_000 })).toMatchObject({ status: "completed", output: "done" });
    expect(jobBytes).toBeLessThan(700);
    const used = async (key: string): Promise<number> => (await world.redis.memory("USAGE", key, "SAMPLES", 0)) ?? 0;
    const { head, messages, feed, results } = world.keys.run("flaky-1");
    const bytes = await Promise.all([head, messages, results].map(used));
    expect(Math.max(...bytes)).toBeLessThan(10_000);
    // Of each failure the feed keeps the error's beginning.
    expect((await used(feed)) / failures).toBeLessThan(2_500);
  });
});

function createWith(agent: ReturnType<typeof defineAgent>, { options }: World): Drover {
  const { redisUrl: redis, prefix } = options;
  const drover = createDrover({ redis, prefix, agents: [agent], logger: createSilentLogger() });
  onTestFinished(() => drover.close());
  return drover;
}
