// Catches: a parent that waits for ever for a child, a child that works for nobody, and a policy that is not kept.
import { describe, expect, test } from "vitest";
import { z } from "zod";
import type { ToolMessage } from "../../src/core/message.ts";
import { owed } from "../../src/core/owed.ts";
import { minReader, type Run } from "../../src/core/run.ts";
import { createMemoryDrover } from "../../src/testing/index.ts";
import { agentTool } from "../../src/tools/agent-tool.ts";
import { defineTool } from "../../src/tools/define-tool.ts";
import { askPerson } from "../../src/tools/stock/ask-person.ts";
import { makeAgent, makeBoss, makeScene, refusal, type Scene } from "./children-support.ts";

const runId = "boss-1";

async function loadRun({ store }: Scene, id: string): Promise<Run> {
  const run = await store.load(id);
  if (!run) throw new Error(`${id} is gone`);
  return run;
}

async function childrenOf({ store }: Scene, id: string = runId): Promise<Run[]> {
  const { runs } = await store.list({ limit: 100 });
  return runs.filter(({ parent }) => parent?.runId === id).toSorted((a, b) => (a.runId < b.runId ? -1 : 1));
}

async function resultsOf({ store }: Scene, id: string = runId): Promise<ToolMessage[]> {
  return (await store.readMessages(id, 0, 100)).filter((message) => message.role === "tool");
}

async function feedOf({ store }: Scene, id: string = runId): Promise<string[]> {
  return (await store.readFeed(id, 0, 500)).map(({ type }) => type);
}

/** Plays until the only thing left is a wait for somebody: the clock stands still. */
const playNow = (scene: Scene): Promise<void> => scene.queue.drain(scene.engine.runStep, { advanceTime: false });

describe("a call whose execution is a run", () => {
  test("waits for its child without owing a step, and brings its answer", async () => {
    const scene = makeScene([makeBoss([{}]), makeAgent("helper", [{ toolCalls: [call("ask_person")] }, "42"], asking)]);
    await scene.engine.client.start("boss", "go", { runId, tenant: "acme", metadata: { user: "u1" }, priority: 7 });
    await playNow(scene);
    const [child] = await childrenOf(scene);
    if (!child) throw new Error("no child");
    expect(child).toMatchObject({
      agent: "helper",
      status: "waiting",
      tenant: "acme",
      metadata: { user: "u1" },
      priority: 7,
      parent: { runId, callId: "call-1-1", depth: 1 },
      minReader,
    });
    expect(owed(await loadRun(scene, runId))).toMatchObject([{ kind: "wake" }]);
    expect(await scene.engine.handle(runId).status()).toMatchObject({
      status: "waiting",
      waitingFor: "runs that its calls have started",
      openCalls: [{ state: "child", child: { runId: child.runId, agent: "helper" } }],
    });
    await scene.engine.handle(child.runId).answer("call-1-1", "yes", { by: "ann" });
    await playNow(scene);
    expect(await loadRun(scene, runId)).toMatchObject({ status: "completed", minReader });
    expect(await resultsOf(scene)).toMatchObject([{ content: "42", outcome: "ok", name: "helper" }]);
    expect(await feedOf(scene)).toEqual([
      "run_created",
      "run_began",
      "model_answered",
      "child_started",
      "child_ended",
      "tool_finished",
      "messages_appended",
      "model_answered",
      "run_ended",
    ]);
    expect(owed(await loadRun(scene, child.runId))).toEqual([]);
  });

  test("brings a structured answer as JSON, and the child's usage counts as the parent's", async () => {
    const helper = makeAgent("helper", ['{"sum": 4}'], { output: z.object({ sum: z.number() }) });
    const scene = makeScene([makeBoss([{}]), helper]);
    await scene.engine.client.start("boss", "go", { runId });
    await scene.play();
    const [child] = await childrenOf(scene);
    expect(await resultsOf(scene)).toMatchObject([{ content: '{"sum":4}' }]);
    const run = await loadRun(scene, runId);
    const own = (await scene.store.readFeed(runId, 0, 100)).filter(({ type }) => type === "model_answered");
    const spent = own.reduce((sum, entry) => sum + ("usage" in entry ? (entry.usage?.inputTokens ?? 0) : 0), 0);
    expect(child?.usage.inputTokens).toBeGreaterThan(0);
    expect(run.usage.inputTokens).toBe(spent + (child?.usage.inputTokens ?? 0));
  });
});

const call = (name: string): { name: string; arguments: Record<string, unknown> } => ({
  name,
  arguments: { question: "Which?" },
});
const asking = { tools: [askPerson()] };

