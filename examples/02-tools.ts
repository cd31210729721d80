// Two calls of one turn run at the same time, each as a step of its own. A bad argument is answered, so that the model
// can correct itself. A RetryableError says that nothing happened: the call is tried again, without the model.
import { deepEqual, equal, match } from "node:assert/strict";
import { z } from "zod";
import { createDrover, defineAgent, defineTool, RetryableError } from "../src/index.ts";
import { scriptedModel } from "../src/testing/index.ts";
import { findRedis } from "./support/redis.ts";

const gate = Promise.withResolvers<void>();
let inside = 0;

const lookUp = defineTool({
  name: "look_up",
  description: 'Stock of an article. Example: {"article":"bolt","shelf":3}',
  parameters: z.object({
    article: z.string().describe("Name of the article, e.g. bolt"),
    shelf: z.int().describe("Number of the shelf, e.g. 3"),
  }),
  effect: "read",
  timeoutMs: 5_000,
  execute: async ({ article, shelf }) => {
    inside += 1;
    if (inside === 2) gate.resolve(); // both calls of the turn are in here now
    await gate.promise;
    return { article, shelf, pieces: 40 };
  },
});

let orders = 0;
const order = defineTool({
  name: "order",
  description: 'Orders an article. Example: {"article":"bolt","pieces":10}',
  parameters: z.object({
    article: z.string().describe("Name of the article, e.g. bolt"),
    pieces: z.int().min(1).describe("How many, e.g. 10"),
  }),
  effect: "write",
  retry: { attempts: 3, delayMs: 50 },
  execute: ({ article, pieces }, { attempt, idempotencyKey }) => {
    orders += 1;
    console.log(`order: attempt ${attempt}, key ${idempotencyKey}`);
    if (attempt < 3) throw new RetryableError("the shop is busy; nothing was ordered");
    return `Ordered ${pieces} of ${article}.`;
  },
});

const buyer = defineAgent({
  name: "buyer",
  instructions: "You keep the store filled.",
  model: scriptedModel([
    {
      toolCalls: [
        { name: "look_up", arguments: { article: "bolt", shelf: "3" } }, // text where a number is due: safely 3
        { name: "look_up", arguments: { article: "nut", shelf: 4 } },
      ],
    },
    { toolCalls: [{ name: "order", arguments: { article: "bolt", pieces: "many" } }] },
    { toolCalls: [{ name: "order", arguments: { article: "bolt", pieces: 10 } }] },
    "Ten bolts are ordered.",
  ]),
  tools: [lookUp, order],
});

const drover = createDrover({ redis: await findRedis(), agents: [buyer] });
await drover.work();
const run = await drover.start(buyer, "Order bolts if there are fewer than 50.");
const { status, output } = await run.result({ timeoutMs: 30_000 });
const results = (await run.transcript()).filter((message) => message.role === "tool");
for (const { callId, outcome, content } of results) console.log(callId, outcome, content);
console.log(output);

equal(status, "completed");
deepEqual(
  results.map(({ callId, outcome }) => `${callId} ${outcome}`),
  ["call-1-1 ok", "call-1-2 ok", "call-2-1 failed", "call-3-1 ok"],
);
match(JSON.stringify(results[0]?.content), /shelf\W+3\b/); // the number 3, coerced
match(JSON.stringify(results[2]?.content), /pieces: expected number/);
equal(orders, 3);
await drover.close();
