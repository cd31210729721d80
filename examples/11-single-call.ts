// One call and no tools: classification, extraction, translation. It is an agent without tools, with the same
// durability, retries and traces. The run's id makes it idempotent: asked twice, the model is paid once.
import { deepEqual, equal } from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { createDrover, defineAgent, openai } from "../src/index.ts";
import { scriptedModel } from "../src/testing/index.ts";
import { findRedis } from "./support/redis.ts";

const script = scriptedModel([
  // The first attempt meets an overloaded server, as happens.
  { text: "billing", fail: [{ class: "transient", code: "http_503", message: "overloaded", status: 503 }] },
]);
const classifier = defineAgent({
  name: "classifier",
  instructions: "Say in one word what this mail is about: billing, delivery or other.",
  model: process.env.OPENAI_API_KEY ? openai("gpt-5-mini") : script,
  limits: { maxTurns: 1 },
});

const drover = createDrover({ redis: await findRedis(), agents: [classifier] });
await drover.work();

async function classify(mailId: string, text: string): Promise<string | undefined> {
  const run = await drover.start(classifier, text, { runId: `classify-${mailId}` });
  return (await run.result({ timeoutMs: 60_000 })).output;
}

const mailId = randomUUID();
const text = "Why was I charged twice?";
const [first, second] = await Promise.all([classify(mailId, text), classify(mailId, text)]);
console.log(`about: ${first}`);
equal(first, second);

const view = await drover.get(`classify-${mailId}`).status();
console.log(`${view.status} in ${view.turns} turn, ${view.usage.inputTokens + view.usage.outputTokens} tokens`);
deepEqual([view.status, view.turns], ["completed", 1]);
if (!process.env.OPENAI_API_KEY) {
  equal(first, "billing");
  equal(script.requests.length, 2); // one refused, one answered; not four
}

// The same id with another text is a mistake, and said so.
const conflict = await classify(mailId, "Where is my parcel?").catch((error: { code: string }) => error.code);
equal(conflict, "conflict");
await drover.close();
