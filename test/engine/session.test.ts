// Catches: runs of a session that overlap, overtake each other or wait for nobody; input given twice; a view of one run
// that shows another's words.
import { describe, expect, onTestFinished, test } from "vitest";
import { z } from "zod";
import type { Message } from "../../src/core/message.ts";
import { noUsage } from "../../src/core/run.ts";
import { defineAgent } from "../../src/define-agent.ts";
import type { StartOptions } from "../../src/engine/client.ts";
import type { Engine } from "../../src/engine/engine.ts";
import { sweep } from "../../src/engine/sweep.ts";
import type { ModelOutcome, ModelRequest } from "../../src/ports.ts";
import { createSilentLogger } from "../../src/telemetry/logger.ts";
import { scriptedModel } from "../../src/testing/index.ts";
import { defineTool } from "../../src/tools/define-tool.ts";
import { problemsOf } from "../support/transcript.ts";
import { type Agent, type Bench, makeBench } from "./support.ts";

const session = "chat";
const note = defineTool({
  name: "note",
  description: "Notes a word.",
  parameters: z.object({ word: z.string().describe("the word") }),
  effect: "read",
  execute: ({ word }) => `noted ${word}`,
});

/** Calls a tool in its first turn and answers in its second; named after whom it serves. */
function makeAgent(name: string): Agent {
  const model = scriptedModel([
    ({ runId }) => ({ text: `one of ${runId}`, toolCalls: [{ name: "note", arguments: { word: runId } }] }),
    ({ runId }) => `two of ${runId}`,
    ({ runId }) => `three of ${runId}`,
  ]);
  return defineAgent({ name, instructions: "Talk.", model, tools: [note] });
}

const failing = defineAgent({
  name: "failing",
  instructions: "Fail.",
  model: scriptedModel([
    {
      text: "at last",
      fail: [{ class: "permanent", code: "bad_key", message: "no such key" }],
    },
  ]),
});

type Talk = Bench & {
  engine: Engine;
  start(runId: string, options?: StartOptions & { agent?: string }): Promise<string>;
  drain(): Promise<void>;
  status(runId: string): Promise<string | undefined>;
  texts(): Promise<string[]>;
};

function makeTalk(): Talk {
  const bench = makeBench();
  const engine = bench.process({ agents: [makeAgent("a"), makeAgent("b"), failing] });
  onTestFinished(() => engine.close());
  return {
    ...bench,
    engine,
    start: async (runId, { agent = "a", ...options } = {}) =>
      (await engine.client.start(agent, `in ${runId}`, { runId, session, ...options })).runId,
    drain: () => bench.queue.drain(engine.runStep, { advanceTime: true }),
    status: async (runId) => (await bench.store.load(runId))?.status,
    texts: async () => (await engine.session(session).transcript()).map(textOf),
  };
}

const textOf = ({ content }: Message): string => (typeof content === "string" ? content : JSON.stringify(content));
const allOf = (runId: string): string[] => [`in ${runId}`, `one of ${runId}`, `noted ${runId}`, `two of ${runId}`];

