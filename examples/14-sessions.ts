// A conversation: runs of one session share its transcript and take turns, in the order in which they were started, by
// whichever agents and processes. What comes in meanwhile waits in line, or joins the run that is at work.
import { deepEqual, equal } from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { createDrover, defineAgent, type Message } from "../src/index.ts";
import { type ScriptedReply, scriptedModel } from "../src/testing/index.ts";
import { findRedis } from "./support/redis.ts";

// Offline: says what it heard, so that it can be seen what a run knows of those before it.
const said = (messages: Message[]): string[] => messages.map(({ content }) => String(content));
const echo: ScriptedReply = ({ messages }) => ({ text: `heard ${said(messages).length}`, delayMs: 1_000 });
const model = scriptedModel([echo, echo]);
const guide = defineAgent({ name: "guide", instructions: "You help travellers.", model });
const clerk = defineAgent({ name: "clerk", instructions: "You book journeys.", model });

const drover = createDrover({ redis: await findRedis(), agents: [guide, clerk] });
await drover.work();

const talk = drover.session(`trip-${randomUUID()}`);
const first = await talk.send(guide, "I want to see the sea.");
const second = await talk.send(clerk, "Book me a train there.");

// The clerk waits until the guide has answered.
const { active, queued } = await talk.runs();
deepEqual([active?.runId, queued.map((run) => run.runId)], [first.id, [second.id]]);
console.log(`clerk: ${(await second.status()).waitingFor}`);

// An afterthought goes to the run that is at work, and enters between its turns. Given again with its id: once.
const runId = `more-${randomUUID()}`;
const joined = await talk.send(guide, "Somewhere warm.", { whenBusy: "inject", runId });
const again = await talk.send(guide, "Somewhere warm.", { whenBusy: "inject", runId });
deepEqual([joined.id, again.id], [first.id, first.id]);

console.log(`guide: ${(await first.result({ timeoutMs: 30_000 })).output}`);
console.log(`clerk: ${(await second.result({ timeoutMs: 30_000 })).output}`);

const transcript = said(await talk.transcript());
console.log(transcript.join(" | "));
deepEqual(transcript, [
  ...["I want to see the sea.", "heard 1", "Somewhere warm.", "heard 3"],
  ...["Book me a train there.", "heard 5"],
]);
deepEqual(said(await second.transcript()), transcript.slice(4));
equal((await drover.list({ session: talk.id })).runs.length, 2);
await drover.close();
