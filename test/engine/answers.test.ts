// Catches: an answer from outside that is lost, taken twice, or taken for another; a question that nobody can see or that
// never ends. The same over memory and over Redis.
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { z } from "zod";
import type { Run } from "../../src/core/run.ts";
import { defineAgent } from "../../src/define-agent.ts";
import type { StartOptions } from "../../src/engine/client.ts";
import type { RunHandle } from "../../src/engine/run-handle.ts";
import { scriptedModel } from "../../src/testing/index.ts";
import { defineTool } from "../../src/tools/define-tool.ts";
import { askPerson } from "../../src/tools/stock/ask-person.ts";
import { type StoreSetup, setUpStore } from "../redis/setup.ts";
import { type Bench, makeBench } from "./support.ts";

const hourMs = 3_600_000;
const look = defineTool({
  name: "look",
  description: "Looks.",
  parameters: z.object({}),
  effect: "read",
  execute: () => "seen",
});
const confirm = defineTool({
  name: "confirm",
  description: "Asks a person to confirm.",
  parameters: z.object({ what: z.string() }),
  answeredBy: "person",
  answer: z.object({ ok: z.boolean(), amount: z.int().min(1) }),
});
const question = { name: "ask_person", arguments: { question: "Where to?", choices: ["home", "office"] } };
const agents = [
  defineAgent({
    name: "asker",
    instructions: "Ask.",
    model: scriptedModel([{ toolCalls: [question, { name: "look" }] }, "done"]),
    tools: [look, askPerson({ expiresMs: hourMs })],
  }),
  defineAgent({
    name: "confirmer",
    instructions: "Confirm.",
    model: scriptedModel([{ toolCalls: [{ name: "confirm", arguments: { what: "the order" } }] }, "done"]),
    tools: [confirm],
  }),
  defineAgent({
    name: "caller",
    instructions: "Use what you are given.",
    model: scriptedModel([
      {
        toolCalls: [
          { name: "book", arguments: { seats: 2 } },
          { name: "book", arguments: { seats: "two" } },
          { name: "look" },
        ],
      },
      { toolCalls: [{ name: "nothing_like_it" }] },
      "booked",
    ]),
    tools: [look],
  }),
];
const book = {
  name: "book",
  description: "Books seats.",
  parameters: { type: "object", properties: { seats: { type: "integer" } }, required: ["seats"] },
};

