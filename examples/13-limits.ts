// Limits that hold over all workers: a rate, a concurrency, and a circuit breaker with a fallback. A call that must wait
// is parked and holds no worker; nothing is lost by waiting.
import { equal, match, ok } from "node:assert/strict";
import { setTimeout as sleep } from "node:timers/promises";
import { z } from "zod";
import { createDrover, defineAgent, defineTool } from "../src/index.ts";
import { scriptedModel } from "../src/testing/index.ts";
import { findRedis } from "./support/redis.ts";

const parameters = z.object({ topic: z.string().describe("What to look for") });
const begun: number[] = [];
let [inside, most] = [0, 0];

const search = defineTool({
  name: "search",
  description: 'Searches the web. Example: {"topic":"tides"}',
  parameters,
  effect: "read",
  rate: { max: 5, perMs: 1_000 }, // at most five in any second, evenly spaced
  execute: ({ topic }) => {
    begun.push(Date.now());
    return `found something about ${topic}`;
  },
});
const render = defineTool({
  name: "render",
  description: 'Draws a map. Example: {"topic":"tides"}',
  parameters,
  effect: "read",
  concurrency: 2,
  execute: async () => {
    inside += 1;
    most = Math.max(most, inside);
    await sleep(100);
    inside -= 1;
    return "drawn";
  },
});
const archive = defineTool({
  name: "archive",
  description: 'Asks the archive. Example: {"topic":"tides"}',
  parameters,
  effect: "read",
  breaker: { failures: 2, openMs: 30_000 }, // default: 10 failures in a row, 30 s
  fallback: "search",
  execute: () => {
    throw new Error("the archive is down");
  },
});

const call = (name: string) => ({ toolCalls: [{ name, arguments: { topic: "tides" } }] });
const agentOf = (name: string, ...tools: string[]) =>
  defineAgent({
    name,
    instructions: "You are a researcher.",
    model: scriptedModel([...tools.map(call), "Done."]),
    tools: [search, render, archive],
  });
const searcher = agentOf("searcher", "search");
const drawer = agentOf("drawer", "render");
const archivist = agentOf("archivist", "archive", "archive", "archive", "search");

// Operators may tighten what the code says: `limits` of createDrover.
const limits = { tools: { render: { concurrency: 5 } } };
const drover = createDrover({ redis: await findRedis(), agents: [searcher, drawer, archivist], limits });
await drover.work();

const runs = await Promise.all(
  [searcher, drawer].flatMap((agent) => Array.from({ length: 8 }, () => drover.start(agent, "What about tides?"))),
);
const results = await Promise.all(runs.map((run) => run.result({ timeoutMs: 30_000 })));
ok(results.every(({ status }) => status === "completed"));
begun.sort((a, b) => a - b);
const lastedMs = (begun.at(-1) ?? 0) - (begun[0] ?? 0);
console.log(
  `8 searches at 5 a second took ${(lastedMs / 1_000).toFixed(1)} s; at most ${most} maps were drawn at once`,
);
ok(lastedMs >= 1_300);
equal(most, 2);

const run = await drover.start(archivist, "What does the archive say?");
equal((await run.result({ timeoutMs: 30_000 })).status, "completed");
const told = (await run.transcript()).filter(({ role }) => role === "tool").map(({ content }) => String(content));
for (const text of told) console.log(`- ${text}`);
match(told[2] ?? "", /^"archive" is switched off until .* This call was not executed\. Use "search" instead\.$/);
match(told[3] ?? "", /^found something/);
await drover.close();
