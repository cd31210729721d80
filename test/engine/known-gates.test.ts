import { expect, test } from "vitest";
import { z } from "zod";
import { defineAgent } from "../../src/define-agent.ts";
import { knownGates } from "../../src/engine/known-gates.ts";
import { openai } from "../../src/openai/openai.ts";
import { defineTool, type Tool } from "../../src/tools/define-tool.ts";

const tool = (name: string, limits: object = {}): Tool =>
  defineTool({ name, description: name, parameters: z.object({}), effect: "read", execute: () => "x", ...limits });
const model = (name: string, limits: object = {}) =>
  openai({ model: name, baseURL: "http://127.0.0.1:9/v1", apiKey: "k", ...limits });

test("are the models and tools of the agents, with the stricter of their own limits and the operators'", () => {
  const summariser = model("small");
  const agents = [
    defineAgent({
      name: "a",
      instructions: "",
      model: model("big", { concurrency: 20 }),
      tools: [tool("limited", { concurrency: 5, rate: { max: 10, perMs: 1_000 } }), tool("plain", { breaker: false })],
      window: { summarise: { model: summariser } },
    }),
    defineAgent({
      name: "b",
      instructions: "",
      model: model("big", { concurrency: 8 }),
      tools: [tool("limited", { concurrency: 3 }), tool("broken")],
    }),
  ];
  const limits = { tools: { limited: { concurrency: 4 }, plain: { rate: { max: 1, perMs: 60_000 } } } };
  const gates = knownGates(
    agents.map(({ code }) => code),
    limits,
  );
  const byName = new Map(gates.map((gate) => [gate.name, gate]));
  expect([...byName.keys()].toSorted()).toEqual(["big", "broken", "limited", "plain", "small"]);
  expect(byName.get("big")).toMatchObject({ kind: "model", key: "model:127.0.0.1:9/big", concurrency: 8 });
  expect(byName.get("small")).toMatchObject({ kind: "model", key: "model:127.0.0.1:9/small" });
  const rate = { max: 10, perMs: 1_000 };
  expect(byName.get("limited")).toMatchObject({ kind: "tool", key: "tool:limited", rate, concurrency: 3 });
  expect(byName.get("plain")).toMatchObject({ key: "tool:plain", rate: { max: 1, perMs: 60_000 } });
  // Nothing limits it, but a breaker may switch it off.
  expect(byName.get("broken")).toMatchObject({ key: "tool:broken", rate: undefined, concurrency: undefined });
});

test("do not tell of a tool that nothing can hold back", () => {
  const agent = defineAgent({
    name: "a",
    instructions: "",
    model: model("m"),
    tools: [tool("free", { breaker: false })],
  });
  expect(knownGates([agent.code], undefined).map(({ key }) => key)).toEqual(["model:127.0.0.1:9/m"]);
});
