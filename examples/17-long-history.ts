// A run whose history is many times its window: the model is sent the goal, a summary of the older part and the last
// turns, within a budget of tokens. Everything is kept; only what is sent is shaped.
import { equal, ok } from "node:assert/strict";
import { z } from "zod";
import { createDrover, defineAgent, defineTool } from "../src/index.ts";
import { scriptedModel } from "../src/testing/index.ts";
import { findRedis } from "./support/redis.ts";

const turns = 40;
const readPage = defineTool({
  name: "read_page",
  description: 'Reads one page of the archive. Example: {"page":1}',
  parameters: z.object({ page: z.int().describe("Number of the page, from 1") }),
  effect: "read",
  execute: ({ page }) => `Page ${page}. ${"Nothing of interest here. ".repeat(40)}`,
});

// What the model is sent in each turn: how many messages, and how many characters.
const sent: { messages: number; characters: number }[] = [];
const model = scriptedModel([
  ...Array.from({ length: turns }, (_, index) => (request: { messages: unknown[] }) => {
    sent.push({ messages: request.messages.length, characters: JSON.stringify(request.messages).length });
    return { toolCalls: [{ name: "read_page", arguments: { page: index + 1 } }] };
  }),
  "Nothing of interest in the whole archive.",
]);

const archivist = defineAgent({
  name: "archivist",
  instructions: "You search archives.",
  model,
  tools: [readPage],
  limits: { maxTurns: 100 },
  window: { budgetTokens: 4_000, lastTurns: 6, remindEvery: 3 },
});

const drover = createDrover({ redis: await findRedis(), agents: [archivist] });
await drover.work();
const run = await drover.start(archivist, "Search the archive for anything of interest.");
const { status } = await run.result({ timeoutMs: 30_000 });
equal(status, "completed");

const kept = await run.transcript();
const largest = Math.max(...sent.map(({ characters }) => characters));
console.log(`kept: ${kept.length} messages, ${JSON.stringify(kept).length} characters`);
console.log(`sent: at most ${largest} characters at a time; in the last turn ${sent.at(-1)?.messages} messages`);
for await (const event of run.events()) {
  if (event.type === "summarised")
    console.log(`after turn ${event.turn}: messages before ${event.upTo} were condensed`);
}
equal(kept.length, 1 + 2 * turns + 1);
ok(JSON.stringify(kept).length > 2 * largest);
await drover.close();
