// Catches: a feed that does not tell where a step's time went, or claims times for what was never executed.
import { expect, test } from "vitest";
import { z } from "zod";
import { RetryableError } from "../../src/core/errors.ts";
import type { FeedEntry } from "../../src/core/event.ts";
import { defineAgent } from "../../src/define-agent.ts";
import { scriptedModel } from "../../src/testing/index.ts";
import { defineTool } from "../../src/tools/define-tool.ts";
import { type Bench, makeBench, takeStep } from "./support.ts";

const waitMs = 40;
const modelMs = 300;
const toolMs = 70;
const checkMs = 9;

/** A run whose every step waits and takes a known time; the tool fails once, the answer's check refuses once. */
async function play(bench: Bench, loseEach = false): Promise<FeedEntry[]> {
  const { clock } = bench;
  const model = scriptedModel([{ toolCalls: [{ name: "look", arguments: {} }, { name: "none" }] }, "draft", "done"]);
  const { call } = model.client;
  const client: typeof model.client = {
    call: (request) => {
      clock.advance(modelMs);
      return call(request);
    },
  };
  const look = defineTool({
    name: "look",
    description: "Looks.",
    parameters: z.object({}),
    effect: "read",
    execute: (_args, { attempt }) => {
      clock.advance(toolMs);
      if (attempt === 1) throw new RetryableError("busy");
      return "seen";
    },
  });
  const verify = (answer: string): boolean => {
    clock.advance(checkMs);
    return answer === "done";
  };
  const agent = defineAgent({ name: "a", instructions: "Go.", model: { ...model, client }, tools: [look], verify });
  const engine = bench.process({ agents: [agent] });
  const { runId } = await engine.client.start("a", "go");
  for (;;) {
    const [next] = bench.queue.list();
    if (!next) break;
    clock.advance(Math.max(0, next.dueAt - clock.now()) + waitMs);
    if (loseEach) bench.queue.redeliver(takeStep(bench).delivery.step);
    const taken = takeStep(bench);
    taken.end(await engine.runStep(taken.delivery));
  }
  return bench.store.readFeed(runId, 0, 100);
}

const timesOf = (entries: FeedEntry[]): unknown[] =>
  entries.flatMap((entry) => ("ms" in entry && entry.ms ? [[entry.type, ...entry.ms]] : []));

test("every outcome tells how long its step lay in the queue and how long its call took", async () => {
  const entries = await play(makeBench());
  expect(timesOf(entries)).toEqual([
    ["model_answered", waitMs, modelMs],
    ["tool_failed", waitMs, toolMs],
    ["tool_finished", waitMs, toolMs],
    ["model_answered", waitMs, modelMs],
    ["answer_refused", waitMs, checkMs],
    ["model_answered", waitMs, modelMs],
    ["answer_verified", waitMs, checkMs],
  ]);
  // The call of a tool that is not there was settled without being executed.
  const settled = entries.find((entry) => entry.type === "tool_finished" && entry.callId === "call-1-2");
  expect(settled).not.toHaveProperty("ms");
  expect(entries.some((entry) => "deliveries" in entry)).toBe(false);
});

test("a step whose worker was lost tells that it was delivered twice", async () => {
  const entries = await play(makeBench(), true);
  const timed = entries.filter((entry) => "ms" in entry);
  expect(timed.length).toBe(7);
  for (const entry of timed) expect(entry).toMatchObject({ deliveries: 2 });
});
