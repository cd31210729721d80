// Catches: a run that ends because its history grew, or that costs more with each turn.
import { expect, test } from "vitest";
import { z } from "zod";
import { createDrover, defineAgent, defineTool, openai } from "../../src/index.ts";
import { tokenCounter } from "../../src/tokens/token-counter.ts";
import { type FakeMessage, startFakeOpenai } from "../support/fake-openai.ts";
import { startTestRedis } from "../support/redis.ts";

const turns = 300;
const budgetTokens = 6_000;

test("a run of 300 turns over ten times its budget finishes, each request within it and the cost per turn flat", async () => {
  const { count } = await tokenCounter("gpt-5-mini");
  const sizes: number[] = [];
  let summaries = 0;
  let summarised = 0;
  const server = await startFakeOpenai({
    respond: ({ body }) => {
      const tokens = body.messages.reduce((sum, message) => sum + count(wordsOf(message)), 0);
      expect(tokens).toBeLessThanOrEqual(budgetTokens);
      if (!body.tools) {
        summaries += 1;
        summarised += tokens;
        return { text: `Nothing in the first layers. ${"Sand and stones everywhere. ".repeat(20)}` };
      }
      sizes.push(tokens);
      const depth = sizes.length;
      return depth > turns ? "The needle." : { toolCalls: [{ name: "dig", arguments: { depth } }] };
    },
  });
  const dig = defineTool({
    name: "dig",
    description: 'Digs at a depth. Example: {"depth":3}',
    parameters: z.object({ depth: z.int().describe("Metres") }),
    effect: "read",
    execute: ({ depth }) => `Depth ${depth}: ${`layer ${depth} of sand, stones and roots; `.repeat(25)}`,
  });
  const digger = defineAgent({
    name: "digger",
    instructions: "You dig.",
    model: openai({ model: "gpt-5-mini", baseURL: server.url, apiKey: "none" }),
    tools: [dig],
    limits: { maxTurns: 1_000 },
    request: { max_completion_tokens: 500 },
    window: { budgetTokens },
  });
  const redis = await startTestRedis();
  const drover = createDrover({ redis: redis.url, prefix: redis.prefix, agents: [digger] });
  try {
    await drover.work();
    const run = await drover.start(digger, "Find the needle.");
    expect(await run.result({ timeoutMs: 100_000 })).toMatchObject({ status: "completed", turns: turns + 1 });
    const transcript = await run.transcript();
    expect(transcript).toHaveLength(2 * turns + 2);
    const kept = transcript.reduce((sum, { content }) => sum + count(String(content ?? "")), 0);
    expect(kept).toBeGreaterThan(10 * budgetTokens);
    const mean = (from: number): number => sizes.slice(from, from + 100).reduce((a, b) => a + b, 0) / 100;
    expect(mean(200) / mean(100)).toBeLessThan(1.1);
    expect(summaries).toBeLessThan(60);
    expect(summarised / turns).toBeLessThan(budgetTokens / 4);
  } finally {
    await drover.close();
    await server.stop();
    await redis.stop();
  }
}, 120_000);

function wordsOf({ content, tool_calls: calls = [] }: FakeMessage): string {
  return [content ?? "", ...calls.map((call) => `${call.function.name} ${call.function.arguments}`)].join(" ");
}
