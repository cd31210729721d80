// Catches: a run that goes on over its limits, or cannot go on when they are widened.
import { expect, test } from "vitest";
import { z } from "zod";
import { defineAgent } from "../../src/define-agent.ts";
import { scriptedModel } from "../../src/testing/index.ts";
import { defineTool } from "../../src/tools/define-tool.ts";
import { makeBench } from "./support.ts";

const look = defineTool({
  name: "look",
  description: "Looks.",
  parameters: z.object({ note: z.string().describe("what") }),
  effect: "read",
  execute: () => "seen",
});
const call = { name: "look", arguments: { note: "a" } };
const drainAll = { advanceTime: true, maxDeliveries: 100 };

test("[G9] a run that used its turns fails before the next call, and goes on from there with more of them", async () => {
  const bench = makeBench();
  const model = scriptedModel([{ toolCalls: [call] }, { toolCalls: [call] }, "done"]);
  const agents = [defineAgent({ name: "a", instructions: "Look.", model, tools: [look], limits: { maxTurns: 2 } })];
  const engine = bench.process({ agents });
  await engine.client.start("a", "go", { runId: "turns" });
  await bench.queue.drain(engine.runStep, drainAll);
  expect(await bench.store.load("turns")).toMatchObject({ status: "failed", stopReason: "max_turns", turns: 2 });
  expect(model.requests.map(({ turn }) => turn)).toEqual([1, 2]);
  await engine.handle("turns").retry({ limits: { maxTurns: 3 } });
  await bench.queue.drain(engine.runStep, drainAll);
  expect(await bench.store.load("turns")).toMatchObject({ status: "completed", turns: 3 });
  expect(model.requests.map(({ turn }) => turn)).toEqual([1, 2, 3]);
});

test("ids of calls that a provider uses again in a later turn stay apart", async () => {
  const bench = makeBench();
  const again = { toolCalls: [{ ...call, id: "call_0" }] };
  const model = scriptedModel([again, again, "done"]);
  const engine = bench.process({ agents: [defineAgent({ name: "a", instructions: "Look.", model, tools: [look] })] });
  await engine.client.start("a", "go", { runId: "ids" });
  await bench.queue.drain(engine.runStep, drainAll);
  const messages = await bench.store.readMessages("ids", 0, 9);
  const ids = messages.flatMap((message) => (message.role === "tool" ? [message.toolCallId] : []));
  expect(ids.length).toBe(2);
  expect(new Set(ids).size).toBe(2);
});
