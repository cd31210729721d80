// Catches: a call answered from outside that is executed, approved, answered twice or late, or left to a reader that does not
// know it.
import { describe, expect, test } from "vitest";
import { callerToolsSchema, sharedNames } from "../../src/core/caller-tools.ts";
import { problemsOfCommand } from "../../src/core/command.ts";
import type { CallPlan, RunEvent } from "../../src/core/event.ts";
import { startPayloadSchema } from "../../src/core/new-run.ts";
import { owed } from "../../src/core/owed.ts";
import { minReader, type OpenCall, schemaVersion } from "../../src/core/run.ts";
import { transition } from "../../src/core/transition.ts";
import {
  answered,
  askPlan,
  callerPlan,
  commit,
  makeWorld,
  questionPlan,
  runPlan,
  step,
  type World,
} from "./support.ts";

const question = { argumentsHash: "hash-1", description: "Where to?", reason: "the tool is answered by a person" };
const answerSchema = { type: "string" };
const asks: CallPlan = { ...questionPlan, question, answerSchema };

function open(...plans: CallPlan[]): World {
  const world = makeWorld();
  return step(world, answered(world.run, plans));
}
const first = (world: World): OpenCall => world.run.calls[0] as OpenCall;
const answer = (fields: Partial<Extract<RunEvent, { type: "answered" }>> = {}): RunEvent => ({
  type: "answered",
  callId: "call-1-1",
  by: "ann",
  content: "home",
  checkedBy: answerSchema,
  ...fields,
});
const deny = (reason: string): RunEvent => ({ type: "denied", callId: "call-1-1", by: "ann", reason });

/** What one event logs. */
function entriesOf(world: World, event: RunEvent, at: number = world.clock + 1): { type: string }[] {
  return transition(world.run, event, { at, token: "t" })?.entries ?? [];
}

test("no answer and no input is taken that is over what the run may hold", () => {
  const { run } = open(asks);
  const held = run.bytes ?? 0;
  const meta = { at: 1_010, token: "t" };
  expect(transition(run, answer({ maxBytes: held + 50 }), meta)).toBeNull();
  expect(transition(run, answer({ maxBytes: held + 5_000 }), meta)).not.toBeNull();
  const input: RunEvent = { type: "input_received", inputId: "i", messages: [{ role: "user", content: "and?" }] };
  expect(transition(run, { ...input, maxBytes: held + 50 }, meta)).toBeNull();
  // A record of an older version does not tell what it holds.
  expect(transition({ ...run, bytes: undefined }, { ...input, maxBytes: held + 50 }, meta)).not.toBeNull();
});

