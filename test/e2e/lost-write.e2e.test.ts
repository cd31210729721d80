// Catches: a write that is made twice because its worker died, and a result thrown away though its worker lives.
import { describe, expect, test } from "vitest";
import type { RunHandle } from "../../src/engine/run-handle.ts";
import { eventually } from "../support/eventually.ts";
import { type FakeReply, type FakeRequest, turnOf } from "../support/fake-openai.ts";
import { problemsOf } from "../support/transcript.ts";
import { makeWorld, readFeed } from "../support/world.ts";

const calling =
  (name: string, how: "hold" | "block" = "hold") =>
  ({ body }: FakeRequest): FakeReply =>
    turnOf(body) === 1 ? { toolCalls: [{ name, arguments: { note: "a", [how]: true } }] } : { text: "went on" };

async function outcomeOf(run: RunHandle): Promise<[string, string]> {
  const transcript = await run.transcript();
  expect(problemsOf(transcript)).toEqual([]);
  const result = transcript.find((message) => message.role === "tool");
  return [result?.role === "tool" ? result.outcome : "", String(result?.content)];
}

/** Resolves with the open call once it is in that state. */
async function callIn(run: RunHandle, state: string): Promise<string> {
  return eventually(async () => {
    const { openCalls } = await run.status();
    return openCalls.find((call) => call.state === state)?.callId;
  });
}

describe.each([
  ["as they come", false],
  ["with every step redelivered", true],
])("a write whose worker is killed, steps %s", (_title, redeliver) => {
  test("[G4] is not run again: after its timeout the model is told that its outcome is unknown", async () => {
    const world = await makeWorld({ redeliver, respond: calling("post"), toolTimeoutMs: 2_500 });
    const holder = await world.work();
    const run = await world.drover.start("e2e", "go", { runId: "lost-1" });
    const visit = await world.gate.next({ what: "post" });
    holder.kill9(); // before another is started: that may take as long as the tool may
    await world.work();
    expect(await run.result({ timeoutMs: 30_000 })).toMatchObject({ status: "completed", output: "went on" });
    expect((await readFeed(world, run.id)).map(({ type }) => type)).toContain("tool_lost");
    const [outcome, content] = await outcomeOf(run);
    expect(outcome).toBe("unknown");
    expect(content).toMatch(/may or may not have taken effect/);
    expect(world.server.requests[1]?.at ?? 0).toBeGreaterThan(visit.at + 2_500);
    expect(world.ledger.entries().length).toBe(1);
  });

  test("[G4] is put to a person if it cannot be taken back, who may have it run again", async () => {
    const world = await makeWorld({ redeliver, respond: calling("pay"), toolTimeoutMs: 1_000 });
    const holder = await world.work();
    const run = await world.drover.start("e2e", "go", { runId: "lost-2" });
    await run.approve(await callIn(run, "approval"), { by: "ann" });
    await world.gate.next({ what: "pay" });
    holder.kill9();
    await world.work();
    const callId = await callIn(run, "asking");
    expect(world.ledger.entries().length).toBe(1);
    expect(world.server.requests.length).toBe(1);
    await run.approve(callId, { by: "ann" });
    (await world.gate.next({ what: "pay" })).release("paid");
    expect(await run.result({ timeoutMs: 30_000 })).toMatchObject({ status: "completed" });
    expect(await outcomeOf(run)).toEqual(["ok", "paid"]);
    expect(world.ledger.entries().map(({ key }) => key)).toEqual(["lost-2:call-1-1", "lost-2:call-1-1"]);
  });

  test("[G1] [G4] is taken after all if its worker was only frozen and reports within the timeout", async () => {
    const world = await makeWorld({ redeliver, respond: calling("post", "block"), toolTimeoutMs: 30_000 });
    const holder = await world.work();
    const run = await world.drover.start("e2e", "go", { runId: "late-1" });
    await eventually(() => world.ledger.entries()[0]);
    holder.stop();
    await world.work();
    await callIn(run, "lost");
    // The tool returns before its process can have noticed anything.
    world.ledger.unblock();
    holder.resume();
    expect(await run.result({ timeoutMs: 20_000 })).toMatchObject({ status: "completed", output: "went on" });
    expect(await outcomeOf(run)).toEqual(["ok", "post: a"]);
    const types = (await readFeed(world, run.id)).map(({ type }) => type);
    expect(types.filter((type) => type === "tool_lost" || type === "tool_finished")).toEqual([
      "tool_lost",
      "tool_finished",
    ]);
    expect(world.ledger.entries().length).toBe(1);
  });
});

test("[G4] an irreversible act whose worker was killed is left undone if a person says so", async () => {
  const world = await makeWorld({ respond: calling("pay"), toolTimeoutMs: 1_000 });
  const holder = await world.work();
  const run = await world.drover.start("e2e", "go", { runId: "lost-3" });
  await run.approve(await callIn(run, "approval"), { by: "ann" });
  await world.gate.next({ what: "pay" });
  holder.kill9();
  await world.work();
  await run.deny(await callIn(run, "asking"), { by: "bob", reason: "the bank says it went through" });
  expect(await run.result({ timeoutMs: 30_000 })).toMatchObject({ status: "completed" });
  const [outcome, content] = await outcomeOf(run);
  expect(outcome).toBe("unknown");
  expect(content).toMatch(/bob.*the bank says it went through/);
  expect(world.ledger.entries().length).toBe(1);
});

test("a write's result is taken though its worker had noticed by then that it lost the step", async () => {
  const world = await makeWorld({ respond: calling("post"), toolTimeoutMs: 30_000 });
  const holder = await world.work();
  const run = await world.drover.start("e2e", "go", { runId: "late-2" });
  const visit = await world.gate.next({ what: "post" });
  holder.stop();
  await world.work();
  await callIn(run, "lost");
  holder.resume();
  await eventually(() => holder.logLines().find((line) => line.includes("lost the lock")));
  visit.release("it was done");
  expect(await run.result({ timeoutMs: 20_000 })).toMatchObject({ status: "completed", output: "went on" });
  expect(await outcomeOf(run)).toEqual(["ok", "it was done"]);
});
