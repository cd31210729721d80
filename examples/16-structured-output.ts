// A final answer as a typed value, and a check of it in a step of its own. An answer that does not fit, or that the check
// refuses, goes back to the model with what is wrong; so often as `maxReasks` allows.
import { equal } from "node:assert/strict";
import { z } from "zod";
import { createDrover, defineAgent } from "../src/index.ts";
import { scriptedModel } from "../src/testing/index.ts";
import { findRedis } from "./support/redis.ts";

const invoice = defineAgent({
  name: "invoice",
  instructions: "You read invoices.",
  model: scriptedModel([
    "The total is 119 euros.", // no JSON: asked again
    '{"number":"R-17","net":100,"total":129}', // adds up to nothing: the check refuses it
    '{"number":"R-17","net":100,"total":119}',
  ]),
  output: z.object({
    number: z.string().describe("Number of the invoice, e.g. R-17"),
    net: z.number().describe("Euros before tax"),
    total: z.number().describe("Euros with tax"),
    currency: z.string().default("EUR"),
  }),
  verify: ({ net, total }) =>
    Math.abs(net * 1.19 - total) < 0.01 || `with 19 % tax ${net} makes ${net * 1.19}, not ${total}`,
});

const drover = createDrover({ redis: await findRedis(), agents: [invoice] });
await drover.work();
const run = await drover.start(invoice, "Invoice R-17: 100 euros and tax.");
const { output, status, turns } = await run.result({ timeoutMs: 30_000 });

for (const message of await run.transcript()) console.log(`${message.role}: ${String(message.content).split("\n")[0]}`);
console.log(`${status} after ${turns} turns:`, output);
equal(status, "completed");
equal(output?.total.toFixed(2), "119.00"); // typed: a number
equal(output?.currency, "EUR"); // the schema's default
equal(turns, 3);
await drover.close();
