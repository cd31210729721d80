// Catches: a decision that is lost, taken twice, or taken for something else than the person saw, whatever comes first:
// the approval, its expiry or a cancel. The same over memory and over Redis.
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { z } from "zod";
import { defineAgent } from "../../src/define-agent.ts";
import type { RunHandle } from "../../src/engine/run-handle.ts";
import { scriptedModel } from "../../src/testing/index.ts";
import { defineTool } from "../../src/tools/define-tool.ts";
import { type StoreSetup, setUpStore } from "../redis/setup.ts";
import { type Bench, makeBench } from "./support.ts";

const hourMs = 3_600_000;
let paid: string[] = [];
let failing = false;
const pay = defineTool({
  name: "pay",
  description: "Pays.",
  parameters: z.object({ to: z.string().describe("whom") }),
  effect: "irreversible",
  approvalExpiresMs: hourMs,
  describe: ({ to }) => `Pays ${to} at once`,
  execute: ({ to }) => {
    paid.push(to);
    if (failing) throw new Error("the connection broke");
    return "paid";
  },
});
const calls = ['["ada"]', "bob"].map((to) => ({ name: "pay", arguments: { to } }));
const agents = [
  defineAgent({
    name: "payer",
    instructions: "Pay.",
    model: scriptedModel([{ toolCalls: calls }, "done"]),
    tools: [pay],
  }),
];