describe.each(["memory", "redis"])("over %s", (kind) => {
  let setup: StoreSetup | undefined;
  let bench: Bench;
  beforeEach(() => {
    bench = makeBench();
    setup = kind === "redis" ? setUpStore() : undefined;
    if (setup) bench = { ...bench, store: setup.store };
  });
  afterEach(() => setup?.close());

  type Begun = { run: RunHandle; elsewhere: RunHandle; work(): Promise<void> };

  /** A run that has come to wait for somebody; `elsewhere` is a process without the agent's code. */
  async function begun(agent: string, options: StartOptions = {}): Promise<Begun> {
    const engine = bench.process({ agents, store: bench.store });
    const { runId } = await engine.client.start(agent, "go", { by: "zoe", ...options });
    const work = (): Promise<void> => bench.queue.drain(engine.runStep, { advanceTime: false });
    await work();
    const elsewhere = bench.process({ store: bench.store }).handle(runId);
    return { run: engine.handle(runId), elsewhere, work };
  }

  const resultsOf = async (run: RunHandle): Promise<unknown[]> =>
    (await run.transcript()).filter((message) => message.role === "tool");

  const refusal = async (given: Promise<void>, code: string, message: RegExp): Promise<void> =>
    expect(given).rejects.toMatchObject({ code, message: expect.stringMatching(message) });

  test("[G5] a question to a person waits without a step, is seen in the status and goes on with the answer", async () => {
    const { run, elsewhere, work } = await begun("asker");
    const now = bench.clock.now();
    const { status, waitingFor, openCalls } = await elsewhere.status();
    expect({ status, waitingFor }).toEqual({ status: "waiting", waitingFor: "an answer from a person" });
    expect(openCalls).toEqual([
      expect.objectContaining({
        callId: "call-1-1",
        toolCallId: expect.any(String),
        tool: "ask_person",
        state: "answer",
        from: "person",
        question: "Where to? (home / office)",
        arguments: JSON.stringify(question.arguments),
        askedAt: now,
        expiresAt: now + hourMs,
      }),
    ]);
    // Nothing but the one delayed look at the expiry.
    expect(bench.queue.list().map(({ step, state }) => [step.kind, state])).toEqual([["wake", "delayed"]]);
    await elsewhere.answer("call-1-1", "home", { by: "ann" });
    await work();
    expect(await run.status()).toMatchObject({ status: "completed", openCalls: [] });
    expect(await resultsOf(run)).toMatchObject([
      { name: "ask_person", content: "home", outcome: "ok", answered: { by: "ann", at: now } },
      { name: "look", content: "seen", outcome: "ok" },
    ]);
    const audit = await run.audit();
    expect(audit.map(({ by, action, callId, reason }) => [by, action, callId, reason])).toEqual([
      ["zoe", "started", undefined, undefined],
      ["drover", "asked", "call-1-1", "a person answers it"],
      ["ann", "answered", "call-1-1", undefined],
    ]);
  });

  test("the same answer sent again is no error and no second one; another one is told what stands", async () => {
    const { run, elsewhere, work } = await begun("asker");
    await run.answer("call-1-1", { to: "home" }, { by: "ann", decisionId: "d1" });
    await elsewhere.answer("call-1-1", { to: "home" }, { by: "ann" });
    // An id names one answer: what is lost must not pass for taken.
    await elsewhere.answer("call-1-1", { to: "home" }, { by: "ann's new name", decisionId: "d1" });
    await refusal(
      elsewhere.answer("call-1-1", "office", { by: "ann", decisionId: "d1" }),
      "not_allowed",
      /ann answered it already, at .*stands/,
    );
    await refusal(
      elsewhere.answer("call-1-1", "office", { by: "ann" }),
      "not_allowed",
      /ann answered it already, at .*stands/,
    );
    await refusal(run.answer("call-1-1", { to: "home" }, { by: "bob" }), "not_allowed", /ann answered it already/);
    await refusal(run.deny("call-1-1", { by: "bob" }), "not_allowed", /was not denied: ann answered it already/);
    await work();
    await run.answer("call-1-1", { to: "home" }, { by: "ann" });
    await refusal(run.answer("call-1-1", "office", { by: "ann" }), "not_allowed", /already/);
    await refusal(run.answer("call-1-2", "x", { by: "ann" }), "not_allowed", /does not wait for an answer. No call is/);
    expect(await resultsOf(run)).toMatchObject([{ content: '{"to":"home"}' }, {}]);
  });

  test("what must fit and does not is refused with path, expected and received, and nothing is lost", async () => {
    const { run, elsewhere, work } = await begun("confirmer");
    expect((await run.status()).openCalls).toMatchObject([
      { question: 'confirm with {"what":"the order"}', answerSchema: { type: "object", required: ["ok", "amount"] } },
    ]);
    const misfit = elsewhere.answer("call-1-1", { ok: "yes" }, { by: "ann" });
    await refusal(
      misfit,
      "invalid",
      /stays open: amount: expected integer.*, received nothing; ok: expected boolean, received "yes" \(string\)\./,
    );
    await refusal(elsewhere.answer("call-1-1", "yes", { by: "ann" }), "invalid", /the answer: expected object/);
    await refusal(elsewhere.answer("call-1-1", undefined, { by: "ann" }), "invalid", /received nothing/);
    expect(await run.status()).toMatchObject({ status: "waiting", openCalls: [{ state: "answer" }] });
    // What is checked is what is kept: its JSON.
    const odd = { ok: true, amount: 3, toJSON: () => ({ ok: true, amount: 0 }) };
    await refusal(elsewhere.answer("call-1-1", odd, { by: "ann" }), "invalid", /amount: /);
    // Text that is the JSON of what fits does: forms and command lines give text.
    await elsewhere.answer("call-1-1", '{"ok": true, "amount": 3}', { by: "ann" });
    await work();
    expect(await resultsOf(run)).toMatchObject([{ content: '{"ok": true, "amount": 3}' }]);
  });

  test("an answer made with an older record in view is checked by what the call asks for when it is taken", async () => {
    const { run } = await begun("confirmer");
    const before = { ...(await bench.store.load(run.id)), calls: [] } as unknown as Run;
    /** A process that reads the record as it was before the question, once. */
    const late = (): RunHandle => {
      let read = 0;
      const load = async (runId: string): Promise<Run | null> => (read++ === 0 ? before : bench.store.load(runId));
      return bench.process({ store: { ...bench.store, load } }).handle(run.id);
    };
    await refusal(late().answer("call-1-1", "whatever", { by: "ann" }), "invalid", /the answer: expected object/);
    expect(await run.status()).toMatchObject({ openCalls: [{ state: "answer" }] });
    await late().answer("call-1-1", { ok: true, amount: 1 }, { by: "ann" });
    expect(await resultsOf(run)).toMatchObject([{ content: '{"ok":true,"amount":1}' }]);
  });

  test("what stands against an answer is told without secrets", async () => {
    const { run } = await begun("asker");
    const secret = "sk-proj-aB3dE5gH7jK9mN1pQ3sT5vW7yZ9bC1dE3fG5";
    await run.answer("call-1-1", "home", { by: `ann with ${secret}` });
    const late = run.answer("call-1-1", "office", { by: "bob" });
    await refusal(late, "not_allowed", /^(?!.*sk-proj).*ann with .*answered it already/);
    expect(await resultsOf(run)).toMatchObject([{ content: "home" }, {}]);
  });

  test("a person may decline, and the model reads why", async () => {
    const { run, work } = await begun("asker");
    await refusal(run.approve("call-1-1", { by: "ann" }), "not_allowed", /waits for an answer. Answer it, or deny it/);
    await run.deny("call-1-1", { by: "ann", reason: "not my parcel", decisionId: "d1" });
    await run.deny("call-1-1", { by: "ann", reason: "not my parcel", decisionId: "d1" });
    await work();
    expect(await resultsOf(run)).toMatchObject([
      {
        outcome: "denied",
        content: expect.stringContaining("ann declined to answer: not my parcel."),
        decision: { by: "ann" },
      },
      {},
    ]);
  });

  test("a question expires, and a late answer is told so whether or not a worker has noticed", async () => {
    const { run, work } = await begun("asker");
    bench.clock.advance(hourMs);
    const late = (): Promise<void> => refusal(run.answer("call-1-1", "home", { by: "ann" }), "not_allowed", /expired/);
    await late();
    await work();
    await late();
    expect(await resultsOf(run)).toMatchObject([
      { outcome: "denied", content: expect.stringContaining("Nobody answered within 3600 s.") },
      {},
    ]);
    expect((await run.audit()).map(({ action }) => action)).toEqual(["started", "asked", "expired"]);
  });

  test("an answer too large for a start is refused", async () => {
    const { run } = await begun("asker");
    await refusal(run.answer("call-1-1", "x".repeat(1_048_576), { by: "ann" }), "too_large", /answer was not taken/);
    expect(await run.status()).toMatchObject({ openCalls: [{ state: "answer" }] });
  });

  test("an answer may be content parts; what cannot be meant is refused", async () => {
    const { run, work } = await begun("asker");
    const empty = [{ type: "image_url", image_url: { url: "" } }];
    await refusal(run.answer("call-1-1", empty, { by: "ann" }), "invalid", /content/);
    await refusal(
      run.answer("call-1-1", 1n, { by: "ann" }),
      "invalid",
      /expected text or a JSON value, received something of the type bigint/,
    );
    await refusal(run.answer("call-1-1", Number.NaN, { by: "ann" }), "invalid", /received NaN/);
    const parts = [
      { type: "text", text: "this one" },
      { type: "image_url", image_url: { url: "https://example.com/a.png" } },
    ];
    await run.answer("call-1-1", parts, { by: "ann" });
    await work();
    expect(await resultsOf(run)).toMatchObject([{ content: parts }, {}]);
  });

  test("cancelling, a deadline and a retry leave a valid transcript", async () => {
    const cancelled = await begun("asker");
    await cancelled.run.cancel({ by: "bob" });
    expect(await resultsOf(cancelled.run)).toMatchObject([
      { outcome: "cancelled", content: "Not answered: the run was cancelled by bob first." },
      { outcome: "ok" },
    ]);
    await refusal(cancelled.run.answer("call-1-1", "home", { by: "ann" }), "not_allowed", /No call is/);
    const late = await begun("confirmer", { limits: { deadlineMs: hourMs } });
    bench.clock.advance(hourMs);
    await late.work();
    expect(await late.run.status()).toMatchObject({ status: "failed", stopReason: "deadline" });
    await late.run.retry({ limits: { deadlineMs: hourMs } });
    await late.work();
    expect(await late.run.status()).toMatchObject({ status: "completed" });
  });

  test("a dry run asks nobody", async () => {
    const { run } = await begun("asker", { dryRun: true });
    const { status, described } = await run.result();
    expect(status).toBe("completed");
    expect(described).toMatchObject([{ tool: "ask_person", text: "Where to? (home / office)" }]);
    const other = await begun("caller", { dryRun: true, tools: [book] });
    expect((await other.run.result()).described).toMatchObject([
      { tool: "book", text: expect.stringMatching(/seats/) },
    ]);
  });

  test("[G6] calls of the caller's tools wait for the caller, those that do not fit are told to the model", async () => {
    const { run, elsewhere, work } = await begun("caller", { tools: [book] });
    const { waitingFor, openCalls } = await elsewhere.status();
    expect(waitingFor).toBe("the result of a call by its caller");
    expect(openCalls).toEqual([
      expect.objectContaining({
        tool: "book",
        from: "caller",
        arguments: '{"seats":2}',
        toolCallId: expect.any(String),
      }),
    ]);
    expect(openCalls[0]).not.toHaveProperty("question");
    await elsewhere.answer("call-1-1", { seats: ["1a", "1b"] }, { by: "app" });
    await work();
    expect(await run.status()).toMatchObject({ status: "completed" });
    expect(await resultsOf(run)).toMatchObject([
      { name: "book", content: '{"seats":["1a","1b"]}', outcome: "ok", answered: { by: "app" } },
      { name: "book", outcome: "failed", content: expect.stringMatching(/seats: expected integer, received "two"/) },
      { name: "look", content: "seen" },
      { outcome: "failed", content: expect.stringMatching(/Available tools: look, book/) },
    ]);
    const [answered] = (await bench.store.readFeed(run.id, 0, 100)).filter(({ type }) => type === "model_answered");
    expect(answered).toMatchObject({ manifest: { tools: ["look", "book"] } });
    expect((await bench.store.load(run.id))?.tools).toEqual([book]);
    // What the model was offered can be shown again, the caller's tools included (invariant 6).
    const [turn] = (await run.turns()).turns;
    expect(turn?.request?.tools?.map(({ name }) => name)).toEqual(["look", "book"]);
    expect(turn?.request?.tools?.[1]).toEqual(book);
  });

  test("a caller's tool that has the name of one of the agent's is refused, at the start or by the run", async () => {
    const engine = bench.process({ agents, store: bench.store });
    const tools = [book, { ...book, name: "look" }];
    await expect(engine.client.start("caller", "go", { tools })).rejects.toMatchObject({
      code: "invalid",
      message: expect.stringMatching(
        /tools: the agent "caller" has tools of its own named "look". Give yours other names/,
      ),
    });
    const producer = bench.process({ store: bench.store });
    const { runId } = await producer.client.start("caller", "go", { tools });
    await bench.queue.drain(engine.runStep, { advanceTime: false });
    expect(await engine.handle(runId).status()).toMatchObject({
      status: "failed",
      error: { code: "tool_name_taken", message: expect.stringMatching(/named "look".*retry the run/) },
    });
  });

  test("the tools are part of what makes two starts the same", async () => {
    const { run } = await begun("caller", { runId: "same-1", tools: [book] });
    const again = bench.process({ agents, store: bench.store }).client;
    expect((await again.start("caller", "go", { runId: run.id, tools: [book], by: "zoe" })).runId).toBe(run.id);
    await expect(again.start("caller", "go", { runId: run.id })).rejects.toMatchObject({ code: "conflict" });
  });

  test("the next run of a session brings its own tools", async () => {
    const first = await begun("caller", { session: "s", tools: [book] });
    const second = await begun("caller", { session: "s", tools: [{ ...book, name: "reserve" }] });
    await first.run.answer("call-1-1", "booked", { by: "app" });
    await second.work();
    expect(await first.run.status()).toMatchObject({ status: "completed" });
    expect(await second.run.status()).toMatchObject({ status: "completed" });
    const feed = await bench.store.readFeed(second.run.id, 0, 100);
    const offered = feed.flatMap((entry) => (entry.type === "model_answered" ? [entry.manifest.tools] : []));
    expect(new Set(offered.flat())).toEqual(new Set(["look", "reserve"]));
  });
});
