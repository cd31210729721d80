// Catches: a report that tells something else than what happened, above all other requests than those that were sent.
import { describe, expect, test } from "vitest";
import { z } from "zod";
import type { TurnView } from "../../src/core/report.ts";
import { type AgentOptions, defineAgent } from "../../src/define-agent.ts";
import type { RunHandle } from "../../src/engine/run-handle.ts";
import type { ModelRequest, RunStore } from "../../src/ports.ts";
import { createMemoryDrover, scriptedModel } from "../../src/testing/index.ts";
import { defineTool } from "../../src/tools/define-tool.ts";
import { makeBench } from "./support.ts";

type Reply = Parameters<typeof scriptedModel>[0][number];

/** A model that says `reply` in every turn, and what it was asked. */
function modelOf(reply: (request: ModelRequest) => Reply): {
  model: ReturnType<typeof scriptedModel>;
  asked: ModelRequest[];
} {
  const asked: ModelRequest[] = [];
  const answer = (request: ModelRequest): Exclude<Reply, (request: ModelRequest) => unknown> => {
    asked.push({ ...request, messages: structuredClone(request.messages) });
    return reply(request) as never;
  };
  return { model: scriptedModel(Array.from({ length: 2_000 }, () => answer)), asked };
}

const dig = defineTool({
  name: "dig",
  description: "Digs.",
  parameters: z.object({ n: z.number().describe("where") }),
  effect: "read",
  execute: ({ n }) => `${n}: ${"sand and stone ".repeat(40)}`,
});
const digs = (turn: number): Reply => ({ text: `turn ${turn}`, toolCalls: [{ name: "dig", arguments: { n: turn } }] });

async function play<O = undefined>(options: Omit<AgentOptions<O>, "name" | "instructions">, input = "go") {
  const agent = defineAgent<O>({ name: "a", instructions: "Do it.", ...options });
  const drover = createMemoryDrover({ agents: [agent] });
  await drover.work();
  const run = await drover.start(agent.name, input);
  await run.result({ timeoutMs: 60_000 });
  return { drover, run };
}

/** All turns of a run, page by page. */
async function turnsOf(run: RunHandle, limit = 7): Promise<TurnView[]> {
  const turns: TurnView[] = [];
  for (;;) {
    const page = await run.turns({ from: turns.length + 1, limit });
    turns.push(...page.turns);
    if (turns.length >= page.total) return turns;
  }
}

const sent = ({ instructions, messages, tools, request }: ModelRequest) => ({ instructions, messages, tools, request });
const shown = ({ request }: TurnView) => ({
  instructions: request?.instructions,
  messages: request?.messages,
  tools: request?.tools,
  request: request?.request,
});

describe("requests", () => {
  test("[G6] are shown as they were sent: windows with summaries, reminders, cuts and nudges", async () => {
    const { model, asked } = modelOf(({ turn }) => (turn > 60 ? "found" : digs(turn)));
    const { run } = await play(
      { model, tools: [dig], window: { budgetTokens: 2_500 }, limits: { maxTurns: 100 }, request: { temperature: 0 } },
      "find the needle",
    );
    const turns = await turnsOf(run);
    expect(turns.map(({ turn }) => turn)).toEqual(Array.from({ length: 61 }, (_, index) => index + 1));
    expect(turns.map(shown)).toEqual(asked.map(sent));
    expect(turns.flatMap(({ steps }) => steps).filter(({ kind }) => kind === "summary").length).toBeGreaterThan(3);
    expect(JSON.stringify(turns.at(-1)?.request?.messages)).toContain("Reminder of the task");
  });
});

