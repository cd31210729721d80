// Limits end a run with a reason and keep its state. Retried with wider limits, it goes on from where it failed: what
// was done and paid for before is not done again. A producer's limits only tighten the agent's.
import { deepEqual, equal } from "node:assert/strict";
import { z } from "zod";
import { createDrover, defineAgent, defineTool } from "../src/index.ts";
import { scriptedModel } from "../src/testing/index.ts";
import { findRedis } from "./support/redis.ts";

const pages: number[] = [];
const readPage = defineTool({
  name: "read_page",
  description: 'Reads one page of the report. Example: {"page":1}',
  parameters: z.object({ page: z.int().describe("Number of the page, from 1") }),
  effect: "read",
  execute: ({ page }) => {
    pages.push(page);
    return `text of page ${page}`;
  },
});

const readerOf = (page: number) => ({ toolCalls: [{ name: "read_page", arguments: { page } }] });
const reader = defineAgent({
  name: "reader",
  instructions: "You read reports, page by page.",
  model: scriptedModel([readerOf(1), readerOf(2), readerOf(3), "Three pages, all read."]),
  tools: [readPage],
  limits: { maxTurns: 10, deadlineMs: 60_000 },
});

const drover = createDrover({ redis: await findRedis(), agents: [reader] });
await drover.work();

const run = await drover.start(reader, "Read the report.", { limits: { maxTurns: 2 } });
const failed = await run.result({ timeoutMs: 30_000 });
console.log(`${failed.status}, ${failed.stopReason}: ${failed.error?.message}`);
equal(failed.status, "failed");
equal(failed.stopReason, "max_turns");
equal(failed.turns, 2);

await run.retry({ limits: { maxTurns: 10 }, by: "ada" });
const completed = await run.result({ timeoutMs: 30_000 });
console.log(`${completed.status} after ${completed.turns} turns: ${completed.output}`);
console.log(`pages read, each once: ${pages.join(", ")}`);
equal(completed.status, "completed");
equal(completed.turns, 4);
deepEqual(pages, [1, 2, 3]);
await drover.close();