describe.each(["memory", "redis"])("over %s", (kind) => {
  let setup: StoreSetup | undefined;
  let bench: Bench;
  beforeEach(() => {
    paid = [];
    failing = false;
    bench = makeBench();
    setup = kind === "redis" ? setUpStore() : undefined;
    if (setup) bench = { ...bench, store: setup.store };
  });
  afterEach(() => setup?.close());

  /** A run whose two calls wait for a person. */
  async function asked(): Promise<{ run: RunHandle; elsewhere: RunHandle; work(): Promise<void> }> {
    const engine = bench.process({ agents, store: bench.store });
    const { runId } = await engine.client.start("payer", "go", { by: "zoe" });
    const work = (): Promise<void> => bench.queue.drain(engine.runStep, { advanceTime: false });
    await work();
    const elsewhere = bench.process({ store: bench.store }).handle(runId);
    return { run: engine.handle(runId), elsewhere, work };
  }

  test("status shows what is to be decided, and then who decided", async () => {
    const { run } = await asked();
    const { openCalls } = await run.status();
    const now = bench.clock.now();
    expect(openCalls).toMatchObject([
      {
        callId: "call-1-1",
        arguments: JSON.stringify({ to: '["ada"]' }),
        argumentsHash: expect.stringMatching(/^[\w-]{22}$/),
        effect: "irreversible",
        description: 'Pays ["ada"] at once',
        reason: "the tool is irreversible and asks for every call",
        askedAt: now,
        expiresAt: now + hourMs,
      },
      { callId: "call-1-2", description: "Pays bob at once" },
    ]);
    await run.approve("call-1-1", { by: "ann", argumentsHash: openCalls[0]?.argumentsHash });
    const [approved] = (await run.status()).openCalls;
    expect(approved).toMatchObject({ state: "ready", decision: { type: "approved", by: "ann", at: now } });
    expect(approved).not.toHaveProperty("reason");
  });

  test("a decision about other arguments is refused, telling both", async () => {
    const { run } = await asked();
    const [first, second] = (await run.status()).openCalls;
    const wrong = run.approve("call-1-1", { by: "ann", argumentsHash: second?.argumentsHash });
    await expect(wrong).rejects.toMatchObject({
      code: "not_allowed",
      message: expect.stringMatching(
        new RegExp(`hash ${second?.argumentsHash}, it waits with ${first?.argumentsHash}`),
      ),
    });
    expect(await run.status()).toMatchObject({ openCalls: [{ state: "approval" }, { state: "approval" }] });
  });

  test("the same decision sent again is no error and no second act; another one is told what stands", async () => {
    const { run, work } = await asked();
    const argumentsHash = (await run.status()).openCalls[0]?.argumentsHash;
    await run.approve("call-1-1", { by: "ann" });
    await run.approve("call-1-1", { by: "ann", argumentsHash });
    await run.deny("call-1-2", { by: "ann", reason: "over budget" });
    const refused = async (decision: Promise<void>, message: RegExp): Promise<void> =>
      expect(decision).rejects.toMatchObject({ code: "not_allowed", message: expect.stringMatching(message) });
    await refused(run.approve("call-1-1", { by: "ann", argumentsHash: "other" }), /not of another/);
    await refused(run.approve("call-1-2", { by: "bob" }), /ann denied it already, at \d{4}-.*\(over budget\)/);
    await refused(run.deny("call-1-1", { by: "bob", reason: "no" }), /ann approved it already, at \d{4}-.*stands/);
    await work();
    await run.approve("call-1-1", { by: "ann" });
    await run.deny("call-1-2", { by: "ann", reason: "again" });
    await refused(run.approve("call-1-1", { by: "bob" }), /ann approved it already/);
    await refused(run.approve("call-7-1"), /does not wait for a person. No call is/);
    expect(paid).toEqual(['["ada"]']);
    const audit = await run.audit();
    expect(audit.map(({ by, action, callId }) => [by, action, callId])).toEqual([
      ["zoe", "started", undefined],
      ["drover", "asked", "call-1-1"],
      ["drover", "asked", "call-1-2"],
      ["ann", "approved", "call-1-1"],
      ["ann", "denied", "call-1-2"],
    ]);
    expect(audit[3]).toMatchObject({ tool: "pay", argumentsHash });
    const results = (await run.transcript()).filter((message) => message.role === "tool");
    expect(results).toMatchObject([
      { outcome: "ok", decision: { type: "approved", by: "ann" } },
      { outcome: "denied", decision: { type: "denied", by: "ann" } },
    ]);
  });

  test("a decision that is sent again once its call's outcome is unknown does not have the call run again", async () => {
    const { run, work } = await asked();
    failing = true;
    await run.approve("call-1-1", { by: "ann", decisionId: "d1" });
    await work();
    expect((await run.status()).openCalls).toMatchObject([{ state: "asking", reason: "its outcome is unknown" }, {}]);
    await run.approve("call-1-1", { by: "ann", decisionId: "d1" });
    expect((await run.status()).openCalls).toMatchObject([{ state: "asking" }, {}]);
    await run.approve("call-1-1", { by: "ann", decisionId: "d2" });
    await work();
    expect(paid).toEqual(['["ada"]', '["ada"]']);
  });

  test("nor does one that was given before the last one", async () => {
    const { run, work } = await asked();
    for (const decisionId of ["d1", "d2", "d1", "d2"]) {
      failing = true;
      await run.approve("call-1-1", { by: "ann", decisionId });
      await work();
      expect((await run.status()).openCalls).toMatchObject([{ state: "asking" }, {}]);
    }
    expect(paid).toEqual(['["ada"]', '["ada"]']);
  });

  test("a denial under the id of an approval is refused, not lost", async () => {
    const { run, work } = await asked();
    failing = true;
    await run.approve("call-1-1", { by: "ann", decisionId: "d1" });
    await work();
    await expect(run.deny("call-1-1", { by: "bob", decisionId: "d1" })).rejects.toMatchObject({
      code: "not_allowed",
      message: expect.stringMatching(/decisionId was given to an approval before.*Give this one its own/),
    });
    await run.deny("call-1-1", { by: "bob", decisionId: "d2" });
    expect((await run.status()).openCalls).toHaveLength(1);
  });

  test("what expired is refused, whether or not a worker has noticed", async () => {
    const { run, work } = await asked();
    bench.clock.advance(hourMs - 1);
    await run.approve("call-1-1", { by: "ann" });
    bench.clock.advance(1);
    const late = async (): Promise<void> => {
      const message = expect.stringMatching(/expired.*counts as denied/);
      await expect(run.approve("call-1-2", { by: "ann" })).rejects.toMatchObject({ code: "not_allowed", message });
      await expect(run.deny("call-1-2", { by: "ann" })).rejects.toMatchObject({ code: "not_allowed", message });
    };
    await late();
    await work();
    await late();
    expect(await run.status()).toMatchObject({ status: "completed" });
    expect(paid).toEqual(['["ada"]']);
    expect((await run.audit()).map(({ action }) => action)).toEqual([
      "started",
      "asked",
      "asked",
      "approved",
      "expired",
    ]);
  });

  test.each(["approval", "expiry", "cancel"])("of a race that the %s wins, the others are told", async (first) => {
    const { run, elsewhere, work } = await asked();
    await run.deny("call-1-2", { by: "ann", reason: "no" });
    if (first === "expiry") bench.clock.advance(hourMs);
    const cancelling = first === "cancel" ? elsewhere.cancel({ by: "bob" }) : undefined;
    const outcomes = await Promise.allSettled([
      run.approve("call-1-1", { by: "ann" }),
      elsewhere.approve("call-1-1", { by: "cleo" }),
      cancelling ?? work(),
    ]);
    await work();
    const approved = outcomes.slice(0, 2).filter(({ status }) => status === "fulfilled").length;
    const { status } = await run.status();
    const audit = await run.audit();
    expect(audit.filter(({ action }) => action === "approved").length).toBe(approved);
    // Which of an approval and a cancel comes first is open; what it means is not.
    if (first !== "cancel")
      expect({ approved, status }).toEqual({ approved: first === "approval" ? 1 : 0, status: "completed" });
    else expect(status).toBe("cancelled");
    expect(paid).toEqual(first === "approval" ? ['["ada"]'] : []);
  });

  test("an approved call is not run if it would be another one by then", async () => {
    const { run } = await asked();
    await run.approve("call-1-1", { by: "ann" });
    await run.deny("call-1-2", { by: "ann", reason: "no" });
    // The next version of the tool takes another kind of value and reads the same text as that.
    const changed = defineTool({
      name: "pay",
      description: "Pays.",
      parameters: z.object({ to: z.array(z.string()) }),
      effect: "irreversible",
      execute: ({ to }) => void paid.push(...to),
    });
    const [payer] = agents;
    const model = scriptedModel([{ toolCalls: [] }, "done"]);
    const newer = bench.process({
      agents: [defineAgent({ name: payer?.name ?? "", instructions: "Pay.", model, tools: [changed] })],
      store: bench.store,
    });
    await bench.queue.drain(newer.runStep, { advanceTime: false });
    expect(paid).toEqual([]);
    expect((await run.transcript()).filter((message) => message.role === "tool")).toMatchObject([
      { outcome: "failed", content: expect.stringContaining("read otherwise now"), decision: { by: "ann" } },
      { outcome: "denied" },
    ]);
  });
});
