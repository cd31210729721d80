// One tool, one agent, one run. The marked part is the README's program; around it stands what lets it run here without
// a key and without a Redis of yours. With OPENAI_API_KEY set, the real model answers.
import { equal, ok } from "node:assert/strict";
import { scriptedModel } from "../src/testing/index.ts";
import { findRedis } from "./support/redis.ts";

process.env.REDIS_URL = await findRedis();
const standIn = process.env.OPENAI_API_KEY
  ? undefined
  : scriptedModel([
      { toolCalls: [{ name: "get_weather", arguments: { city: "Oslo" } }] },
      "Yes: it rains in Oslo, at 7 degrees.",
    ]);

// #region program
import { z } from "zod";
import { createDrover, defineAgent, defineTool, openai } from "../src/index.ts";

const weather = defineTool({
  name: "get_weather",
  description: 'Current weather of a city. Example: {"city":"Oslo"}',
  parameters: z.object({ city: z.string().describe("City name in English, e.g. Oslo") }),
  effect: "read",
  execute: ({ city }) => `Rain in ${city}, 7 degrees`,
});
const assistant = defineAgent({
  name: "assistant",
  instructions: "You help travellers.",
  model: standIn ?? openai("gpt-5-mini"),
  tools: [weather],
});
const drover = createDrover({ redis: process.env.REDIS_URL, agents: [assistant] });
await drover.work(); // in this process, and in as many others as you like
const run = await drover.start(assistant, "Do I need an umbrella in Oslo?");
console.log((await run.result()).output);
// #endregion

const { status, turns } = await run.status();
equal(status, "completed");
if (standIn) equal(turns, 2);
const transcript = await run.transcript();
ok(transcript.some((message) => message.role === "tool" && message.outcome === "ok"));
await drover.close();
