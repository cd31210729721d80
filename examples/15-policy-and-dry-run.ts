// Operators decide about tools without touching their code: a policy, plain data. A dry run executes what only reads and
// tells what all else would have done. Every decision is bound to the exact arguments and stays in the run's audit.
import { deepEqual, equal, match } from "node:assert/strict";
import { z } from "zod";
import { createDrover, defineAgent, defineTool, type Policy } from "../src/index.ts";
import { scriptedModel } from "../src/testing/index.ts";
import { findRedis } from "./support/redis.ts";

const done: string[] = [];
const order = z.object({ order: z.string().describe("Number of the order, e.g. A-17") });
const lookUp = defineTool({
  name: "look_up",
  description: 'State of an order. Example: {"order":"A-17"}',
  parameters: order,
  effect: "read",
  execute: ({ order }) => {
    done.push(`looked up ${order}`);
    return "paid, not sent";
  },
});
const refund = defineTool({
  name: "refund",
  description: 'Pays an order back. Example: {"order":"A-17"}',
  parameters: order,
  effect: "write",
  describe: ({ order }) => `Would pay order ${order} back`,
  execute: ({ order }) => {
    done.push(`refunded ${order}`);
    return "refunded";
  },
});

const clerk = defineAgent({
  name: "clerk",
  instructions: "You settle complaints.",
  model: scriptedModel([
    { toolCalls: [{ name: "look_up", arguments: { order: "A-17" } }] },
    { toolCalls: [{ name: "refund", arguments: { order: "A-17" } }] },
    "The order is paid back.",
  ]),
  tools: [lookUp, refund],
});

// The same as JSON in DROVER_POLICY (or in a file it names) holds for `drover worker`; `drover check` shows what it does.
const policy: Policy = [
  { tool: "refund", approval: "always", approvalExpiresMs: 24 * 3_600_000 },
  { agent: "*", tool: "delete_*", allow: false },
];
const drover = createDrover({ redis: await findRedis(), agents: [clerk], policy });
await drover.work();

const dry = await drover.start(clerk, "Where is my order A-17?", { dryRun: true, by: "ada" });
const { described = [] } = await dry.result({ timeoutMs: 30_000 });
for (const { tool, arguments: args, text } of described) console.log(`dry run: ${tool} ${args}: ${text}`);
deepEqual(done, ["looked up A-17"]);
equal(described[0]?.text, "Would pay order A-17 back");

const run = await drover.start(clerk, "Where is my order A-17?", { by: "ada" });
for await (const event of run.events()) if (event.type === "approval_asked") break;
const [call] = (await run.status()).openCalls;
console.log(`${call?.tool} ${call?.arguments} asks: ${call?.reason}. ${call?.description}.`);
match(call?.reason ?? "", /policy rule 1/);
// A decision about anything but these arguments would be refused.
await run.approve(call?.callId ?? "", { by: "grace", argumentsHash: call?.argumentsHash });
const { output } = await run.result({ timeoutMs: 30_000 });
console.log(output);
deepEqual(done, ["looked up A-17", "looked up A-17", "refunded A-17"]);

const audit = await run.audit();
for (const { by, action, tool = "", reason = "" } of audit) console.log(`${by} ${action} ${tool} ${reason}`);
deepEqual(
  audit.map(({ by, action }) => `${by} ${action}`),
  ["ada started", "drover asked", "grace approved"],
);
await drover.close();