describe("a call that is answered from outside", () => {
  test("waits, owing nothing but the look at its expiry, and says so in the feed", () => {
    const begun = makeWorld();
    expect(entriesOf(begun, answered(begun.run, [asks])).at(-1)).toMatchObject({
      type: "answer_asked",
      callId: "call-1-1",
      from: "person",
      expiresAt: 1_051,
    });
    const world = open(asks);
    expect(world.run.status).toBe("waiting");
    expect(first(world)).toMatchObject({ state: "answer", from: "person", question, answerSchema, askedAt: 1_001 });
    expect(owed(world.run)).toMatchObject([{ kind: "wake", notBefore: 1_051 }]);
    const called = open(callerPlan);
    expect(owed(called.run)).toEqual([]);
    expect(first(called)).not.toHaveProperty("expiresAt");
    expect(first(called)).not.toHaveProperty("answerSchema");
  });

  test("what a policy decided about it is told as well", () => {
    const begun = makeWorld();
    expect(
      entriesOf(begun, answered(begun.run, [{ ...asks, policy: "policy rule 1: approval always" }])),
    ).toMatchObject([
      { type: "model_answered" },
      { type: "policy_applied", policy: "policy rule 1: approval always" },
      { type: "answer_asked" },
    ]);
  });

  test("is settled by its answer, beside the results of the others", () => {
    const world = open(asks, runPlan);
    expect(entriesOf(world, answer())).toMatchObject([
      { type: "answered", by: "ann" },
      { type: "tool_finished", outcome: "ok", message: 2 },
    ]);
    const settled = step(world, answer({ decisionId: "d1" }));
    expect(first(settled)).toMatchObject({ state: "settled" });
    expect(first(settled)).not.toHaveProperty("question");
    const done = step(settled, {
      type: "tool_finished",
      step: { owedAt: 2, index: 2 },
      content: "seen",
      outcome: "ok",
    });
    expect(done.messages.slice(2)).toMatchObject([
      { role: "tool", content: "home", outcome: "ok", answered: { by: "ann", at: settled.clock, id: "d1" } },
      { role: "tool", content: "seen" },
    ]);
    expect(done.messages[2]).not.toHaveProperty("decision");
  });

  test("takes no answer that was checked by another schema, or by none", () => {
    const world = open(asks);
    expect(transition(world.run, answer({ checkedBy: undefined }), { at: 2, token: "t" })).toBeNull();
    expect(transition(world.run, answer({ checkedBy: { type: "number" } }), { at: 2, token: "t" })).toBeNull();
    expect(transition(world.run, answer({ checkedBy: { ...answerSchema } }), { at: 2, token: "t" })).not.toBeNull();
    const any = open(callerPlan);
    expect(transition(any.run, answer({ checkedBy: undefined }), { at: 2, token: "t" })).not.toBeNull();
  });

  test("takes one answer, and no approval; a call that waits for approval takes no answer", () => {
    const world = open(asks, runPlan);
    const settled = step(world, answer());
    expect(step(settled, answer()).run).toBe(settled.run);
    expect(step(settled, deny("no")).run).toBe(settled.run);
    expect(step(world, { type: "approved", callId: "call-1-1", by: "ann" }).run).toBe(world.run);
    expect(step(world, answer({ callId: "call-1-2" })).run).toBe(world.run);
    const approval = open(askPlan);
    expect(step(approval, answer()).run).toBe(approval.run);
  });

  test.each([
    [asks, "ann declined to answer: not mine. Do not ask the same again"],
    [callerPlan, "Denied by ann: not mine. The call was not executed."],
  ] as const)("may be declined", (plan, told) => {
    const declined = step(open(plan), deny("not mine"));
    expect(declined.messages.at(-1)).toMatchObject({
      outcome: "denied",
      content: expect.stringContaining(told),
      decision: { type: "denied", by: "ann" },
    });
    expect(declined.run.model).toBeDefined();
  });

  test.each([
    [asks, "person", "Nobody answered within 0.05 s."],
    [{ ...callerPlan, expiresMs: 50 }, "caller", "Not executed: its caller gave no result within 0.05 s"],
  ] as const)("expires, noticed or not", (plan, from, told) => {
    const world = open(plan);
    const at = world.clock + 50;
    for (const event of [answer(), deny("no")]) {
      expect(transition(world.run, event, { at, token: "t" })).toBeNull();
      expect(transition(world.run, event, { at: at - 1, token: "t" })).not.toBeNull();
    }
    expect(entriesOf(world, { type: "time_came" }, at)).toMatchObject([
      { type: "answer_expired", from },
      { type: "tool_finished", outcome: "denied" },
      { type: "messages_appended" },
    ]);
    const change = transition(world.run, { type: "time_came" }, { at, token: "t" });
    expect(change && commit(world, change).messages.at(-1)).toMatchObject({ content: expect.stringContaining(told) });
    expect(transition(open(callerPlan).run, { type: "time_came" }, { at: 1e12, token: "t" })).toBeNull();
  });

  test("is settled as not answered when its run ends", () => {
    const cancelled = step(open(asks), { type: "cancel_requested", by: "bob", reason: "r" });
    expect(cancelled.messages.at(-1)).toMatchObject({
      outcome: "cancelled",
      content: "Not answered: the run was cancelled by bob first.",
    });
  });

  test("leaves its run to readers that know such calls, and no other run", () => {
    const { run } = makeWorld();
    const older = { ...makeWorld(), run: { ...run, schemaVersion: 2, minReader: 1 } };
    expect(step(older, answered(older.run, [runPlan])).run).toMatchObject({ minReader: 1 });
    const asked = step(older, answered(older.run, [asks]));
    expect(asked.run).toMatchObject({ minReader: 3, schemaVersion });
    expect(step(asked, answer()).run).toMatchObject({ minReader: 3 });
  });
});

