import { describe, expect, test } from "vitest";
import { z } from "zod";
import { defineAgent } from "../../src/define-agent.ts";
import { createMemoryDrover } from "../../src/testing/memory-drover.ts";
import { scriptedModel } from "../../src/testing/scripted-model.ts";
import { defineTool } from "../../src/tools/define-tool.ts";

const add = defineTool({
  name: "add",
  description: 'Adds two numbers. Example: {"a":1,"b":2}',
  parameters: z.object({ a: z.number().describe("first"), b: z.number().describe("second") }),
  effect: "read",
  execute: ({ a, b }) => a + b,
});

describe("createMemoryDrover", () => {
  test("runs an agent with parallel tools to its answer", async () => {
    const model = scriptedModel([
      {
        toolCalls: [
          { name: "add", arguments: { a: 1, b: 2 } },
          { name: "add", arguments: { a: 3, b: 4 } },
        ],
      },
      ({ messages }) =>
        `sums: ${messages.flatMap((message) => (message.role === "tool" ? [message.content] : [])).join(", ")}`,
    ]);
    const agent = defineAgent({ name: "adder", instructions: "Add.", model, tools: [add] });
    const drover = createMemoryDrover({ agents: [agent] });
    await drover.work();
    const run = await drover.start(agent, "add them", { runId: "sum-1" });
    const result = await run.result({ timeoutMs: 5_000 });
    expect(result).toMatchObject({
      runId: "sum-1",
      status: "completed",
      stopReason: "answered",
      output: "sums: 3, 7",
      turns: 2,
    });
    expect((await run.transcript()).map((message) => message.role)).toEqual([
      "user",
      "assistant",
      "tool",
      "tool",
      "assistant",
    ]);
    const types: string[] = [];
    for await (const event of run.events()) types.push(event.type);
    expect(types).toEqual([
      "run_created",
      "run_began",
      "model_answered",
      "tool_finished",
      "tool_finished",
      "messages_appended",
      "text",
      "model_answered",
      "run_ended",
    ]);
    await drover.close();
  });
});