describe("runs of one session", () => {
  test("take turns in order of start and share the transcript, whatever their agents", async () => {
    const talk = makeTalk();
    for (const [runId, agent] of [
      ["r1", "a"],
      ["r2", "b"],
      ["r3", "a"],
    ] as const) {
      await talk.start(runId, { agent });
    }
    expect(talk.queue.list().map(({ step }) => `${step.kind} ${step.runId}`)).toEqual(["model r1"]);
    expect(await talk.engine.handle("r1").status()).toMatchObject({ status: "queued", session });
    const second = { ahead: 1, waitingFor: "run r1, which goes first in its session" };
    expect(await talk.engine.handle("r2").status()).toMatchObject({ status: "queued", session, ...second });
    expect(await talk.engine.handle("r3").status()).toMatchObject({ ahead: 2 });
    const { active, queued } = await talk.engine.session(session).runs();
    expect([active?.runId, ...queued.map((run) => run.runId)]).toEqual(["r1", "r2", "r3"]);
    await talk.drain();
    expect(await talk.texts()).toEqual([...allOf("r1"), ...allOf("r2"), ...allOf("r3")]);
    expect(problemsOf(await talk.engine.session(session).transcript())).toEqual([]);
    expect(await talk.engine.session(session).runs()).toEqual({ active: undefined, queued: [] });
    for (const runId of ["r1", "r2", "r3"]) expect((await talk.store.load(runId))?.place).toBeUndefined();
    expect(await talk.store.owing(Number.POSITIVE_INFINITY, 10)).toEqual([]);
  });

  test("each show their own part, their own answer and their own feed", async () => {
    const talk = makeTalk();
    for (const runId of ["r1", "r2"]) await talk.start(runId);
    await talk.drain();
    const [first, second] = [talk.engine.handle("r1"), talk.engine.handle("r2")];
    expect((await first.transcript()).map(textOf)).toEqual(allOf("r1"));
    expect((await second.transcript()).map(textOf)).toEqual(allOf("r2"));
    expect((await first.transcript({ session: true })).map(textOf)).toEqual(allOf("r1"));
    expect((await second.transcript({ session: true })).map(textOf)).toEqual([...allOf("r1"), ...allOf("r2")]);
    expect(await first.result()).toMatchObject({ status: "completed", output: "two of r1" });
    expect(await second.result()).toMatchObject({ status: "completed", output: "two of r2" });
    const told: string[] = [];
    for await (const event of second.events()) {
      if ("content" in event) told.push(...(event.content ?? []).map(textOf));
      if ("answer" in event && event.answer) told.push(textOf(event.answer));
    }
    expect(told).toEqual(["in r2", "one of r2", "noted r2", "noted r2", "two of r2"]);
  });

  test("queue the same run once, and another input under its id is a conflict", async () => {
    const talk = makeTalk();
    for (const runId of ["r1", "r2", "r2"]) await talk.start(runId);
    await expect(talk.engine.client.start("a", "other", { runId: "r2", session })).rejects.toMatchObject({
      code: "conflict",
    });
    await talk.drain();
    await talk.start("r1");
    await talk.drain();
    expect(await talk.texts()).toEqual([...allOf("r1"), ...allOf("r2")]);
  });

  test("one that is cancelled while queued leaves the line, the active one hands over", async () => {
    const talk = makeTalk();
    for (const runId of ["r1", "r2", "r3"]) await talk.start(runId);
    expect(await talk.engine.handle("r2").cancel()).toBe(true);
    expect(await talk.engine.handle("r1").cancel()).toBe(true);
    await talk.drain();
    expect(await talk.texts()).toEqual(["in r1", ...allOf("r3")]);
    expect(await talk.status("r2")).toBe("cancelled");
    expect(await talk.engine.handle("r2").transcript()).toEqual([]);
  });

  test("one whose deadline passes while it is queued ends there", async () => {
    const talk = makeTalk();
    await talk.start("r1");
    await talk.start("r2", { limits: { deadlineMs: 1_000 } });
    await talk.start("r3");
    talk.clock.advance(1_001);
    await talk.drain();
    expect(await talk.store.load("r2")).toMatchObject({ status: "failed", stopReason: "deadline" });
    expect(await talk.texts()).toEqual([...allOf("r1"), ...allOf("r3")]);
  });

  test("one that is delayed joins the line when its time has come", async () => {
    const talk = makeTalk();
    await talk.start("r1", { delayMs: 60_000 });
    expect(await talk.engine.handle("r1").status()).toMatchObject({ waitingFor: "the time to join its session" });
    await talk.start("r2");
    await talk.drain();
    expect(await talk.texts()).toEqual([...allOf("r2"), ...allOf("r1")]);
  });

  test("a failed one joins again behind the others and has its input said again", async () => {
    const talk = makeTalk();
    await talk.start("r1", { agent: "failing" });
    await talk.start("r2");
    await talk.drain();
    expect(await talk.status("r1")).toBe("failed");
    await talk.start("r3");
    await talk.engine.handle("r1").retry();
    await talk.drain();
    expect(await talk.status("r1")).toBe("failed");
    expect(await talk.texts()).toEqual(["in r1", ...allOf("r2"), ...allOf("r3"), "in r1"]);
    expect((await talk.engine.handle("r1").transcript()).map(textOf)).toEqual(["in r1", "in r1"]);
  });

  test("one that is retried before it has handed over still lets the next go", async () => {
    const talk = makeTalk();
    await talk.start("r1", { agent: "failing" });
    await talk.start("r2");
    await talk.queue.run(talk.engine.runStep);
    expect(await talk.store.load("r1")).toMatchObject({ status: "failed", place: { state: "leaving" } });
    await talk.engine.handle("r1").retry();
    await talk.drain();
    expect(await talk.texts()).toEqual(["in r1", ...allOf("r2"), "in r1"]);
  });

  test("a start that died before its look at the line is found by the sweeper", async () => {
    const talk = makeTalk();
    const store = { ...talk.store, readSession: () => Promise.reject(new Error("died")) };
    const dying = talk.process({ store });
    await dying.client.start("a", "in r1", { runId: "r1", session });
    dying.close();
    await talk.start("r2");
    // Whoever looks tells the head of the line.
    await talk.drain();
    expect(await talk.texts()).toEqual([...allOf("r1"), ...allOf("r2")]);
    const again = talk.process({ store });
    await again.client.start("a", "in r3", { runId: "r3", session });
    again.close();
    expect(talk.queue.list()).toEqual([]);
    talk.clock.advance(6_000);
    await sweep({ ...talk, logger: createSilentLogger() });
    await talk.drain();
    expect(await talk.status("r3")).toBe("completed");
  });

  test("a worker that dies between telling the next and queueing its step does it when the step comes again", async () => {
    const talk = makeTalk();
    for (const runId of ["r1", "r2"]) await talk.start(runId);
    while (talk.queue.list()[0]?.step.kind !== "session") await talk.queue.run(talk.engine.runStep);
    const dying = talk.process({ queue: { ...talk.queue, add: () => Promise.reject(new Error("died")) } });
    const taken = talk.queue.take();
    if (!taken) throw new Error("no step");
    await dying.runStep(taken.delivery);
    dying.close();
    expect(await talk.store.load("r2")).toMatchObject({ place: { state: "active" } });
    expect(talk.queue.list()).toMatchObject([{ step: { runId: "r1", kind: "session" } }]);
    talk.queue.redeliver(taken.delivery.step);
    await talk.drain();
    expect(await talk.texts()).toEqual([...allOf("r1"), ...allOf("r2")]);
  });

  test("what a process remembers of a run does not hide what others said before it goes on", async () => {
    const sent: string[][] = [];
    const model = scriptedModel([
      ({ runId, attempt, messages }) => {
        sent.push(messages.map(textOf));
        if (runId === "r1" && sent.length === 1) {
          return { fail: { class: "permanent", code: "bad_key", message: `attempt ${attempt}` } };
        }
        return `answer of ${runId}`;
      },
    ]);
    const bench = makeBench();
    const agent = defineAgent({ name: "a", instructions: "Talk.", model });
    const engine = bench.process({ agents: [agent] });
    onTestFinished(() => engine.close());
    const say = (runId: string): Promise<unknown> => engine.client.start("a", `in ${runId}`, { runId, session });
    await say("r1");
    const stale = bench.queue.take();
    if (!stale) throw new Error("no step");
    stale.end(await engine.runStep(stale.delivery));
    await say("r2");
    await engine.handle("r1").retry();
    // Comes again, and is not owed any more: only the run is read.
    await engine.runStep({ ...stale.delivery, deliveries: 2 });
    await bench.queue.drain(engine.runStep, { advanceTime: true });
    expect(sent.at(-1)?.join(" ")).toContain("answer of r2");
    expect(sent.at(-1)?.at(-1)).toBe("in r1");
  });

  test("of a long talk each condenses only what no run before it has", async () => {
    const asked: string[] = [];
    const model = scriptedModel([({ runId }) => `answer of ${runId} ${"and so on ".repeat(40)}`]);
    const condense = async ({ messages }: ModelRequest): Promise<ModelOutcome> => {
      asked.push(messages.map(textOf).join("\n"));
      const reply = { content: `summary ${asked.length}`, toolCalls: [] };
      return { type: "reply", reply, finishReason: "stop", usage: noUsage, dropped: [] };
    };
    const summariser = { ...scriptedModel([]), client: { call: condense } };
    const window = { budgetTokens: 1_000, lastTurns: 1, summarise: { model: summariser } };
    const agent = defineAgent({ name: "a", instructions: "Talk.", model, request: { max_tokens: 100 }, window });
    const bench = makeBench();
    const engine = bench.process({ agents: [agent] });
    onTestFinished(() => engine.close());
    // More are queued than one page of a listing holds.
    const runIds = Array.from({ length: 110 }, (_, index) => `r${index}.`);
    for (const runId of runIds) {
      await engine.client.start("a", `in ${runId}`, { runId, session });
      bench.clock.advance(1);
    }
    await bench.queue.drain(engine.runStep, { advanceTime: true });
    for (const id of runIds) expect(await engine.handle(id).result()).toMatchObject({ status: "completed" });
    expect(asked.length).toBeGreaterThan(2);
    for (const runId of runIds.slice(0, 5)) {
      expect(asked.filter((text) => text.includes(`[user] in ${runId}`)).length).toBe(1);
    }
    expect(asked.at(-1)).toContain(`summary ${asked.length - 1}`);
  });

  test("an id that no session can have is refused", async () => {
    const talk = makeTalk();
    expect(() => talk.engine.session("a:b")).toThrow(/session: must be/);
    await expect(talk.start("r1", { session: "a:b" })).rejects.toMatchObject({ code: "invalid" });
    const alone = talk.engine.client.start("a", "in", { whenBusy: "inject" });
    await expect(alone).rejects.toMatchObject({
      code: "invalid",
      message: /session: must be the id of a session, since whenBusy is given/,
    });
  });
});

