// A call of an irreversible tool waits for a person, for months if need be: it holds no process, only its record. One is
// approved here and one denied; the model reads why.
import { deepEqual, equal, match } from "node:assert/strict";
import { z } from "zod";
import { createDrover, defineAgent, defineTool, type RunHandle } from "../src/index.ts";
import { scriptedModel } from "../src/testing/index.ts";
import { findRedis } from "./support/redis.ts";

const sent: string[] = [];
const sendMail = defineTool({
  name: "send_mail",
  description: 'Sends a mail. It cannot be taken back. Example: {"to":"ada@example.com","text":"Hello"}',
  parameters: z.object({
    to: z.email().describe("Address, e.g. ada@example.com"),
    text: z.string().describe("The whole text"),
  }),
  effect: "irreversible", // asks by default; a predicate of the arguments may say which calls need not
  execute: ({ to }) => {
    sent.push(to);
    return `Sent to ${to}.`;
  },
});

const clerk = defineAgent({
  name: "clerk",
  instructions: "You write to customers.",
  model: scriptedModel([
    {
      toolCalls: [
        { name: "send_mail", arguments: { to: "ada@example.com", text: "Your parcel is on its way." } },
        { name: "send_mail", arguments: { to: "all@example.com", text: "Big sale!" } },
      ],
    },
    "Ada was told; the other mail was refused.",
  ]),
  tools: [sendMail],
});

/** Waits for the first two calls that need a person. */
async function untilAsked(run: RunHandle): Promise<string[]> {
  const asked: string[] = [];
  for await (const event of run.events()) {
    if (event.type === "approval_asked") asked.push(event.callId);
    if (asked.length === 2) break;
  }
  return asked;
}

const drover = createDrover({ redis: await findRedis(), agents: [clerk] });
await drover.work();
const run = await drover.start(clerk, "Tell Ada, then everybody.");
const [first = "", second = ""] = await untilAsked(run);
const view = await run.status();
console.log(`${view.status} for ${view.waitingFor}`);
for (const call of view.openCalls) console.log(`  ${call.callId} ${call.tool} ${call.arguments}: ${call.reason}`);
equal(view.status, "waiting");
deepEqual(sent, []);

// The hash names tool and arguments: a decision about anything else would be refused.
const { argumentsHash } = view.openCalls[0] ?? {};
await run.approve(first, { by: "grace", argumentsHash });
await run.deny(second, { by: "grace", reason: "we do not write to everybody" });
const { status, output } = await run.result({ timeoutMs: 30_000 });
const results = (await run.transcript()).filter((message) => message.role === "tool");
for (const { callId, outcome, content, decision } of results) console.log(callId, outcome, content, decision);
console.log(output);
equal(status, "completed");
deepEqual(sent, ["ada@example.com"]);
deepEqual(
  results.map(({ outcome }) => outcome),
  ["ok", "denied"],
);
match(JSON.stringify(results[1]?.content), /we do not write to everybody/);
await drover.close();
