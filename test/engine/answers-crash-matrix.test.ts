// Catches: a gap between two port calls in which a dying process loses a question, an answer or a caller's result, or takes
// one twice. Each port call of one run that asks is the place of death once: before it, after it, and with it lost.
import { beforeAll, describe, expect, test } from "vitest";
import { z } from "zod";
import type { Message } from "../../src/core/message.ts";
import { isEnded, type OpenCall, type Run } from "../../src/core/run.ts";
import { defineAgent } from "../../src/define-agent.ts";
import type { Engine } from "../../src/engine/engine.ts";
import { sweep } from "../../src/engine/sweep.ts";
import { createSilentLogger } from "../../src/telemetry/logger.ts";
import { type CrashPoint, scriptedModel } from "../../src/testing/index.ts";
import { defineTool } from "../../src/tools/define-tool.ts";
import { askPerson } from "../../src/tools/stock/ask-person.ts";
import { type Bench, makeBench, makeMortal } from "./support.ts";

const runId = "asking-1";
const book = { name: "book", description: "Books.", parameters: { type: "object", properties: {} } };
type Called = { name: string; arguments: Record<string, unknown> };
const call = (name: string, args: Record<string, unknown> = {}): Called => ({ name, arguments: args });

type Played = { run: Run; messages: Message[]; feed: string[]; calls: readonly string[] };

/** Plays the whole story; a dead process is replaced and what it held is delivered again. */
async function play(point?: CrashPoint): Promise<Played> {
  const bench = makeBench();
  const look = defineTool({
    name: "look",
    description: "Looks.",
    parameters: z.object({}),
    effect: "read",
    execute: () => "seen",
  });
  const confirm = defineTool({
    name: "confirm",
    description: "Asks.",
    parameters: z.object({}),
    answeredBy: "person",
    answer: z.object({ ok: z.boolean() }),
    expiresMs: 60_000,
  });
  const model = scriptedModel([
    { toolCalls: [call("ask_person", { question: "Which?" }), call("look"), call("book", { seats: 2 })] },
    { toolCalls: [call("confirm"), call("book", { seats: 3 })] },
    { toolCalls: [call("confirm"), call("look")] },
    "done",
  ]);
  const agents = [defineAgent({ name: "asker", instructions: "Ask.", model, tools: [look, confirm, askPerson()] })];
  const { faults, engine, fresh, deliver } = makeMortal(bench, agents, point);

  /** A command from outside, given again in the same words until it is taken. */
  async function command(give: (engine: Engine) => Promise<unknown>): Promise<void> {
    for (;;) {
      const error = await give(engine()).then(
        () => null,
        (thrown: Error) => thrown,
      );
      await new Promise(setImmediate);
      if (faults.dead()) fresh();
      if (error === null) return;
      if (error.name !== "Crashed") throw error;
    }
  }

  await command((own) => own.client.start("asker", "go", { runId, tools: [book] }));
  for (let deliveries = 0; deliveries < 200; deliveries += 1) {
    if (bench.queue.list().some(({ dueAt }) => dueAt <= bench.clock.now())) {
      await deliver();
      continue;
    }
    const run = await bench.store.load(runId);
    if (!run) throw new Error("the run is lost");
    if (isEnded(run)) break;
    const waiting = run.calls.find(({ state }) => state === "answer");
    if (waiting) await command((own) => settle(own, run, waiting, bench));
    else {
      // A command died between its commit and its step: only the sweeper can know.
      bench.clock.advance(6_000);
      await sweep({ ...bench, logger: createSilentLogger() });
      if (bench.queue.list().length === 0) throw new Error(`stuck: ${JSON.stringify(run)}`);
    }
  }
  const run = await bench.store.load(runId);
  if (!run) throw new Error("the run is lost");
  const messages = await bench.store.readMessages(runId, 0, 100);
  const feed = (await bench.store.readFeed(runId, 0, 500)).map(({ type }) => type);
  return { run, messages, feed, calls: faults.calls };
}

/** What people and the caller do about each call: answer, decline, or let it expire. */
async function settle(engine: Engine, run: Run, { callId, tool }: OpenCall, bench: Bench): Promise<void> {
  const handle = engine.handle(runId);
  if (callId === "call-3-1") {
    bench.clock.advance(60_000);
    await sweep({ ...bench, logger: createSilentLogger() });
  } else if (callId === "call-2-1") await handle.deny(callId, { by: "ann", reason: `not in turn ${run.turns}` });
  else if (tool === "book") await handle.answer(callId, { seats: ["1a"] }, { by: "app", decisionId: callId });
  else await handle.answer(callId, "the first", { by: "ann" });
}

/** A message without the time at which somebody answered: a run that lost a worker is answered later. */
function timeless(message: Message): Message {
  if (message.role !== "tool") return message;
  const { answered, decision } = message;
  return {
    ...message,
    ...(answered ? { answered: { ...answered, at: 0 } } : {}),
    ...(decision ? { decision: { ...decision, at: 0 } } : {}),
  };
}

function expectSound(played: Played, clean: Played): void {
  expect(played.run).toMatchObject({ status: "completed", turns: 4 });
  expect(played.messages.map(timeless)).toEqual(clean.messages.map(timeless));
  const told = ["answer_asked", "answered", "denied", "answer_expired", "tool_finished"];
  const counts = ({ feed }: Played): number[] => told.map((type) => feed.filter((other) => other === type).length);
  expect(counts(played)).toEqual(counts(clean));
}

describe("a process of a run that asks, dying at any port call", () => {
  let clean: Played;

  beforeAll(async () => {
    clean = await play();
  });

  test("plays the story as told when nobody dies", () => {
    expect(clean.run).toMatchObject({ status: "completed", stopReason: "answered", turns: 4 });
    const results = clean.messages.filter((message) => message.role === "tool");
    expect(results.map(({ name, content, outcome }) => [name, content, outcome])).toEqual([
      ["ask_person", "the first", "ok"],
      ["look", "seen", "ok"],
      ["book", '{"seats":["1a"]}', "ok"],
      ["confirm", expect.stringContaining("ann declined to answer: not in turn 2."), "denied"],
      ["book", '{"seats":["1a"]}', "ok"],
      ["confirm", expect.stringContaining("Nobody answered within 60 s."), "denied"],
      ["look", "seen", "ok"],
    ]);
    expect(clean.calls.length).toBeGreaterThan(30);
  });

  test.each(["before", "after", "lost"] as const)("[G1] [G2] [G5] leaves a sound run: %s", async (when) => {
    for (let count = 1; count <= clean.calls.length; count += 1) {
      const played = await play({ call: count, when });
      try {
        expectSound(played, clean);
      } catch (error) {
        throw new Error(`death ${when} call ${count} (${clean.calls[count - 1]}): ${(error as Error).message}`);
      }
    }
  });
});
