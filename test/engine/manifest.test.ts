import { expect, test } from "vitest";
import { z } from "zod";
import { defineAgent } from "../../src/define-agent.ts";
import { createEngine } from "../../src/engine/engine.ts";
import type { ModelRequest } from "../../src/ports.ts";
import { createSilentLogger } from "../../src/telemetry/logger.ts";
import { createNoTelemetry } from "../../src/telemetry/no-telemetry.ts";
import {
  createMemoryGates,
  createMemoryRunStore,
  createMemorySignals,
  createMemoryStepQueue,
  manualClock,
  scriptedModel,
} from "../../src/testing/index.ts";
import { defineTool } from "../../src/tools/define-tool.ts";
import { checkValue } from "../../src/tools/parameters.ts";

test("[G6] what the model was sent in each turn can be told from what is stored", async () => {
  const sent: ModelRequest[] = [];
  const look = defineTool({
    name: "look",
    description: "Looks.",
    parameters: z.object({ at: z.string() }),
    effect: "read",
    execute: ({ at }) => `saw ${at}`,
  });
  const model = scriptedModel([
    {
      text: "let me see",
      toolCalls: [
        { name: "look", arguments: { at: "a" } },
        { name: "look", arguments: { at: "b" } },
      ],
    },
    { toolCalls: [{ name: "look", arguments: { at: "c" } }] },
    "done",
  ]);
  const call = model.client.call;
  const client = {
    call: (request: ModelRequest) => (
      sent.push(structuredClone({ ...request, signal: null, onText: null }) as never), call(request)
    ),
  };
  const make = (instructions: string) =>
    defineAgent({ name: "a", instructions, model: { ...model, client }, tools: [look], request: { temperature: 0 } });
  let agent = make("Look.");

  const clock = manualClock();
  const signals = createMemorySignals();
  const store = createMemoryRunStore({ clock, signals });
  const queue = createMemoryStepQueue({ clock });
  const agents = { get: () => agent.code };
  let count = 0;
  const ids = { token: () => `t${++count}`, runId: () => "run-1", random: () => 0 };
  const ports = {
    store,
    queue,
    gates: createMemoryGates({ clock }),
    signals,
    clock,
    ids,
    agents,
    telemetry: createNoTelemetry(),
    logger: createSilentLogger(),
  };
  const engine = createEngine({ ...ports, payloadLimitBytes: 1_000_000, checkValue });
  await engine.client.start("a", "what is there?");
  for (let step = 0; await queue.run(engine.runStep); step += 1) {
    // Deployed anew in the middle: the first turn was still sent the old instructions.
    if (step === 0) agent = make("Look twice.");
  }

  const run = await store.load("run-1");
  expect(run).toMatchObject({ status: "completed", turns: 3 });
  const transcript = await store.readMessages("run-1", 0, run?.messageCount ?? 0);
  const answered = (await store.readFeed("run-1", 0, 100)).filter((entry) => entry.type === "model_answered");
  const told = await Promise.all(
    answered.map(async ({ manifest }) => {
      const definition = await store.getDefinition(manifest.agentHash);
      return {
        instructions: definition?.instructions,
        messages: manifest.messages.flatMap(([from, to]) => transcript.slice(from, to)),
        tools: definition?.tools.filter(({ name }) => manifest.tools.includes(name)),
        request: definition?.request,
      };
    }),
  );
  expect(told).toEqual(
    sent.map(({ instructions, messages, tools, request }) => ({ instructions, messages, tools, request })),
  );
  expect(told.map(({ instructions }) => instructions)).toEqual(["Look.", "Look twice.", "Look twice."]);
});
