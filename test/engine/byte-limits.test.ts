// Catches: input, answers and results without a bound, refusals that say too little, a run that is lost to one.
import { expect, test } from "vitest";
import { z } from "zod";
import type { Limits } from "../../src/core/agent.ts";
import { createRedactor } from "../../src/core/redact.ts";
import { defineAgent } from "../../src/define-agent.ts";
import { type ScriptedReply, scriptedModel } from "../../src/testing/index.ts";
import { defineTool } from "../../src/tools/define-tool.ts";
import { type Agent, type Bench, makeBench, takeStep } from "./support.ts";

const big = "x".repeat(5_000);
const drainAll = { advanceTime: true, maxDeliveries: 200 };

const look = defineTool({
  name: "look",
  description: "Looks.",
  parameters: z.object({ size: z.number().describe("characters") }),
  effect: "read",
  maxResultTokens: 100,
  execute: ({ size }) => "word ".repeat(size / 5),
});
const call = (size: number): ScriptedReply => ({ toolCalls: [{ name: "look", arguments: { size } }] });

function agentOf(script: ScriptedReply[], limits: Limits): Agent {
  return defineAgent({ name: "a", instructions: "Look.", model: scriptedModel(script), tools: [look], limits });
}

async function run(bench: Bench, agent: Agent, runId: string): Promise<ReturnType<Bench["process"]>> {
  const engine = bench.process({ agents: [agent] });
  await engine.client.start("a", "go", { runId });
  await bench.queue.drain(engine.runStep, drainAll);
  return engine;
}

test("a start over a limit of the agent or of the producer is refused at once, by every way in", async () => {
  const bench = makeBench();
  const engine = bench.process({ agents: [agentOf([], { maxMessageBytes: 4_000 })] });
  const producer = bench.process();
  const field = {
    code: "too_large",
    message: expect.stringMatching(/input is 5100 bytes, .*maxMessageBytes\) is 4000/),
  };
  await expect(engine.client.start("a", big)).rejects.toMatchObject(field);
  await expect(producer.client.start("a", big, { limits: { maxMessageBytes: 4_000 } })).rejects.toMatchObject(field);
  const all = { code: "too_large", message: expect.stringMatching(/input is 10200 bytes, .*maxBytes\) is 9000/) };
  const two = [big, big].map((content) => ({ role: "user" as const, content }));
  await expect(producer.client.start("a", two, { limits: { maxBytes: 9_000 } })).rejects.toMatchObject(all);
  // From the queue it leaves a record that says so, and a corrected one may take its id.
  const payload = { agent: "a", input: big };
  expect(await engine.takeStart({ runId: "queued", payload })).toEqual({ type: "done" });
  expect(await bench.store.load("queued")).toMatchObject({
    status: "rejected",
    error: { message: expect.stringContaining("input is 5100 bytes") },
  });
  await engine.client.start("a", "go", { runId: "queued" });
  await engine.takeStart({ runId: "queued", payload });
  const { runs } = await bench.store.list({ status: "rejected" });
  expect(runs.map(({ runId }) => runId)).toEqual([expect.stringMatching(/^queued\.rejected-/)]);
});

test("input for a run that goes on is refused by the same limits, and by what the run holds already", async () => {
  const bench = makeBench();
  const engine = bench.process({ agents: [agentOf([], { maxMessageBytes: 4_000, maxBytes: 9_000 })] });
  await engine.client.start("a", "go", { runId: "r" });
  const handle = engine.handle("r");
  await expect(handle.send(big)).rejects.toMatchObject({ code: "too_large", message: expect.stringContaining("5100") });
  const some = "y".repeat(3_500);
  await handle.send(some, { inputId: "1" });
  await handle.send(some, { inputId: "2" });
  const full = {
    code: "too_large",
    message: expect.stringMatching(/input is 3600 bytes and the run holds \d+, .*9000/),
  };
  await expect(handle.send(some, { inputId: "3" })).rejects.toMatchObject(full);
  // One that was taken may be sent again.
  await handle.send(some, { inputId: "2" });
  expect((await bench.store.load("r"))?.pendingInput).toHaveLength(2);
  // A producer that has not the agent's code knows the run's own limits.
  await bench.process().client.start("a", "go", { runId: "own", limits: { maxMessageBytes: 2_000 } });
  await expect(bench.process().handle("own").send(some)).rejects.toMatchObject({ code: "too_large" });
  await engine.client.command("r", { type: "cancel_requested", by: "t", reason: "r" });
  await expect(handle.send(big)).rejects.toMatchObject({ code: "not_allowed" });
});

test("inputs and answers given at once take no more room together than there is, and who comes too late is told", async () => {
  const bench = makeBench();
  const model = scriptedModel([{ toolCalls: ["ask", "ask"].map((name, n) => ({ name, arguments: { n } })) }]);
  const ask = {
    name: "ask",
    description: "Asks.",
    parameters: { type: "object", properties: { n: { type: "number" } } },
  };
  const agent = defineAgent({ name: "a", instructions: "Ask.", model, limits: { maxBytes: 9_500 } });
  const engine = bench.process({ agents: [agent] });
  await engine.client.start("a", "go", { runId: "r", tools: [ask] });
  await bench.queue.drain(engine.runStep, { advanceTime: false });
  const some = "y".repeat(3_000);
  const handle = engine.handle("r");
  const refused = { code: "too_large", message: expect.stringMatching(/and the run holds \d+, .*9500/) };
  const sent = await Promise.allSettled(["1", "2", "3"].map((inputId) => handle.send(some, { inputId })));
  expect(sent.map(({ status }) => status)).toEqual(["fulfilled", "fulfilled", "rejected"]);
  expect(sent[2]).toMatchObject({ reason: refused });
  expect(await bench.store.load("r")).toMatchObject({ pendingInput: [{ content: some }, { content: some }] });
  const answer = (callId: string, content: string): Promise<unknown> =>
    engine.client.command("r", { type: "answered", callId, by: "ann", content });
  const given = await Promise.allSettled(["call-1-1", "call-1-2"].map((callId) => answer(callId, "z".repeat(700))));
  expect(given).toMatchObject([{ status: "fulfilled" }, { status: "rejected", reason: refused }]);
  // One that was given before is not refused for its size.
  expect(await answer("call-1-1", "z".repeat(700))).toMatchObject({ applied: false });
});

