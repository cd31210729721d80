// Catches: what one process remembers of a run taken for the truth after another process has changed it.
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { z } from "zod";
import { isEnded } from "../../src/core/run.ts";
import { renderWindow } from "../../src/core/window-render.ts";
import { defineAgent } from "../../src/define-agent.ts";
import type { Engine } from "../../src/engine/engine.ts";
import type { ModelRequest } from "../../src/ports.ts";
import { scriptedModel } from "../../src/testing/index.ts";
import { defineTool } from "../../src/tools/define-tool.ts";
import { problemsOf } from "../support/transcript.ts";
import { type Agent, type Bench, makeBench, takeStep } from "./support.ts";

const runId = "shared";
const call = (name: string): { name: string; arguments: { note: string } } => ({ name, arguments: { note: "a" } });

type Seen = { requests: Pick<ModelRequest, "turn" | "messages">[]; looks: number };

/** An agent of four turns, and one more for each later input; what its model is sent and how often its tool runs is written down. */
function makeAgent(): { agent: Agent; seen: Seen } {
  const seen: Seen = { requests: [], looks: 0 };
  const parameters = z.object({ note: z.string().describe("what") });
  const look = defineTool({
    name: "look",
    description: "Looks.",
    parameters,
    effect: "read",
    execute: () => {
      seen.looks += 1;
      return "seen";
    },
  });
  const post = defineTool({
    name: "post",
    description: "Posts.",
    parameters,
    effect: "write",
    execute: () => "posted",
  });
  const model = scriptedModel([
    { text: "one", toolCalls: [call("look"), call("post"), call("look")] },
    { text: "two", toolCalls: [call("look")] },
    { text: "three", toolCalls: [call("post"), call("look")] },
    ...Array.from({ length: 50 }, (_, more) => `answer ${more}`),
  ]);
  const client: typeof model.client = {
    call: (request) => {
      seen.requests.push({ turn: request.turn, messages: structuredClone(request.messages) });
      return model.client.call(request);
    },
  };
  const agent = defineAgent({
    name: "a",
    instructions: "Do it.",
    model: { ...model, client },
    tools: [look, post],
    limits: { maxTurns: 50 },
    window: { remindEvery: 0 },
  });
  return { agent, seen };
}

/** A process that hears no announcement: all that it remembers may be stale. */
function makeDeaf(bench: Bench, agent: Agent): Engine {
  return bench.process({ agents: [agent], signals: { ...bench.signals, onAnnounced: () => () => {} } });
}

/** Delivers the next due step to `engine`; a step delivered for the first time may be taken from memory. */
async function deliver(bench: Bench, engine: Engine): Promise<void> {
  const taken = takeStep(bench);
  taken.end(await engine.runStep(taken.delivery));
}