describe("requests of", () => {
  test("[G6] runs that share a session, a retry after others have spoken included", async () => {
    const asked: ModelRequest[] = [];
    let broken = true;
    const model = scriptedModel([
      (request) => {
        asked.push({ ...request, messages: structuredClone(request.messages) });
        return digs(1) as never;
      },
      (request) => {
        const isFirst = request.runId === "first";
        if (isFirst && broken) return { fail: { class: "permanent", code: "bad_key", message: "no such key" } };
        asked.push({ ...request, messages: structuredClone(request.messages) });
        return isFirst ? (digs(2) as never) : "done";
      },
      (request) => {
        asked.push({ ...request, messages: structuredClone(request.messages) });
        return "done at last";
      },
    ]);
    const agent = defineAgent({ name: "a", instructions: "Do it.", model, tools: [dig], window: { remindEvery: 1 } });
    const drover = createMemoryDrover({ agents: [agent] });
    await drover.work();
    const first = await drover.start("a", "goal of the first", { runId: "first", session: "s" });
    await first.result();
    const second = await drover.start("a", "goal of the second", { runId: "second", session: "s" });
    await second.result();
    broken = false;
    await first.retry();
    await first.result();
    const [one, two] = [await turnsOf(first), await turnsOf(second)];
    const of = (runId: string) => asked.filter((request) => request.runId === runId).map(sent);
    expect(one.map(shown)).toEqual(of("first"));
    expect(two.map(shown)).toEqual(of("second"));
    expect(one.map(({ marks }) => marks.map(({ type }) => type))).toEqual([
      ["session_entered"],
      ["ended", "retried", "session_entered"],
      ["ended"],
    ]);
    expect(one[1]?.input.map(({ content }) => content)).toEqual(["goal of the first"]);
    expect(one[1]?.steps.map(({ outcome }) => outcome)).toEqual(["failed", "ok", "ok"]);
    expect(JSON.stringify(one[2]?.request?.messages)).toContain("Reminder of the task: goal of the first");
  });

  test("[G6] a run whose server said how much it takes: before that nothing was counted", async () => {
    const goal = `find ${"the needle in the haystack ".repeat(60)}`;
    const { model, asked } = modelOf(({ turn, messages }) => {
      const isLong = JSON.stringify(messages).length > 16_000;
      if (isLong) return { fail: { class: "overflow", code: "too_long", message: "too long", limitTokens: 4_000 } };
      return turn > 30 ? "found" : digs(turn);
    });
    const { run } = await play({ model, tools: [dig], limits: { maxTurns: 100 } }, goal);
    const turns = await turnsOf(run);
    const answered = asked.filter(({ messages }) => JSON.stringify(messages).length <= 16_000);
    expect(turns.map(shown)).toEqual(answered.map(sent));
    const [before, after] = [turns[3], turns.at(-1)].map((turn) => JSON.stringify(turn?.request?.messages));
    expect(before).toContain("Reminder of the task");
    expect(before?.match(/Reminder of the task[^"]*/)?.[0].length).not.toBe(
      after?.match(/Reminder of the task[^"]*/)?.[0].length,
    );
    const shrunk = turns.flatMap(({ steps }) => steps).filter(({ reason }) => reason?.includes("too long"));
    expect(shrunk.length).toBeGreaterThan(0);
  });

  test("agents that nobody here knows are shown without messages where texts were cut", async () => {
    const { model } = modelOf(({ turn }) => (turn > 12 ? "found" : digs(turn)));
    const bench = makeBench();
    const agent = defineAgent({
      name: "a",
      instructions: "Do it.",
      model,
      tools: [dig],
      window: { budgetTokens: 1_200 },
    });
    const worker = bench.process({ agents: [agent] });
    const { runId } = await worker.client.start("a", "find it");
    while (await bench.queue.run(worker.runStep)) bench.clock.advance(1);
    const stranger = bench.process().handle(runId);
    const { turns } = await stranger.turns();
    const own = await worker.handle(runId).turns();
    const hasMessages = (page: { turns: TurnView[] }): boolean[] =>
      page.turns.map(({ request }) => request?.messages !== undefined);
    expect(hasMessages(own)).not.toContain(false);
    expect(hasMessages({ turns })[0]).toBe(true);
    expect(hasMessages({ turns })).toContain(false);
    expect(turns.map(({ request }) => request?.leftOut)).toEqual(own.turns.map(({ request }) => request?.leftOut));
  });
});

describe("a page", () => {
  const long = async (turns: number) => {
    const { model } = modelOf(({ turn }) => (turn > turns - 1 ? "found" : digs(turn)));
    const bench = makeBench();
    const agent = defineAgent({ name: "a", instructions: "Do it.", model, tools: [dig], limits: { maxTurns: turns } });
    const reads = { feed: 0, entries: 0, messages: 0 };
    const store: RunStore = {
      ...bench.store,
      readFeed: async (...args) => {
        const entries = await bench.store.readFeed(...args);
        reads.feed += 1;
        reads.entries += entries.length;
        return entries;
      },
      readMessages: async (...args) => {
        const messages = await bench.store.readMessages(...args);
        reads.messages += messages.length;
        return messages;
      },
    };
    const engine = bench.process({ agents: [agent], store });
    const { runId } = await engine.client.start("a", "find it");
    while (await bench.queue.run(engine.runStep)) bench.clock.advance(1);
    Object.assign(reads, { feed: 0, entries: 0, messages: 0 });
    return { run: engine.handle(runId), reads };
  };

  test("of a long run reads what it shows, and not the run", async () => {
    const { run, reads } = await long(400);
    const page = await run.turns({ from: 201, limit: 20, requests: false });
    expect(page.total).toBe(400);
    expect(page.turns.map(({ turn }) => turn)).toEqual(Array.from({ length: 20 }, (_, index) => 201 + index));
    expect(page.turns.every(({ steps, calls }) => steps.length === 2 && calls[0]?.outcome === "ok")).toBe(true);
    expect(page.turns[0]?.request).toMatchObject({ kept: 401, leftOut: [], offered: ["dig"] });
    expect(page.turns[0]?.request?.messages).toBeUndefined();
    expect(reads.messages).toBeLessThan(60);
    expect(reads.feed).toBeLessThan(40);
    expect(reads.entries).toBeLessThan(1_100);
    const whole = await run.turns({ from: 300, limit: 1 });
    expect(whole.turns[0]?.request?.messages?.length).toBe(599);
    for (const [from, limit] of [
      [1, 200],
      [399, 5],
      [400, 1],
    ] as const) {
      const { turns, total } = await run.turns({ from, limit, requests: false });
      expect(total).toBe(400);
      expect(turns[0]?.turn).toBe(from);
      expect(turns.length).toBe(Math.min(limit, 401 - from));
      expect(turns.every(({ steps }) => steps.some(({ kind }) => kind === "model"))).toBe(true);
    }
    expect(await run.turns({ from: 401 })).toEqual({ turns: [], total: 400 });
    // With whole requests a page is as long as 5,000 messages, and goes on where it ended.
    const late = await run.turns({ from: 381, limit: 200 });
    expect(late.turns.map(({ turn }) => turn)).toEqual([381, 382, 383, 384, 385, 386]);
    expect((await run.turns({ from: 387, limit: 1 })).turns[0]?.turn).toBe(387);
  });

  test("is asked for by numbers within bounds, of a run that there is", async () => {
    const { run } = await long(2);
    for (const from of [0, -1, 1.5, Number.NaN]) await expect(run.turns({ from })).rejects.toThrow(/^from: expected/);
    for (const limit of [0, 201]) await expect(run.turns({ limit })).rejects.toThrow(/^limit: expected.*1 to 200/);
    const other = makeBench().process().handle("none");
    await expect(other.turns()).rejects.toMatchObject({ code: "not_found" });
  });
});

describe("a run that goes on", () => {
  const ask = defineTool({
    name: "pay",
    description: "Pays.",
    parameters: z.object({ n: z.number().describe("how much") }),
    effect: "irreversible",
    execute: ({ n }) => `paid ${n}`,
  });
  const both: Reply = {
    toolCalls: [
      { name: "pay", arguments: { n: 1 } },
      { name: "dig", arguments: { n: 2 } },
      { name: "nothing", arguments: {} },
    ],
  };

  test("shows what is open, results that wait for others, and input that waits to enter", async () => {
    const { model } = modelOf(({ turn }) => (turn === 1 ? both : "done"));
    const bench = makeBench();
    const agent = defineAgent({ name: "a", instructions: "Do it.", model, tools: [dig, ask] });
    const engine = bench.process({ agents: [agent] });
    const { runId } = await engine.client.start("a", "pay and dig");
    const run = engine.handle(runId);
    const [before] = (await run.turns()).turns;
    expect(before).toMatchObject({
      turn: 1,
      steps: [{ kind: "model", outcome: "open" }],
      input: [{ content: "pay and dig" }],
    });
    expect(before?.endedAt).toBeUndefined();
    while (await bench.queue.run(engine.runStep)) bench.clock.advance(1);
    await run.send("and hurry");
    const { turns, total } = await run.turns();
    expect(total).toBe(2);
    expect(turns[0]?.steps.map(({ kind, tool, outcome }) => [kind, tool, outcome])).toEqual([
      ["model", undefined, "ok"],
      ["approval", "pay", "open"],
      ["tool", "nothing", "failed"],
      ["tool", "dig", "ok"],
    ]);
    expect(turns[0]?.calls.map(({ outcome, result }) => [outcome, String(result).slice(0, 7)])).toEqual([
      [undefined, "undefin"],
      ["ok", "2: sand"],
      ["failed", expect.any(String)],
    ]);
    expect(turns[0]?.endedAt).toBeUndefined();
    expect(turns[1]).toMatchObject({ turn: 2, steps: [], input: [{ content: "and hurry" }] });
    await run.deny("call-1-1", { by: "ann", reason: "too dear" });
    while (await bench.queue.run(engine.runStep)) bench.clock.advance(1);
    const done = (await run.turns()).turns;
    expect(done[0]?.calls[0]).toMatchObject({ outcome: "denied", decision: { by: "ann" } });
    expect(done[0]?.steps[1]).toMatchObject({ outcome: "denied", by: "ann", reason: "too dear" });
    expect(done[1]).toMatchObject({ answer: { content: "done" }, marks: [{ type: "ended", status: "completed" }] });
    expect(done[1]?.endedAt).toBeDefined();
  });

  test("tells the times that its steps took, and that they were delivered again", async () => {
    const { model } = modelOf(({ turn }) => (turn === 1 ? digs(1) : "done"));
    const bench = makeBench();
    const engine = bench.process({ agents: [defineAgent({ name: "a", instructions: "Do it.", model, tools: [dig] })] });
    const { runId } = await engine.client.start("a", "dig");
    bench.clock.advance(250);
    while (await bench.queue.run(engine.runStep)) bench.clock.advance(1);
    const [first] = (await engine.handle(runId).turns()).turns;
    expect(first?.steps[0]).toMatchObject({ kind: "model", queueWaitMs: 250, performMs: expect.any(Number) });
    expect(first?.steps[1]).toMatchObject({ kind: "tool", performMs: expect.any(Number) });
    expect(first?.usage.inputTokens).toBeGreaterThan(0);
  });
});

describe("a run that", () => {
  test("was rejected is one turn that says why", async () => {
    const bench = makeBench();
    const engine = bench.process();
    await engine.client.reject({ runId: "bad-1", agent: "a", reason: "input: expected text" });
    const page = await engine.handle("bad-1").turns();
    expect(page).toMatchObject({
      total: 1,
      turns: [{ turn: 1, steps: [], marks: [{ type: "rejected", error: { message: "input: expected text" } }] }],
    });
    expect(page.turns[0]?.endedAt).toBeDefined();
  });

  test("was asked again, checked and refused tells each, and what the model was told", async () => {
    const output = z.object({ n: z.number() });
    const { model } = modelOf(({ turn }) => ["no JSON", '{"n":1}', '{"n":2}'][turn - 1] ?? "");
    const { run } = await play({ model, output, verify: ({ n }) => (n === 2 ? true : "must be 2") });
    const { turns } = await run.turns();
    expect(turns.map(({ steps }) => steps.map(({ kind, outcome }) => `${kind} ${outcome}`))).toEqual([
      ["model ok", "verify failed"],
      ["model ok", "verify failed"],
      ["model ok", "verify ok"],
    ]);
    expect(turns[1]?.input).toMatchObject([
      { role: "user", origin: "run", content: expect.stringContaining("not JSON") },
    ]);
    expect(turns[2]?.input).toMatchObject([{ origin: "run", content: expect.stringContaining("must be 2") }]);
    expect(turns[0]?.request?.output).toMatchObject({ schema: { required: ["n"] } });
    expect(turns[2]?.steps[1]?.performMs).toBeDefined();
  });

  test("failed for good, or was cancelled, ends in the turn that it was in; a dry run tells of what it did not do", async () => {
    const pay = defineTool({
      name: "pay",
      description: "Pays.",
      parameters: z.object({ n: z.number().describe("how much") }),
      effect: "write",
      execute: ({ n }) => `paid ${n}`,
    });
    const { model } = modelOf(({ turn }) =>
      turn === 1
        ? { toolCalls: [{ name: "pay", arguments: { n: 5 } }] }
        : { fail: { class: "permanent", code: "bad_key", message: "no such key sk-proj-abcdefghijklmnopqrstuvwx" } },
    );
    const agent = defineAgent({ name: "a", instructions: "Do it.", model, tools: [pay] });
    const drover = createMemoryDrover({ agents: [agent] });
    await drover.work();
    const run = await drover.start("a", "pay", { dryRun: true });
    await run.result();
    const { turns, total } = await run.turns();
    expect(total).toBe(2);
    expect(turns[0]?.calls[0]?.described).toEqual(expect.stringContaining("pay"));
    expect(turns[1]).toMatchObject({
      steps: [{ kind: "model", outcome: "failed", nextAt: null }],
      marks: [{ type: "ended", status: "failed", stopReason: "model_error" }],
    });
    expect(turns[1]?.request).toBeUndefined();
    expect(turns[1]?.endedAt).toBeDefined();
    expect(JSON.stringify(turns)).not.toContain("abcdefghijklmnop");
  });
});

test("[G6] secrets in the tools that came with the start are not shown", async () => {
  const secret = `sk-proj-${"aB3dE5gH7jK9mN1pQ3sT5vW7yZ9bC1dE3fG5".repeat(1)}`;
  const bench = makeBench();
  const agent = defineAgent({ name: "a", instructions: "", model: scriptedModel(["done"]) });
  const engine = bench.process({ agents: [agent] });
  const parameters = { type: "object", properties: { key: { type: "string", description: `such as ${secret}` } } };
  const tools = [{ name: "book", description: `Books with ${secret}.`, parameters }];
  const { runId } = await engine.client.start("a", "go", { tools });
  await bench.queue.drain(engine.runStep, { advanceTime: false });
  const page = await engine.handle(runId).turns();
  expect(page.turns[0]?.request?.tools).toMatchObject([{ name: "book" }]);
  expect(JSON.stringify(page)).not.toContain(secret);
});

test("when a budget was learned is looked up once for a page, not for each of its requests", async () => {
  const { model } = modelOf(({ turn, messages }) => {
    const isLong = JSON.stringify(messages).length > 16_000;
    if (isLong) return { fail: { class: "overflow", code: "too_long", message: "too long", limitTokens: 4_000 } };
    return turn > 30 ? "found" : digs(turn);
  });
  const bench = makeBench();
  let reads = 0;
  const readFeed: RunStore["readFeed"] = (...args) => {
    reads += 1;
    return bench.store.readFeed(...args);
  };
  const agent = defineAgent({ name: "a", instructions: "Do it.", model, tools: [dig], limits: { maxTurns: 100 } });
  const engine = bench.process({ agents: [agent], store: { ...bench.store, readFeed } });
  const { runId } = await engine.client.start("a", "go");
  await bench.queue.drain(engine.runStep, { advanceTime: true });
  reads = 0;
  const page = await engine.handle(runId).turns({ limit: 50 });
  expect(
    page.turns.filter(({ request }) => JSON.stringify(request).includes("Reminder of the task")).length,
  ).toBeGreaterThan(15);
  const summaries = page.turns.flatMap(({ steps }) => steps).filter(({ kind }) => kind === "summary").length;
  expect(reads).toBeLessThan(summaries + 5);
});