test("an input that is too long only once its secrets are redacted is refused for its size, and for nothing else", async () => {
  const bench = makeBench();
  const engine = bench.process({
    agents: [agentOf(["done"], { maxBytes: 4_000 })],
    redaction: { redactor: createRedactor(), stored: true },
  });
  await engine.client.start("a", "go", { runId: "r" });
  const sent = engine.handle("r").send("password=hunter2 ".repeat(130));
  await expect(sent).rejects.toMatchObject({ code: "too_large", message: expect.stringContaining("maxBytes") });
  expect(await bench.store.load("r")).toMatchObject({ pendingInput: [] });
});

test("[G9] an answer over the limit ends the run, which goes on from there with a higher one", async () => {
  const bench = makeBench();
  const agent = agentOf([call(10), big, big], { maxMessageBytes: 4_000 });
  const engine = await run(bench, agent, "r");
  expect(await bench.store.load("r")).toMatchObject({
    status: "failed",
    stopReason: "model_error",
    turns: 1,
    error: { code: "answer_too_large", message: expect.stringMatching(/5100 bytes.*maxMessageBytes\) is 4000/) },
  });
  await engine.handle("r").retry({ limits: { maxMessageBytes: 8_000 } });
  await bench.queue.drain(engine.runStep, drainAll);
  expect(await bench.store.load("r")).toMatchObject({ status: "completed", turns: 2 });
});

test("[G9] a run that holds as much as it may ends before its next call, and goes on with more", async () => {
  const bench = makeBench();
  const agent = agentOf([call(5_000), call(5_005), call(5_010), "done"], { maxBytes: 12_000 });
  const engine = await run(bench, agent, "r");
  const ended = await bench.store.load("r");
  expect(ended).toMatchObject({ status: "failed", stopReason: "byte_budget", turns: 2 });
  expect(ended?.error?.message).toMatch(/holds \d+ bytes, of 12000 .*maxBytes/);
  await engine.handle("r").retry({ limits: { maxBytes: 100_000 } });
  await bench.queue.drain(engine.runStep, drainAll);
  expect(await bench.store.load("r")).toMatchObject({ status: "completed", turns: 4 });
});

test("a result over what there is room for is cut, and its tool is not called again", async () => {
  const bench = makeBench();
  await run(bench, agentOf([call(50_000), "done"], { maxMessageBytes: 4_000 }), "r");
  const result = (await bench.store.readMessages("r", 0, 9)).find(({ role }) => role === "tool");
  expect(result).toMatchObject({ outcome: "ok", full: { bytes: expect.any(Number) } });
  expect(JSON.stringify(result)).toContain("to be kept and is left out here]");
  expect((await bench.store.load("r"))?.status).toBe("completed");
  expect(result?.role === "tool" ? result.full?.bytes : 0).toBeLessThan(4_200);
});

test("results of calls at once are cut to what the run may hold together, and what was cut out of them is not left behind", async () => {
  const bench = makeBench();
  const all = Promise.withResolvers<void>();
  let begun = 0;
  const wide = defineTool({
    name: "wide",
    description: "Looks far.",
    parameters: z.object({ size: z.number().describe("characters") }),
    effect: "read",
    maxResultTokens: 100,
    async execute({ size }) {
      begun += 1;
      if (begun === 6) all.resolve();
      await all.promise;
      return "word ".repeat(size / 5);
    },
  });
  // What is cut out of the last ones is kept beside the transcript, of the others with the message.
  const sizes = [4_000, 4_005, 4_010, 4_015, 15_000, 15_005];
  const model = scriptedModel([{ toolCalls: sizes.map((size) => ({ name: "wide", arguments: { size } })) }, "done"]);
  const refs: string[] = [];
  const putOutput: typeof bench.store.putOutput = async (runId, ref, text) => {
    refs.push(ref);
    await bench.store.putOutput(runId, ref, text);
  };
  const agent = defineAgent({
    ...{ name: "a", instructions: "Look.", model, tools: [wide] },
    limits: { maxBytes: 24_000 },
  });
  const engine = bench.process({ agents: [agent], store: { ...bench.store, putOutput } });
  await engine.client.start("a", "go", { runId: "r" });
  const first = takeStep(bench);
  first.end(await engine.runStep(first.delivery));
  const taken = sizes.map(() => takeStep(bench));
  await Promise.all(taken.map(async ({ delivery, end }) => end(await engine.runStep(delivery))));
  const head = await bench.store.load("r");
  // Notes and the feed's entries come on top.
  expect(head?.bytes).toBeLessThan(24_000 + 6 * 700);
  const messages = (await bench.store.readMessages("r", 0, 99)).filter(({ role }) => role === "tool");
  expect(messages).toHaveLength(6);
  const kept = messages.map((message) => (message.role === "tool" ? message.full?.ref : undefined));
  expect(refs).toHaveLength(2);
  for (const ref of refs) {
    expect((await bench.store.readOutput("r", ref, 0, 9)) !== undefined).toBe(kept.includes(ref));
  }
  expect(messages.filter(({ content }) => /is too large to be kept/.test(String(content))).length).toBeGreaterThan(1);
});
