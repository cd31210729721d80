// One tool, one agent, one run: the README's program, marked below. Around it stands what lets it run here without a key
// and without a Redis of yours; with OPENAI_API_KEY set, the real model answers.
import { equal, match } from "node:assert/strict";
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
const model = standIn ?? openai("gpt-5-mini");
const assistant = defineAgent({ name: "assistant", instructions: "You help travellers.", model, tools: [weather] });

const drover = createDrover({ redis: process.env.REDIS_URL, agents: [assistant] });
await drover.work(); // in this process, and in as many others as you like
const run = await drover.start(assistant, "Do I need an umbrella in Oslo?");
const { status, output } = await run.result();
console.log(status, output);
await drover.close();
// #endregion

equal(status, "completed");
match(output ?? "", /\w/);
// One request for the call, one with its result.
if (standIn) equal(standIn.requests.length, 2);
