// A run's feed: what was committed, numbered, and the text while it arrives. A reader that lost its connection goes on
// after the last id it saw, and misses and repeats nothing. Text of an attempt that failed is superseded, and said so.
import { deepEqual, equal } from "node:assert/strict";
import { createDrover, defineAgent, type RunFeedEvent } from "../src/index.ts";
import { scriptedModel } from "../src/testing/index.ts";
import { findRedis } from "./support/redis.ts";

const words = "Once upon a time there was a queue that never forgot a job. ".split(/(?<= )/);
const poet = defineAgent({
  name: "poet",
  instructions: "You tell stories.",
  model: scriptedModel([{ deltas: words, delayMs: 1_000 }]),
});

const drover = createDrover({ redis: await findRedis(), agents: [poet] });
await drover.work();
const run = await drover.start(poet, "Tell me a story.");

/** What a reader keeps: all text that was not superseded, and the id to go on from. */
type Reading = { text: string; lastId: string | undefined; types: string[] };

function take(reading: Reading, event: RunFeedEvent): void {
  if (event.type === "text") reading.text += event.text;
  else if (event.type === "text_superseded") reading.text = "";
  else reading.types.push(event.type);
  reading.lastId = event.id;
}

const reading: Reading = { text: "", lastId: undefined, types: [] };
for await (const event of run.events()) {
  take(reading, event);
  if (reading.text.length > 15) break; // the connection drops in the middle of a sentence
}
console.log(`first reader:  "${reading.text}" up to id ${reading.lastId}`);
const half = reading.text;

for await (const event of run.events({ after: reading.lastId })) take(reading, event); // ends with the run
console.log(`second reader: "${reading.text.slice(half.length)}"`);
console.log(`committed:     ${reading.types.join(", ")}`);
equal(reading.text, words.join(""));
deepEqual(reading.types, ["run_created", "run_began", "model_answered", "run_ended"]);

// Read after the end it is the same feed, each turn's text in one piece or as it came.
const later: Reading = { text: "", lastId: undefined, types: [] };
for await (const event of run.events()) take(later, event);
equal(later.text, reading.text);
deepEqual(later.types, reading.types);
await drover.close();