describe("a child that does not complete", () => {
  test.each(["continue", "retry"] as const)("%s: the model reads which one failed and why", async (onFailure) => {
    const scene = makeScene([makeBoss([{ onFailure, retries: 2 }]), makeAgent("helper", [refusal])]);
    await scene.engine.client.start("boss", "go", { runId });
    await scene.play();
    const [child] = await childrenOf(scene);
    expect(await loadRun(scene, runId)).toMatchObject({ status: "completed" });
    const [result] = await resultsOf(scene);
    const retried = onFailure === "retry" ? " after 2 retries" : "";
    expect(result).toMatchObject({ outcome: "failed" });
    expect(result?.content).toBe(
      `Run "${child?.runId}" of agent "helper", started by "helper" call-1-1, failed${retried} (model_error): The key is bad.`,
    );
    const tries = (await feedOf(scene, child?.runId)).filter((type) => type === "model_failed");
    expect(tries).toHaveLength(onFailure === "retry" ? 3 : 1);
  });

  test("fail: the run fails with a reason that names it, its other children end, and a retry goes on from there", async () => {
    const tools = [{ onFailure: "fail" as const }, { agent: "slow", name: "slow" }];
    const slow = makeAgent("slow", [{ toolCalls: [call("ask_person")] }, "late"], asking);
    const scene = makeScene([makeBoss(tools), makeAgent("helper", [refusal]), slow]);
    await scene.engine.client.start("boss", "go", { runId });
    await scene.play();
    const [failed, other] = await childrenOf(scene);
    const run = await loadRun(scene, runId);
    expect(run).toMatchObject({ status: "failed", stopReason: "child_failed", error: { code: "child_failed" } });
    expect(run.error?.message).toContain(`Run "${failed?.runId}" of agent "helper"`);
    expect(run.error?.message).toContain("The key is bad.");
    expect(other).toMatchObject({ agent: "slow", status: "cancelled" });
    expect(other?.error?.message).toContain("waits for it no longer");
    expect(owed(run)).toEqual([]);
    expect(await resultsOf(scene)).toMatchObject([
      { outcome: "failed" },
      { outcome: "cancelled", content: expect.stringContaining(`Not finished by run ${other?.runId}`) },
    ]);
    await scene.engine.handle(runId).retry({ by: "ann" });
    await scene.play();
    expect(await loadRun(scene, runId)).toMatchObject({ status: "completed" });
  });

  test("retry: the child goes on from where it failed", async () => {
    let tries = 0;
    const flaky = makeAgent(
      "helper",
      [{ toolCalls: [{ name: "note", arguments: { text: "a" } }] }, () => (++tries < 3 ? refusal : "at last")],
      { tools: [note] },
    );
    const scene = makeScene([makeBoss([{ onFailure: "retry", retries: 2 }]), flaky]);
    await scene.engine.client.start("boss", "go", { runId });
    await scene.play();
    expect(await resultsOf(scene)).toMatchObject([{ content: "at last", outcome: "ok" }]);
    const [child] = await childrenOf(scene);
    expect(child).toMatchObject({ status: "completed", turns: 2, parent: { retries: 2 } });
    expect((await feedOf(scene, child?.runId)).filter((type) => type === "tool_finished")).toHaveLength(1);
  });

  test("retry: one that somebody cancelled stays cancelled", async () => {
    const helper = makeAgent("helper", [{ toolCalls: [call("ask_person")] }, "x"], asking);
    const scene = makeScene([makeBoss([{ onFailure: "retry" }]), helper]);
    await scene.engine.client.start("boss", "go", { runId });
    await playNow(scene);
    const [child] = await childrenOf(scene);
    await scene.engine.handle(child?.runId ?? "").cancel({ by: "ann", reason: "not needed" });
    await playNow(scene);
    expect(await loadRun(scene, runId)).toMatchObject({ status: "completed" });
    const [result] = await resultsOf(scene);
    expect(result?.content).toContain('helper" call-1-1, was cancelled: not needed');
  });
});

const note = defineTool({
  name: "note",
  description: "Notes.",
  parameters: z.object({ text: z.string() }),
  effect: "read",
  execute: ({ text }) => text,
});

