// Catches: a policy that reaches the plan of a call and not what the model is offered, and a dry run that acts or hides
// what it would have done.
import { describe, expect, test } from "vitest";
import { z } from "zod";
import type { Policy } from "../src/core/policy.ts";
import { type Agent, defineAgent } from "../src/define-agent.ts";
import { createDrover, type Drover } from "../src/drover.ts";
import type { RunHandle } from "../src/engine/run-handle.ts";
import { createSilentLogger } from "../src/telemetry/logger.ts";
import { createMemoryDrover, scriptedModel } from "../src/testing/index.ts";
import { defineTool, type Tool } from "../src/tools/define-tool.ts";

const ledger: string[] = [];
const act = (name: string, effect: Tool["effect"], describeIt?: (args: unknown) => string): Tool =>
  defineTool({
    name,
    description: `Does ${name}.`,
    parameters: z.object({ what: z.string() }),
    effect,
    ...(describeIt ? { describe: describeIt } : {}),
    execute: ({ what }) => {
      ledger.push(`${name} ${what}`);
      return `${name}: ${what}`;
    },
  });
const tools = [act("look", "read"), act("post", "write"), act("pay", "irreversible", () => "Pays at once")];
const callOf = (name: string): { name: string; arguments: Record<string, unknown> } => ({
  name,
  arguments: { what: "it" },
});

function make(policy: Policy, ...names: string[]): { drover: Drover; agent: Agent } {
  ledger.length = 0;
  const model = scriptedModel([{ toolCalls: names.map(callOf) }, "done"]);
  const agent = defineAgent({ name: "clerk", instructions: "Act.", model, tools });
  return { drover: createMemoryDrover({ agents: [agent], policy }), agent };
}

async function toolResults(run: Pick<RunHandle, "transcript">): Promise<object[]> {
  return (await run.transcript()).filter((message) => message.role === "tool");
}

describe("a policy", () => {
  test("keeps a forbidden tool from the model, and refuses a call of it", async () => {
    const { drover, agent } = make([{ agent: "cl*", tool: "po*", allow: false }], "post", "look");
    await drover.work();
    const run = await drover.start(agent, "go");
    expect(await run.result()).toMatchObject({ status: "completed" });
    expect(ledger).toEqual(["look it"]);
    expect(await toolResults(run)).toMatchObject([
      { name: "post", outcome: "failed", content: expect.stringContaining("a rule of the operators forbids it") },
      { name: "look", outcome: "ok" },
    ]);
    const answers = [];
    for await (const event of run.events()) if (event.type === "model_answered") answers.push(event.manifest);
    expect(answers).toMatchObject([{ tools: ["look", "pay"] }, { tools: ["look", "pay"] }]);
    expect(answers[0]?.agentHash).not.toBe(agent.hash); // another definition was sent
    expect(await run.audit()).toMatchObject([
      { action: "started", by: "unknown" },
      { action: "ruled", tool: "post", reason: "policy rule 1: allow false" },
    ]);
    await drover.close();
  });

  test("lets an irreversible tool run unasked, and leaves a trace of the rule that did", async () => {
    const { drover } = make([{ tool: "pay", approval: "never" }], "pay");
    await drover.work();
    const run = await drover.start("clerk", "go", { by: "ann" });
    expect(await run.result()).toMatchObject({ status: "completed" });
    expect(ledger).toEqual(["pay it"]);
    expect(await run.audit()).toMatchObject([
      { action: "started", by: "ann" },
      { action: "ruled", tool: "pay", reason: "policy rule 1: approval never" },
    ]);
    await drover.close();
  });

  test("that does not fit is refused at once, with everything that is wrong", () => {
    const wrong = [{ tool: "a", effect: "rad" }, { tool: "b" }] as Policy;
    const message = 'The policy cannot be used: rule 1, effect: expected "read", "write" or "irreversible"; rule 2: it';
    const expected = expect.objectContaining({ code: "invalid", message: expect.stringContaining(message) });
    expect(() => createMemoryDrover({ agents: [], policy: wrong })).toThrow(expected);
    const redis = "redis://localhost:1";
    expect(() => createDrover({ redis, policy: wrong, logger: createSilentLogger() })).toThrow(expected);
  });
});

describe("a dry run", () => {
  test("executes reads, describes the rest, asks nobody, and tells people what it would have done", async () => {
    const { drover } = make([], "look", "post", "pay");
    await drover.work();
    const run = await drover.start("clerk", "go", { dryRun: true, by: "ann" });
    const post = 'Dry run: post was not executed. It would have been called with {"what":"it"}.';
    expect(await run.result()).toMatchObject({
      status: "completed",
      dryRun: true,
      described: [
        { callId: "call-1-2", tool: "post", arguments: '{"what":"it"}', text: post },
        { callId: "call-1-3", tool: "pay", text: "Pays at once" },
      ],
    });
    expect(ledger).toEqual(["look it"]);
    expect(await toolResults(run)).toMatchObject([
      { outcome: "ok", content: "look: it" },
      { outcome: "ok", content: post },
      { outcome: "ok", content: "Dry run, not executed: Pays at once" },
    ]);
    expect(await run.status()).toMatchObject({ dryRun: true });
    expect((await run.audit()).map(({ action, tool }) => [action, tool])).toEqual([
      ["started", undefined],
      ["described", "post"],
      ["described", "pay"],
    ]);
    await drover.close();
  });

  test("is part of what was started: the same id as a real run is a conflict", async () => {
    const { drover } = make([], "look");
    await drover.start("clerk", "go", { runId: "a", dryRun: true });
    await drover.start("clerk", "go", { runId: "a", dryRun: true, by: "bob" });
    await expect(drover.start("clerk", "go", { runId: "a" })).rejects.toMatchObject({ code: "conflict" });
    await drover.start("clerk", "go", { runId: "b" });
    await drover.start("clerk", "go", { runId: "b", dryRun: false });
    const { dryRun, ...view } = await drover.get("b").status();
    expect(dryRun).toBeUndefined();
    expect(view.status).toBe("queued");
    await drover.close();
  });

  test("of a session does not hand its input to a run that acts", async () => {
    const { drover } = make([], "look");
    await drover.start("clerk", "go", { runId: "real", session: "talk" });
    const run = await drover.start("clerk", "and?", { session: "talk", whenBusy: "inject", dryRun: true });
    expect(run.id).not.toBe("real");
    expect(await run.status()).toMatchObject({ dryRun: true });
    await drover.start("clerk", "more", { session: "talk", whenBusy: "inject", by: "bob" });
    expect(await drover.get("real").audit()).toMatchObject([
      { action: "started" },
      { action: "sent_input", by: "bob" },
    ]);
    await drover.close();
  });
});

test("input that is sent bears its sender's name", async () => {
  const { drover } = make([], "look");
  const run = await drover.start("clerk", "go");
  await run.send("more", { by: "ann" });
  await run.send("and more");
  expect((await run.audit()).slice(1)).toMatchObject([
    { action: "sent_input", by: "ann" },
    { action: "sent_input", by: "unknown" },
  ]);
  await drover.close();
});
