// Catches: a decision that is taken for another call's, comes too late, or is not kept with the call.
import { describe, expect, test } from "vitest";
import type { CallPlan, RunEvent } from "../../src/core/event.ts";
import type { OpenCall } from "../../src/core/run.ts";
import { transition } from "../../src/core/transition.ts";
import { answered, askPlan, commit, makeWorld, runPlan, step, type World } from "./support.ts";

const question = { argumentsHash: "hash-1", description: "pays 5", reason: "policy rule 1: approval always" };
const asks: CallPlan = { ...askPlan, question };

function open(...plans: CallPlan[]): World {
  const world = makeWorld();
  return step(world, answered(world.run, plans));
}
const first = (world: World): OpenCall => world.run.calls[0] as OpenCall;
const approve = (fields: Partial<Extract<RunEvent, { type: "approved" }>> = {}): RunEvent => ({
  type: "approved",
  callId: "call-1-1",
  by: "ann",
  ...fields,
});
const deny = (reason: string): RunEvent => ({ type: "denied", callId: "call-1-1", by: "ann", reason });
const finish = (world: World): RunEvent => ({
  type: "tool_finished",
  step: { owedAt: first(world).owedAt, index: 1 },
  content: "paid",
  outcome: "ok",
});

/** What one event logs. */
function entriesOf(world: World, event: RunEvent, at: number = world.clock + 1): { type: string }[] {
  return transition(world.run, event, { at, token: "t" })?.entries ?? [];
}

describe("a question", () => {
  test("is kept with its call and told in the feed, with what it is about and until when", () => {
    const begun = makeWorld();
    const entries = entriesOf(begun, answered(begun.run, [asks]));
    expect(entries.at(-1)).toMatchObject({
      type: "approval_asked",
      why: "policy",
      argumentsHash: "hash-1",
      reason: "policy rule 1: approval always",
      expiresAt: 1_051,
    });
    expect(first(open(asks))).toMatchObject({ state: "approval", question, askedAt: 1_001, expiresAt: 1_051 });
  });

  test("of an unknown outcome is about the same arguments", () => {
    const started = step(open({ ...asks, type: "run" }), {
      type: "tool_started",
      step: { owedAt: 2, index: 1 },
      startToken: "s",
      timeoutAt: 9_000,
    });
    const lost: RunEvent = {
      type: "tool_unknown",
      step: { owedAt: 2, index: 1 },
      startToken: "s",
      error: { code: "x", message: "x" },
    };
    const asked = { type: "approval_asked", why: "unknown_outcome", argumentsHash: "hash-1" };
    expect(entriesOf(started, lost)).toMatchObject([asked]);
    const asking = step(started, lost);
    expect(step(asking, approve({ argumentsHash: "other" })).run).toBe(asking.run);
    expect(first(step(asking, approve({ argumentsHash: "hash-1" })))).toMatchObject({ state: "ready", attempt: 2 });
  });

  test("that a policy left unasked is told as such, and so is a refusal of the policy", () => {
    const begun = makeWorld();
    const plans: CallPlan[] = [
      { ...runPlan, policy: "policy rule 1: approval never" },
      { type: "settle", content: "not allowed", policy: "policy rule 2: allow false" },
    ];
    expect(entriesOf(begun, answered(begun.run, plans))).toMatchObject([
      { type: "model_answered" },
      { type: "policy_applied", callId: "call-1-1", policy: "policy rule 1: approval never" },
      { type: "policy_applied", callId: "call-1-2", policy: "policy rule 2: allow false" },
      { type: "tool_finished", callId: "call-1-2", outcome: "failed" },
    ]);
  });
});

