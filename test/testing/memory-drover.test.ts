import { describe, expect, test } from "vitest";
import { z } from "zod";
import { defineAgent } from "../../src/define-agent.ts";
import { manualClock } from "../../src/testing/manual-clock.ts";
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

  test("shows its fleet: a worker while it works, what waits, limits and runs", async () => {
    const clock = manualClock(1_000);
    const began = Promise.withResolvers<void>();
    const release = Promise.withResolvers<string>();
    const hold = defineTool({
      name: "hold",
      description: "Waits.",
      parameters: z.object({}),
      effect: "read",
      queue: "slow",
      concurrency: 1,
      execute: () => {
        began.resolve();
        return release.promise;
      },
    });
    const model = scriptedModel([{ toolCalls: [{ name: "hold", arguments: {} }] }, "done"]);
    const agent = defineAgent({ name: "holder", instructions: "", model, tools: [hold] });
    const drover = createMemoryDrover({ agents: [agent], clock });
    const run = await drover.start(agent, "go", { runId: "run-a" });
    clock.advance(5_000);
    const idle = await drover.fleet();
    expect(idle).toMatchObject({ at: 6_000, workers: [], counts: { queued: 1 }, redis: { roundTripMs: 0 } });
    expect(idle.owing).toEqual({ count: 1, oldestSince: 1_000 });
    expect(idle.queues.find(({ name }) => name === "model")).toMatchObject({
      waiting: 1,
      oldestAgeMs: 5_000,
      workers: 0,
    });
    const worker = await drover.work();
    await began.promise;
    const busy = await drover.fleet();
    expect(busy.workers).toMatchObject([{ host: "memory", startedAt: 6_000, running: 1, agents: ["holder"] }]);
    expect(busy.agents).toMatchObject([{ name: "holder", tools: ["hold"] }]);
    expect(busy.queues.find(({ name }) => name === "tools-slow")).toMatchObject({ active: 1, waiting: 0 });
    expect(busy.gates.find(({ name }) => name === "hold")).toMatchObject({ concurrency: 1, inside: 1, waiting: 0 });
    release.resolve("x");
    await run.result();
    await worker.stop();
    expect(await drover.fleet()).toMatchObject({ workers: [], counts: { completed: 1 }, owing: { count: 0 } });
    await drover.close();
  });
});
