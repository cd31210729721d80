// Catches: a session that waits for ever for a run whose record is lost, and a transcript that such a run leaves so that no
// server takes it.
import { afterEach, beforeEach, expect, test } from "vitest";
import { z } from "zod";
import type { Message } from "../../src/core/message.ts";
import { sessionTranscript } from "../../src/core/session.ts";
import { defineAgent } from "../../src/define-agent.ts";
import type { StartOptions } from "../../src/engine/client.ts";
import type { Engine } from "../../src/engine/engine.ts";
import { sweep } from "../../src/engine/sweep.ts";
import { createSilentLogger } from "../../src/telemetry/logger.ts";
import { scriptedModel } from "../../src/testing/index.ts";
import { defineTool } from "../../src/tools/define-tool.ts";
import { type Bench, makeBench } from "../engine/support.ts";
import { problemsOf } from "../support/transcript.ts";
import { type StoreSetup, setUpStore } from "./setup.ts";

const session = "chat";
const pay = defineTool({
  name: "pay",
  description: "Pays.",
  parameters: z.object({ whose: z.string().describe("whose bill") }),
  effect: "irreversible",
  execute: ({ whose }) => `paid ${whose}`,
});
const clerk = defineAgent({
  name: "clerk",
  instructions: "Pay.",
  model: scriptedModel([
    ({ runId }) => ({
      text: "",
      toolCalls: [1, 2].map((n) => ({ name: "pay", arguments: { whose: `${runId} ${n}` } })),
    }),
    ({ runId }) => `done ${runId}`,
  ]),
  tools: [pay],
});
const talker = defineAgent({
  name: "talker",
  instructions: "Talk.",
  model: scriptedModel([({ runId }) => `answer of ${runId}`]),
});

let setup: StoreSetup;
let bench: Bench;
let engine: Engine;
beforeEach(() => {
  setup = setUpStore();
  bench = makeBench();
  engine = bench.process({ agents: [clerk, talker], store: setup.store });
});
afterEach(async () => {
  engine.close();
  await setup.close();
});

const start = (runId: string, options: StartOptions & { agent?: string } = {}): Promise<unknown> => {
  const { agent = "talker", ...rest } = options;
  return engine.client.start(agent, `in ${runId}`, { runId, session, ...rest });
};
const drain = (): Promise<void> => bench.queue.drain(engine.runStep, { advanceTime: false });
const transcript = (): Promise<Message[]> => setup.store.readMessages(sessionTranscript(session), 0, 100);
const texts = async (): Promise<unknown[]> => (await transcript()).map(({ content }) => content);
const lose = (runId: string): Promise<unknown> => setup.cli("DEL", setup.keys.run(runId).head);
const lineOf = async (): Promise<string[]> =>
  (await setup.store.readSession(session, 9)).line.map(({ runId }) => runId);

/** A run at the head of the line that waits for a person, two calls open, and one behind it. */
async function wait(): Promise<void> {
  await start("r1", { agent: "clerk" });
  await start("r2");
  await drain();
  expect((await setup.store.load("r1"))?.calls).toHaveLength(2);
  expect((await setup.store.load("r2"))?.place?.state).toBe("queued");
}

const closed = 'Outcome unknown: the record of the run that called "pay" was lost.';

test("the next start takes those whose records are lost out of the line, and closes what the first left open", async () => {
  await wait();
  await start("r3");
  await start("r4");
  await engine.handle("r1").approve("call-1-1");
  await drain();
  await lose("r1");
  await lose("r3");
  await start("r5");
  expect(await lineOf()).toEqual(["r2", "r3", "r4", "r5"]);
  await drain();
  expect(await texts()).toEqual([
    ...["in r1", null, "paid r1 1", closed],
    ...["r2", "r4", "r5"].flatMap((runId) => [`in ${runId}`, `answer of ${runId}`]),
  ]);
  expect(problemsOf(await transcript())).toEqual([]);
  expect(await lineOf()).toEqual([]);
  for (const runId of ["r2", "r4", "r5"]) expect((await setup.store.load(runId))?.status).toBe("completed");
});

test("an input for whichever run is active gets a run of its own, and that its turn", async () => {
  await wait();
  await lose("r1");
  await start("r3", { whenBusy: "inject" });
  await start("r3", { whenBusy: "inject" });
  await drain();
  expect((await texts()).slice(-4)).toEqual(["in r2", "answer of r2", "in r3", "answer of r3"]);
});

test("the sweeper that finds a lost record lets those behind it go on, without any start", async () => {
  await start("r1");
  await start("r2");
  await start("other", { session: "chat-2" });
  await start("spoiled", { session: "chat-3" });
  await start("behind", { session: "chat-3" });
  await lose("r1");
  await setup.cli("HDEL", setup.keys.run("spoiled").head, "fixed");
  bench.clock.advance(60_000);
  const { wakeSessions } = engine;
  await sweep({ ...bench, store: setup.store, logger: createSilentLogger(), wakeSessions });
  await drain();
  expect(await texts()).toEqual(["in r1", "in r2", "answer of r2"]);
  expect((await setup.store.load("other"))?.status).toBe("completed");
  expect((await setup.store.load("behind"))?.place?.state).toBe("queued");
});

test("the deletion of a damaged run lets those behind it go on", async () => {
  await wait();
  await start("r3");
  await start("r4");
  for (const runId of ["r1", "r3"]) await setup.cli("RPUSH", setup.keys.run(runId).feed, "{}");
  await expect(engine.handle("r1").cancel()).rejects.toMatchObject({ code: "invalid" });
  expect(await engine.client.delete("r3")).toMatchObject({ damage: expect.stringMatching(/its feed has/) });
  expect(await lineOf()).toEqual(["r1", "r2", "r4"]);
  expect(await engine.client.delete("r1")).toMatchObject({ damage: expect.stringMatching(/its feed has/) });
  await drain();
  const said = ["r2", "r4"].flatMap((runId) => [`in ${runId}`, `answer of ${runId}`]);
  expect(await texts()).toEqual(["in r1", null, closed, closed, ...said]);
  expect(problemsOf(await transcript())).toEqual([]);
});

test("so does that of one whose record is gone, though its session cannot be told", async () => {
  await wait();
  await lose("r1");
  expect(await engine.client.delete("r1")).toEqual({ damage: "its head is gone" });
  await drain();
  expect((await texts()).slice(-3)).toEqual([closed, "in r2", "answer of r2"]);
});

test("a run that took the id of a lost one, in another session, holds nobody up", async () => {
  await wait();
  await lose("r1");
  await start("r1", { session: "chat-2", agent: "clerk" });
  await drain();
  const other = await setup.store.load("r1");
  expect(other).toMatchObject({ session: "chat-2", place: { state: "active" } });
  await start("r3");
  await drain();
  expect((await texts()).slice(-4)).toEqual(["in r2", "answer of r2", "in r3", "answer of r3"]);
  expect(await setup.store.load("r1")).toEqual(other);
});

test("two that look at a line at once close it once", async () => {
  await wait();
  await lose("r1");
  const second = bench.process({ agents: [clerk, talker], store: setup.store });
  await Promise.all([start("r3"), second.client.start("talker", "in r4", { runId: "r4", session })]);
  await drain();
  second.close();
  expect((await texts()).filter((text) => text === closed)).toHaveLength(2);
  expect(problemsOf(await transcript())).toEqual([]);
  for (const runId of ["r2", "r3", "r4"]) expect((await setup.store.load(runId))?.status).toBe("completed");
});