describe("several processes that remember a run", () => {
  test("[G3] send the model the transcript that is kept, whoever takes which step", async () => {
    const choice = fc.record({ process: fc.nat(2), twice: fc.boolean(), input: fc.nat(9) });
    await fc.assert(
      fc.asyncProperty(fc.array(choice, { minLength: 40, maxLength: 40 }), async (choices) => {
        const bench = makeBench();
        const { agent, seen } = makeAgent();
        const engines = [0, 1, 2].map(() => makeDeaf(bench, agent));
        await engines[0]?.client.start("a", "go", { runId });
        for (const { process, twice, input } of choices) {
          const engine = engines[process] as Engine;
          const taken = bench.queue.take();
          if (!taken) break;
          if (input === 0) await engine.handle(runId).send("more");
          const outcome = await engine.runStep(taken.delivery);
          if (twice) await (engines[(process + 1) % 3] as Engine).runStep({ ...taken.delivery, deliveries: 2 });
          taken.end(outcome);
        }
        await bench.queue.drain((engines[0] as Engine).runStep, { advanceTime: true });
        const run = await bench.store.load(runId);
        expect(run).toMatchObject({ status: "completed" });
        const kept = await bench.store.readMessages(runId, 0, 100);
        expect(problemsOf(kept)).toEqual([]);
        const answers = kept.flatMap((message, index) => (message.role === "assistant" ? [index] : []));
        for (const { turn, messages } of seen.requests) {
          const end = answers[turn - 1] ?? kept.length;
          const asSent = { messages: kept, goal: 0, cutText: (text: string) => text };
          expect(messages).toEqual(renderWindow({ messages: [[0, end]] }, asSent));
        }
      }),
      { numRuns: 150 },
    );
  });

  test("take a step that another one made owed as it is stored", async () => {
    const bench = makeBench();
    const { agent, seen } = makeAgent();
    const [one, other] = [makeDeaf(bench, agent), makeDeaf(bench, agent)];
    await one.client.start("a", "go", { runId });
    await deliver(bench, one);
    while ((await bench.store.load(runId))?.turns === 1) await deliver(bench, other);
    const { looks } = seen;
    await deliver(bench, one); // "look" of turn 2, of which `one` knows nothing
    expect(seen.looks).toBe(looks + 1);
    expect((await bench.store.load(runId))?.calls).toEqual([]);
  });

  test("read a step that was delivered before anew", async () => {
    const bench = makeBench();
    const { agent, seen } = makeAgent();
    const [one, other] = [makeDeaf(bench, agent), makeDeaf(bench, agent)];
    await one.client.start("a", "go", { runId });
    await deliver(bench, one);
    const taken = takeStep(bench);
    await other.runStep(taken.delivery);
    expect(seen.looks).toBe(1);
    await one.runStep({ ...taken.delivery, deliveries: 2 });
    await one.runStep({ ...taken.delivery, lostWorkers: 1 });
    expect(seen.looks).toBe(1);
  });

  test("apply a command to the run as it is stored, if it does not fit what they remember", async () => {
    const bench = makeBench();
    const pay = defineTool({
      name: "pay",
      description: "Pays.",
      parameters: z.object({ note: z.string().describe("what") }),
      effect: "irreversible",
      execute: () => "paid",
    });
    const model = scriptedModel([{ toolCalls: [call("pay")] }, { toolCalls: [call("pay")] }, "done"]);
    const agent = defineAgent({ name: "a", instructions: "Pay.", model, tools: [pay] });
    const [one, other] = [makeDeaf(bench, agent), makeDeaf(bench, agent)];
    await one.client.start("a", "go", { runId });
    await deliver(bench, one);
    await other.handle(runId).approve("call-1-1");
    await deliver(bench, other);
    await deliver(bench, other);
    await one.handle(runId).approve("call-2-1", { by: "ann" });
    expect((await bench.store.load(runId))?.calls).toMatchObject([{ callId: "call-2-1", state: "ready" }]);
  });

  test("call no model for a run that was cancelled elsewhere, once that was announced", async () => {
    const bench = makeBench();
    const { agent, seen } = makeAgent();
    const one = bench.process({ agents: [agent] });
    await one.client.start("a", "go", { runId });
    for (let steps = 0; steps < 4; steps += 1) await deliver(bench, one);
    const taken = takeStep(bench);
    expect(taken.delivery.step.index).toBe(0);
    await bench.process().handle(runId).cancel();
    await one.runStep(taken.delivery);
    expect(seen.requests.map(({ turn }) => turn)).toEqual([1]);
  });
});

test("[G1] parallel calls of one run, executed in one process, commit without a conflict", async () => {
  const bench = makeBench();
  const { agent } = makeAgent();
  let conflicts = 0;
  const store = {
    ...bench.store,
    commit: async (change: Parameters<typeof bench.store.commit>[0]) => {
      await new Promise(setImmediate);
      const result = await bench.store.commit(change);
      if (!result.committed) conflicts += 1;
      return result;
    },
  };
  const engine = bench.process({ agents: [agent], store });
  await engine.client.start("a", "go", { runId });
  for (let rounds = 0; rounds < 20; rounds += 1) {
    const taken = [takeStep(bench)];
    for (let more = bench.queue.take(); more; more = bench.queue.take()) taken.push(more);
    await Promise.all(taken.map(async ({ delivery, end }) => end(await engine.runStep(delivery))));
    const run = await bench.store.load(runId);
    if (run && isEnded(run)) break;
  }
  expect(await bench.store.load(runId)).toMatchObject({ status: "completed" });
  expect(conflicts).toBe(0);
});

test("a process that hears nothing of others reads a run before every step, and one that does reads it once", async () => {
  const loads = async (hearing: boolean): Promise<number> => {
    const bench = makeBench();
    let count = 0;
    const counted =
      <T extends unknown[], R>(load: (...args: T) => R) =>
      (...args: T): R => {
        count += 1;
        return load(...args);
      };
    const { agent } = makeAgent();
    const store = {
      ...bench.store,
      loadWithMessages: counted(bench.store.loadWithMessages),
      loadWithLastMessage: counted(bench.store.loadWithLastMessage),
    };
    const engine = bench.process({ agents: [agent], store, signals: { ...bench.signals, isHearing: () => hearing } });
    await engine.client.start("a", "go", { runId });
    while (bench.queue.list().length > 0) await deliver(bench, engine);
    expect((await bench.store.load(runId))?.status).toBe("completed");
    return count;
  };
  expect(await loads(true)).toBe(1);
  expect(await loads(false)).toBeGreaterThan(8);
});