describe("what is lost between parent and child", () => {
  test("a word that never came is made good by the call's own look, within seconds", async () => {
    const helper = makeAgent("helper", [{ toolCalls: [call("ask_person")] }, "42"], asking);
    const scene = makeScene([makeBoss([{}]), helper]);
    await scene.engine.client.start("boss", "go", { runId });
    await playNow(scene);
    const [child] = await childrenOf(scene);
    if (!child) throw new Error("no child");
    const before = scene.clock.now();
    await scene.engine.handle(child.runId).answer("call-1-1", "yes", { by: "ann" });
    // The word to the parent is dropped, and whoever sweeps does not come.
    while (!scene.queue.list().some(({ step }) => step.kind === "notify")) await scene.queue.run(scene.engine.runStep);
    for (const { step } of scene.queue.list()) if (step.kind === "notify") scene.queue.drop(step);
    await scene.play();
    expect(await loadRun(scene, runId)).toMatchObject({ status: "completed" });
    expect(scene.clock.now() - before).toBeLessThan(10_000);
  });

  test.each([
    { onFailure: "continue" as const, status: "completed", outcome: "failed", stopReason: "answered" },
    { onFailure: "fail" as const, status: "failed", outcome: "failed", stopReason: "child_failed" },
    { onFailure: "retry" as const, status: "completed", outcome: "ok", stopReason: "answered" },
  ])("a child whose record is gone: $onFailure", async ({ onFailure, status, outcome, stopReason }) => {
    const helper = makeAgent("helper", [() => (gone ? "42" : { toolCalls: [call("ask_person")] }), "42"], asking);
    let gone = false;
    const scene = makeScene([makeBoss([{ onFailure }]), helper]);
    await scene.engine.client.start("boss", "go", { runId });
    await playNow(scene);
    const [child] = await childrenOf(scene);
    if (!child) throw new Error("no child");
    expect(await scene.store.remove(child)).toBe(true);
    gone = true;
    await scene.play();
    expect(await loadRun(scene, runId)).toMatchObject({ status, stopReason });
    const [result] = await resultsOf(scene);
    expect(result?.outcome).toBe(outcome);
    if (outcome === "failed") expect(result?.content).toContain("is lost: its record is gone");
  });

  test("looks grow apart: a child that takes a day is looked at a few hundred times", async () => {
    const helper = makeAgent("helper", [{ toolCalls: [call("ask_person")] }, "42"], asking);
    const scene = makeScene([makeBoss([{}]), helper]);
    await scene.engine.client.start("boss", "go", { runId });
    await playNow(scene);
    const before = (await loadRun(scene, runId)).revision;
    const until = scene.clock.now() + 24 * 3_600_000;
    while (scene.clock.now() < until) {
      const [next] = scene.queue.list();
      if (!next) throw new Error("nothing is due");
      scene.clock.advance(Math.max(0, next.dueAt - scene.clock.now()));
      await playNow(scene);
    }
    const run = await loadRun(scene, runId);
    expect((run.revision - before) / 2).toBeLessThan(300);
    expect(await feedOf(scene)).toHaveLength(4);
  });
});

describe("a parent that ends", () => {
  test("by being cancelled ends its waiting children, and theirs", async () => {
    const helper = makeAgent("helper", [{ toolCalls: [{ name: "deep", arguments: { input: "x" } }] }, "x"], {
      tools: [agentTool({ agent: "deep" })],
    });
    const deep = makeAgent("deep", [{ toolCalls: [call("ask_person")] }, "x"], asking);
    const scene = makeScene([makeBoss([{}]), helper, deep]);
    await scene.engine.client.start("boss", "go", { runId });
    await playNow(scene);
    await scene.engine.handle(runId).cancel({ by: "ann", reason: "enough" });
    await playNow(scene);
    const [child] = await childrenOf(scene);
    const [grandchild] = await childrenOf(scene, child?.runId);
    expect(child).toMatchObject({ status: "cancelled", parent: { depth: 1 } });
    expect(grandchild).toMatchObject({ status: "cancelled", parent: { depth: 2 } });
    for (const run of [await loadRun(scene, runId), child, grandchild]) expect(run && owed(run)).toEqual([]);
    expect(scene.queue.list()).toEqual([]);
  });

  test("by its deadline ends its children, which have no longer than it", async () => {
    const helper = makeAgent("helper", [{ toolCalls: [call("ask_person")] }, "x"], asking);
    const scene = makeScene([makeBoss([{}]), helper]);
    await scene.engine.client.start("boss", "go", { runId, limits: { deadlineMs: 5_000 } });
    await scene.play();
    expect(await loadRun(scene, runId)).toMatchObject({ status: "failed", stopReason: "deadline" });
    const [child] = await childrenOf(scene);
    expect(["deadline", "cancelled"]).toContain(child?.stopReason);
    expect(child?.deadlineMs).toBeLessThanOrEqual(5_000);
  });

  test("while its child is just being made: the child ends at its first step", async () => {
    const scene = makeScene([makeBoss([{}]), makeAgent("helper", ["42"])]);
    await scene.engine.client.start("boss", "go", { runId });
    await scene.queue.run(scene.engine.runStep);
    // The parent's word to its children goes by before there is one.
    const { create } = scene.store;
    const taken = scene.queue.take();
    const other = scene.process();
    const slow = scene.process({
      agents: [makeBoss([{}])],
      store: {
        ...scene.store,
        create: async (...args) => {
          await other.handle(runId).cancel({ by: "ann" });
          await scene.queue.drain(other.runStep, { advanceTime: false });
          return create(...args);
        },
      },
    });
    if (!taken) throw new Error("no step");
    taken.end(await slow.runStep(taken.delivery));
    await scene.play();
    const [child] = await childrenOf(scene);
    expect(child).toMatchObject({ status: "cancelled", turns: 0 });
    expect(child?.startedAt).toBeUndefined();
    expect(scene.queue.list()).toEqual([]);
  });
});