describe("tools of a run's caller", () => {
  const tool = { name: "book", description: "Books.", parameters: { type: "object", properties: {} } };
  const deep = (levels: number): object => (levels === 0 ? {} : { properties: deep(levels - 1) });

  test("are kept with the run, which is left to readers that know them", () => {
    expect(makeWorld({ tools: [tool] }).run).toMatchObject({ tools: [tool], minReader });
    expect(makeWorld({ tools: [tool], session: "s" }).run).toMatchObject({ tools: [tool], minReader });
    const without = makeWorld({ tools: [] }).run;
    expect(without).not.toHaveProperty("tools");
  });

  test("are taken with a start", () => {
    const start = { agent: "a", input: "go", tools: [tool, { ...tool, name: "A-b_1" }] };
    expect(startPayloadSchema.parse(start)).toEqual(start);
    const values = { type: "object", properties: { a: { enum: [1, true, null, "x"] } } };
    expect(callerToolsSchema.safeParse([{ ...tool, parameters: values }]).success).toBe(true);
    expect(callerToolsSchema.safeParse([{ ...tool, parameters: { type: "object", ...deep(31) } }]).success).toBe(true);
  });

  test.each([
    ["a name with a space", [{ ...tool, name: "a b" }], "0.name"],
    ["a name that is too long", [{ ...tool, name: "a".repeat(65) }], "0.name"],
    ["a name of ours", [{ ...tool, name: "read_result" }], "0.name"],
    ["a name twice", [tool, { ...tool, name: "other" }, tool], "2.name"],
    ["no description", [{ name: "a", parameters: tool.parameters }], "0.description"],
    ["a field too many", [{ ...tool, strict: true }], "0"],
    ["parameters of another type", [{ ...tool, parameters: { type: "array" } }], "0.parameters.type"],
    ["parameters that are no JSON", [{ ...tool, parameters: { type: "object", a: () => 1 } }], "0.parameters"],
    ["a number that JSON does not have", [{ ...tool, parameters: { type: "object", a: Number.NaN } }], "0.parameters"],
    ["parameters too deep", [{ ...tool, parameters: { type: "object", ...deep(32) } }], "0.parameters"],
    ["too many", Array.from({ length: 129 }, (_, index) => ({ ...tool, name: `t${index}` })), ""],
  ])("with %s are refused, saying where", (_name, tools, path) => {
    const { error } = callerToolsSchema.safeParse(tools);
    expect(error?.issues.map((issue) => issue.path.join("."))).toEqual([path]);
  });

  test("that share names with others are found", () => {
    expect(sharedNames([tool, { ...tool, name: "look" }], (name) => name === "look")).toEqual(["look"]);
  });
});

test.each([
  [answer(), []],
  [answer({ content: [{ type: "text", text: "x" }] }), []],
  [answer({ content: [{ type: "image_url", image_url: {} }] }), [expect.stringContaining("content")]],
  [answer({ by: "" }), [expect.stringContaining("by")]],
  [answer({ decisionId: "" }), [expect.stringContaining("decisionId")]],
])("an answer is checked before it gets into a record", (event, problems) => {
  expect(problemsOfCommand(event as Parameters<typeof problemsOfCommand>[0])).toEqual(problems);
});

test("whose run it is stays with it", () => {
  expect(makeWorld({ tenant: "acme" }).run).toMatchObject({ tenant: "acme" });
  expect(makeWorld().run).not.toHaveProperty("tenant");
});