describe("input for a session that is busy", () => {
  const inject = { whenBusy: "inject" } as const;

  test("enters the active run between its turns, once however often it is given", async () => {
    const talk = makeTalk();
    await talk.start("r1");
    await talk.queue.run(talk.engine.runStep);
    for (let time = 0; time < 3; time += 1) expect(await talk.start("i1", inject)).toBe("r1");
    await talk.drain();
    expect(await talk.start("i1", inject)).toBe("r1");
    await talk.drain();
    expect(await talk.texts()).toEqual(["in r1", "one of r1", "noted r1", "in i1", "two of r1"]);
    expect(await talk.store.load("i1")).toBeNull();
    const other = talk.engine.client.start("a", "another", { runId: "i1", session, ...inject });
    await expect(other).rejects.toMatchObject({ code: "conflict" });
  });

  test("starts a run when none is active, and stays with it", async () => {
    const talk = makeTalk();
    expect(await talk.start("i1", inject)).toBe("i1");
    expect(await talk.start("i2", inject)).toBe("i1");
    expect(await talk.start("i1", inject)).toBe("i1");
    await talk.drain();
    expect(await talk.start("i1", inject)).toBe("i1");
    expect(await talk.texts()).toEqual(["in i1", "one of i1", "noted i1", "in i2", "two of i1"]);
  });

  test("gets a run of its own behind one of another agent", async () => {
    const talk = makeTalk();
    await talk.start("r1");
    expect(await talk.start("i1", { agent: "b", ...inject })).toBe("i1");
    await talk.drain();
    expect(await talk.texts()).toEqual([...allOf("r1"), ...allOf("i1")]);
    expect(await talk.start("i1", { agent: "b", ...inject })).toBe("i1");
  });

  test("gets a run of its own if the active one ends before it takes it", async () => {
    const talk = makeTalk();
    await talk.start("r1");
    const ending = {
      ...talk.store,
      claimInput: async (...args: Parameters<Bench["store"]["claimInput"]>) => {
        const claim = await talk.store.claimInput(...args);
        await talk.drain();
        return claim;
      },
    };
    const slow = talk.process({ store: ending });
    onTestFinished(() => slow.close());
    expect((await slow.client.start("a", "in i1", { runId: "i1", session, ...inject })).runId).toBe("i1");
    expect(await talk.start("i1", inject)).toBe("i1");
    await talk.drain();
    expect(await talk.texts()).toEqual([...allOf("r1"), ...allOf("i1")]);
  });

  test("given again after its first try died is given once, wherever it died", async () => {
    const points = ["claimInput", "commit", "confirmInput"] as const;
    for (const point of points) {
      for (const when of ["before", "after"]) {
        const talk = makeTalk();
        await talk.start("r1");
        const dying = {
          ...talk.store,
          [point]: async (...args: unknown[]) => {
            if (when === "after") await (talk.store[point] as (...all: unknown[]) => Promise<unknown>)(...args);
            throw new Error("died");
          },
        };
        const first = talk.process({ store: dying as Bench["store"] });
        await expect(first.client.start("a", "in i1", { runId: "i1", session, ...inject })).rejects.toThrow("died");
        first.close();
        expect(await talk.start("i1", inject)).toBe("r1");
        await talk.drain();
        expect((await talk.texts()).filter((text) => text === "in i1")).toEqual(["in i1"]);
      }
    }
  });
});