describe("a child's bounds", () => {
  test("children of children end at the depth that the tool allows", async () => {
    const nested = makeAgent("helper", [{ toolCalls: [{ name: "helper", arguments: { input: "x" } }] }, "up"], {
      tools: [agentTool({ agent: "helper", maxDepth: 3 })],
    });
    const scene = makeScene([makeBoss([{ maxDepth: 3 }]), nested]);
    await scene.engine.client.start("boss", "go", { runId });
    await scene.play();
    expect(await loadRun(scene, runId)).toMatchObject({ status: "completed" });
    const { runs } = await scene.store.list({ limit: 100 });
    expect(runs.map(({ parent }) => parent?.depth ?? 0).toSorted()).toEqual([0, 1, 2, 3]);
    const deepest = runs.find(({ parent }) => parent?.depth === 3);
    const [result] = await resultsOf(scene, deepest?.runId);
    expect(result?.content).toContain("agents may hand on work 3 times at most");
  });

  test("it may spend what its parent has left", async () => {
    const scene = makeScene([
      makeBoss([{ limits: { maxTurns: 3, maxTokens: 1_000_000 } }]),
      makeAgent("helper", ["x"]),
    ]);
    await scene.engine.client.start("boss", "go", { runId, limits: { maxTokens: 500 } });
    await scene.play();
    const [child] = await childrenOf(scene);
    expect(child?.limits.maxTurns).toBe(3);
    expect(child?.limits.maxTokens).toBeLessThan(500);
    expect(child?.limits.maxTokens).toBeGreaterThan(400);
  });

  test("a dry run's child is a dry run", async () => {
    const helper = makeAgent("helper", [{ toolCalls: [{ name: "send", arguments: {} }] }, "would send"], {
      tools: [defineTool({ name: "send", description: "Sends.", parameters: z.object({}), execute: () => "sent" })],
    });
    const scene = makeScene([makeBoss([{}]), helper]);
    await scene.engine.client.start("boss", "go", { runId, dryRun: true });
    await scene.play();
    const [child] = await childrenOf(scene);
    expect(child).toMatchObject({ dryRun: true, status: "completed" });
    expect((await resultsOf(scene, child?.runId))[0]?.described).toBeDefined();
  });

  test("an agent that no worker knows parks the child, and the parent's deadline ends both", async () => {
    const scene = makeScene([makeBoss([{ agent: "nobody", name: "nobody" }])]);
    await scene.engine.client.start("boss", "go", { runId, limits: { deadlineMs: 60_000 } });
    await scene.play();
    expect(await loadRun(scene, runId)).toMatchObject({ status: "failed", stopReason: "deadline" });
    expect((await childrenOf(scene))[0]?.status).toMatch(/failed|cancelled/);
  });

  test("the parent's id taken by another run later starts another child", async () => {
    const scene = makeScene([makeBoss([{}]), makeAgent("helper", ["42"])]);
    await scene.engine.client.start("boss", "go", { runId });
    await scene.play();
    await scene.engine.client.delete(runId);
    scene.clock.advance(1_000);
    await scene.engine.client.start("boss", "again", { runId });
    await scene.play();
    expect(await childrenOf(scene)).toHaveLength(2);
  });
});

test("all of it without Redis, by the same API", async () => {
  const drover = createMemoryDrover({ agents: [makeBoss([{}, { name: "second" }]), makeAgent("helper", ["42"])] });
  const worker = await drover.work();
  const run = await drover.start("boss", "go");
  expect(await run.result()).toMatchObject({ status: "completed", output: "done" });
  await worker.stop();
  await drover.close();
});

test("a failed child that somebody retries after its parent has gone on without it does its work", async () => {
  let isMended = false;
  const helper = makeAgent("helper", [() => (isMended ? "late" : refusal), () => (isMended ? "late" : refusal)]);
  const scene = makeScene([makeBoss([{ onFailure: "retry", retries: 1 }]), helper]);
  await scene.engine.client.start("boss", "go", { runId });
  await scene.play();
  const [child] = await childrenOf(scene);
  if (!child) throw new Error("no child");
  expect(child).toMatchObject({ status: "failed", parent: { retries: 1 } });
  isMended = true;
  await scene.engine.handle(child.runId).retry({ by: "ann" });
  await scene.play();
  expect(await loadRun(scene, child.runId)).toMatchObject({ status: "completed" });
});
