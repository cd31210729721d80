// The model asks a person and waits for the answer, for days if need be, and calls tools that the program which started the
// run executes itself. A question may say what its answer must be; one that does not fit is refused and stays open.
import { deepEqual, equal, rejects } from "node:assert/strict";
import { z } from "zod";
import { askPerson, createDrover, defineAgent, defineTool, type RunHandle } from "../src/index.ts";
import { scriptedModel } from "../src/testing/index.ts";
import { findRedis } from "./support/redis.ts";

const approveBudget = defineTool({
  name: "approve_budget",
  description: 'Asks the head of the team for a budget. Example: {"euros":400,"purpose":"train tickets"}',
  parameters: z.object({
    euros: z.int().describe("Whole euros, e.g. 400"),
    purpose: z.string().describe("What it is for, e.g. train tickets"),
  }),
  answeredBy: "person", // in place of `execute`
  answer: z.object({ granted: z.int().min(0) }),
  expiresMs: 3 * 24 * 3_600_000, // then the model is told that nobody answered
  describe: ({ euros, purpose }) => `May the team spend ${euros} euros on ${purpose}?`,
});

const planner = defineAgent({
  name: "planner",
  instructions: "You plan trips. Ask where you cannot know.",
  model: scriptedModel([
    {
      toolCalls: [
        { name: "ask_person", arguments: { question: "Where to?", choices: ["Oslo", "Rome"] } },
        { name: "approve_budget", arguments: { euros: 400, purpose: "train tickets" } },
      ],
    },
    { toolCalls: [{ name: "find_seats", arguments: { to: "Oslo", seats: 2 } }] },
    "Two seats to Oslo are held, for 320 euros.",
  ]),
  tools: [askPerson(), approveBudget],
});

/** A tool of this program alone: no worker has its code. */
const findSeats = {
  name: "find_seats",
  description: 'Finds seats in our own booking system. Example: {"to":"Oslo","seats":2}',
  parameters: {
    type: "object",
    properties: {
      to: { type: "string", description: "City" },
      seats: { type: "integer", description: "How many" },
    },
    required: ["to", "seats"],
  },
};

/** Waits until so many calls were put to somebody outside. */
async function untilAsked(run: RunHandle, count: number): Promise<void> {
  let asked = 0;
  for await (const event of run.events()) {
    if (event.type === "answer_asked") asked += 1;
    if (asked === count) return;
  }
}

const drover = createDrover({ redis: await findRedis(), agents: [planner] });
await drover.work();
const run = await drover.start(planner, "A trip for two, please.", { tools: [findSeats] });

await untilAsked(run, 2);
const waiting = await run.status();
console.log(`${waiting.status} for ${waiting.waitingFor}`);
for (const { callId, question } of waiting.openCalls) console.log(`  ${callId}: ${question}`);
equal(waiting.status, "waiting");

await run.answer("call-1-1", "Oslo", { by: "ada" });
await rejects(run.answer("call-1-2", { granted: "plenty" }, { by: "grace" }), (error: Error) => {
  console.log(error.message);
  return /granted: expected integer/.test(error.message);
});
// Named, it may be sent again when its reply was lost: it is taken once.
await run.answer("call-1-2", { granted: 350 }, { by: "grace", decisionId: "budget-7" });
await run.answer("call-1-2", { granted: 350 }, { by: "grace", decisionId: "budget-7" });

await untilAsked(run, 3);
const [call] = (await run.status()).openCalls;
console.log(`${call?.from} is to run ${call?.tool} with ${call?.arguments}`);
equal(call?.from, "caller");
await run.answer(call?.callId ?? "", { train: "NSB 61", price: 320 }, { by: "booking" });

const { status, output } = await run.result({ timeoutMs: 30_000 });
console.log(output);
equal(status, "completed");
const results = (await run.transcript()).filter((message) => message.role === "tool");
deepEqual(
  results.map(({ content, answered }) => [content, answered?.by]),
  [
    ["Oslo", "ada"],
    ['{"granted":350}', "grace"],
    ['{"train":"NSB 61","price":320}', "booking"],
  ],
);
await drover.close();