describe("a decision", () => {
  test("is bound to the arguments it names", () => {
    const world = open(asks);
    expect(step(world, approve({ argumentsHash: "other" })).run).toBe(world.run);
    const approved = step(world, approve({ argumentsHash: "hash-1" }));
    expect(first(approved)).toMatchObject({
      state: "ready",
      attempt: 1,
      question,
      decision: { type: "approved", by: "ann", at: 1_002 },
    });
    expect(entriesOf(world, approve())).toMatchObject([{ type: "approved", by: "ann", argumentsHash: "hash-1" }]);
  });

  test("on arguments that nobody recorded is refused; one on the call itself is not", () => {
    const world = open(askPlan);
    expect(step(world, approve({ argumentsHash: "hash-1" })).run).toBe(world.run);
    expect(first(step(world, approve()))).toMatchObject({ state: "ready" });
  });

  test("stays with the call's message: who, what and when", () => {
    const approved = step(open(asks), approve());
    expect(step(approved, finish(approved)).messages.at(-1)).toMatchObject({
      content: "paid",
      decision: { type: "approved", by: "ann", at: approved.clock },
    });
    const denied = step(open(asks), deny("no"));
    expect(denied.messages.at(-1)).toMatchObject({ decision: { type: "denied", by: "ann", at: denied.clock } });
    const cancelled = step(approved, { type: "cancel_requested", by: "bob", reason: "r" });
    expect(cancelled.messages.at(-1)).toMatchObject({ outcome: "cancelled", decision: { by: "ann" } });
  });

  test("sent again does not answer the question that came after it", () => {
    const named = approve({ decisionId: "d1" });
    const approved = step(open(asks), named);
    expect(first(approved).decision).toMatchObject({ id: "d1" });
    const started = step(approved, {
      type: "tool_started",
      step: { owedAt: first(approved).owedAt, index: 1 },
      startToken: "s",
      timeoutAt: 9_000,
    });
    const asking = step(started, {
      type: "tool_unknown",
      step: { owedAt: first(started).owedAt, index: 1 },
      startToken: "s",
      error: { code: "x", message: "x" },
    });
    expect(first(asking)).toMatchObject({ state: "asking", decision: { id: "d1" } });
    expect(step(asking, named).run).toBe(asking.run);
    expect(first(step(asking, approve({ decisionId: "d2" })))).toMatchObject({ state: "ready", attempt: 2 });
    expect(first(step(asking, approve()))).toMatchObject({ state: "ready", attempt: 2 });
  });

  test("sent again after any number of others still answers no later question", () => {
    let world = open(asks);
    for (const decisionId of ["d1", "d2", "d3"]) {
      const approved = step(world, approve({ decisionId }));
      const place = { step: { owedAt: first(approved).owedAt, index: 1 }, startToken: decisionId };
      const begun = step(approved, { type: "tool_started", ...place, timeoutAt: 9_000 });
      world = step(begun, { type: "tool_unknown", ...place, error: { code: "x", message: "x" } });
      expect(first(world)).toMatchObject({ state: "asking", decision: { id: decisionId } });
    }
    for (const decisionId of ["d1", "d2", "d3"]) expect(step(world, approve({ decisionId })).run).toBe(world.run);
    expect(step(world, { ...deny("no"), decisionId: "d4" } as RunEvent).messages.at(-1)).not.toHaveProperty(
      "approvalIds",
    );
  });

  test("made once does not apply again, nor does another after it", () => {
    const approved = step(open(asks, asks), approve());
    expect(step(approved, approve()).run).toBe(approved.run);
    expect(step(approved, deny("no")).run).toBe(approved.run);
  });

  test.each([
    ["too much", "Denied by ann: too much. The call"],
    ["Too much!", "Denied by ann: Too much! The call"],
    ["  ", "Denied by ann: no reason given. The call"],
  ])("that denies with %j tells the model why and what now", (reason, told) => {
    const content = String(step(open(asks), deny(reason)).messages.at(-1)?.content);
    expect(content).toContain(told);
    expect(content).toContain("Do not call it again with the same arguments");
  });
});

describe("an expiry", () => {
  const expiry = (world: World): number => world.clock + 50;

  test("settles the call as denied, and says so", () => {
    const world = open(asks);
    expect(entriesOf(world, { type: "time_came" }, expiry(world))).toMatchObject([
      { type: "approval_expired", argumentsHash: "hash-1" },
      { type: "tool_finished", outcome: "denied" },
      { type: "messages_appended" },
    ]);
    const change = transition(world.run, { type: "time_came" }, { at: expiry(world), token: "t" });
    const message = change && commit(world, change).messages.at(-1);
    expect(message).toMatchObject({
      outcome: "denied",
      content: expect.stringMatching(/nobody approved.*within 0\.05 s/),
    });
    expect(message).not.toHaveProperty("decision");
  });

  test("that nobody has noticed yet already refuses both decisions", () => {
    const world = open(asks);
    for (const event of [approve(), deny("no")]) {
      expect(transition(world.run, event, { at: expiry(world), token: "t" })).toBeNull();
      expect(transition(world.run, event, { at: expiry(world) - 1, token: "t" })).not.toBeNull();
    }
  });

  test("never comes for a call without one", () => {
    const { approvalExpiresMs: _, ...endless } = askPlan;
    const world = open(endless);
    expect(transition(world.run, { type: "time_came" }, { at: 1e12, token: "t" })).toBeNull();
  });
});

test("a call of a dry run is settled with what it would have done", () => {
  const begun = makeWorld();
  const plan: CallPlan = {
    type: "settle",
    content: "Dry run, not executed: pays 5",
    outcome: "ok",
    described: "pays 5",
  };
  const event = answered(begun.run, [plan]);
  expect(entriesOf(begun, event)).toMatchObject([
    { type: "model_answered" },
    { type: "tool_described", callId: "call-1-1", tool: "tool" },
    { type: "tool_finished", outcome: "ok" },
    { type: "messages_appended" },
  ]);
  expect(step(begun, event).messages.at(-1)).toMatchObject({ outcome: "ok", described: "pays 5" });
});

test("who sent input is kept, if it is known", () => {
  const input: RunEvent = { type: "input_received", inputId: "i", messages: [{ role: "user", content: "and?" }] };
  expect(entriesOf(makeWorld(), { ...input, by: "ann" })).toMatchObject([{ type: "input_received", by: "ann" }]);
  expect(entriesOf(makeWorld(), input)[0]).not.toHaveProperty("by");
});

test("a run is a dry one only if it was started so", () => {
  expect(makeWorld({ dryRun: true }).run).toMatchObject({ dryRun: true });
  expect(makeWorld({ dryRun: false }).run).not.toHaveProperty("dryRun");
});
