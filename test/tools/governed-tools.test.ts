// Catches: a policy that changes what a tool counts as and not how it is run; a dry run that acts; an approval that lets
// anything else run than what was approved.
import { describe, expect, test } from "vitest";
import { z } from "zod";
import type { CallPlan } from "../../src/core/event.ts";
import { type Policy, rulingOn } from "../../src/core/policy.ts";
import type { ToolCaller } from "../../src/ports.ts";
import { defineTool, type Tool, type ToolOptions } from "../../src/tools/define-tool.ts";
import { hashArguments } from "../../src/tools/describe-call.ts";
import { createToolCaller } from "../../src/tools/tool-caller.ts";
import { makeRequest } from "./request.ts";

const parameters = z.object({ n: z.number(), note: z.string().optional() });
let executed: unknown[] = [];

function make(options: Partial<ToolOptions<typeof parameters>> = {}): Tool {
  executed = [];
  const execute = (args: unknown): string => {
    executed.push(args);
    return "done";
  };
  return defineTool({ name: "pay", description: "d", parameters, execute, ...options });
}
const under = (tool: Tool, ...policy: Policy): ToolCaller =>
  createToolCaller([tool], (name) => rulingOn(policy, { agent: "a", tool: name }));
const planOf = (caller: ToolCaller, text = '{"n":1}', dryRun = false): CallPlan =>
  caller.plan({ callId: "call-1-1", id: "x", name: "pay", arguments: text }, { dryRun });

describe("under a policy", () => {
  test.each<[string, Partial<ToolOptions<typeof parameters>>, Policy[number], object]>([
    ["a write is made to ask", {}, { tool: "pay", approval: "always" }, { type: "ask", onUnknown: "tell" }],
    [
      "an expiry is set",
      { approval: "always" },
      { tool: "pay", approvalExpiresMs: 5 },
      { type: "ask", approvalExpiresMs: 5 },
    ],
    [
      "an irreversible tool is let run, and nobody is asked about an unknown outcome",
      { effect: "irreversible" },
      { tool: "pay", approval: "never" },
      { type: "run", repeatable: false, onUnknown: "tell" },
    ],
    [
      "a write counts as read",
      {},
      { tool: "*", effect: "read" },
      { type: "run", effect: "read", repeatable: true, onUnknown: "tell" },
    ],
    [
      "a read counts as a write, and may not run twice",
      { effect: "read" },
      { tool: "p?y", effect: "write" },
      { type: "run", effect: "write", repeatable: false },
    ],
    [
      "an idempotent write stays repeatable",
      { idempotent: true },
      { tool: "pay", effect: "irreversible", approval: "never" },
      { type: "run", effect: "irreversible", repeatable: true },
    ],
    [
      "a write made irreversible asks",
      {},
      { tool: "pay", effect: "irreversible" },
      { type: "ask", repeatable: false, onUnknown: "ask" },
    ],
    [
      "an irreversible tool made a write asks as before",
      { effect: "irreversible" },
      { tool: "pay", effect: "write" },
      { type: "ask", effect: "write", onUnknown: "tell" },
    ],
    [
      "an irreversible tool that never asks is not made to by its own effect",
      { effect: "irreversible", approval: "never" },
      { tool: "pay", effect: "irreversible" },
      { type: "run" },
    ],
    [
      "a predicate holds for a tool made irreversible",
      { approval: ({ n }) => n > 5 },
      { tool: "pay", effect: "irreversible" },
      { type: "run", onUnknown: "ask" },
    ],
  ])("%s", (_title, options, rule, expected) => {
    expect(planOf(under(make(options), rule))).toMatchObject(expected);
  });

  test.each<[string, Partial<ToolOptions<typeof parameters>>, Policy, string]>([
    ["the rule", {}, [{ tool: "pay", approval: "always" }], "policy rule 1: approval always"],
    ["the rule of the effect", {}, [{ tool: "pay", effect: "irreversible" }], "policy rule 1: effect irreversible"],
    ["its predicate", { approval: () => true }, [], "the tool asks for these arguments"],
    ["its setting", { approval: "always" }, [], "the tool asks for every call"],
    ["its effect", { effect: "irreversible" }, [], "the tool is irreversible and asks for every call"],
  ])("a call that asks says why: %s", (_title, options, policy, reason) => {
    expect(planOf(under(make(options), ...policy))).toMatchObject({ question: { reason } });
  });

  test("the rules that decided are in the plan, and none otherwise", () => {
    expect(planOf(under(make(), { tool: "pay", approval: "never" }))).toMatchObject({
      policy: "policy rule 1: approval never",
    });
    expect(planOf(under(make()))).not.toHaveProperty("policy");
    expect(planOf(under(make(), { tool: "other", approval: "always" }))).not.toHaveProperty("policy");
  });

  test("a forbidden tool is neither named nor run, though its call was planned before", async () => {
    const caller = under(make(), { tool: "pay", allow: false });
    expect(planOf(caller)).toMatchObject({
      type: "settle",
      content: expect.stringContaining('"pay" may not be used'),
      policy: "policy rule 1: allow false",
    });
    expect(caller.plan({ callId: "c", id: "x", name: "other", arguments: "{}" })).toMatchObject({
      content: expect.stringContaining("No tools are available"),
    });
    expect(await caller.execute(makeRequest("pay", '{"n":1}'))).toMatchObject({
      type: "failed",
      message: expect.stringContaining("may not be used"),
    });
    expect(caller.retryPolicy("pay")).toBeDefined();
    expect(executed).toEqual([]);
  });

  test("an execution treats its outcome as the call was planned, whatever holds now", async () => {
    const broken = make({
      effect: "read",
      execute: () => {
        throw new Error("boom");
      },
    });
    const execute = (repeatable?: boolean): Promise<{ type: string }> =>
      under(broken).execute(makeRequest("pay", '{"n":1}', { repeatable }));
    expect(await execute()).toMatchObject({ type: "failed" });
    expect(await execute(true)).toMatchObject({ type: "failed" });
    expect(await execute(false)).toMatchObject({ type: "unknown" });
    const write = { ...broken, effect: "write" } as Tool;
    const asRead = under(write).execute(makeRequest("pay", '{"n":1}', { repeatable: true }));
    expect(await asRead).toMatchObject({ type: "failed" });
  });
});

describe("what is approved", () => {
  const question = (text: string, tool = make({ approval: "always" })): { argumentsHash: string } => {
    const plan = planOf(under(tool), text);
    if (plan.type === "settle" || !plan.question) throw new Error(JSON.stringify(plan));
    return plan.question;
  };

  test("is named by tool and arguments, whatever their order and spelling", () => {
    const { argumentsHash } = question('{"n":1,"note":"a"}');
    expect(argumentsHash).toMatch(/^[\w-]{22}$/);
    expect(question('{ "note": "a", "n": 1 }').argumentsHash).toBe(argumentsHash);
    expect(question('{"n":"1","note":"a"}').argumentsHash).toBe(argumentsHash); // read as a number
    expect(question('{"n":2,"note":"a"}').argumentsHash).not.toBe(argumentsHash);
    expect(hashArguments("other", { n: 1, note: "a" })).not.toBe(argumentsHash);
  });

  test("is what runs; anything else does not", async () => {
    const tool = make({ approval: "always" });
    const approvedHash = question('{"n":1}', tool).argumentsHash;
    const caller = under(tool);
    expect(await caller.execute(makeRequest("pay", '{"n":2}', { approvedHash }))).toMatchObject({
      type: "failed",
      message: expect.stringContaining("approved"),
    });
    expect(executed).toEqual([]);
    expect(await caller.execute(makeRequest("pay", '{"n":1}', { approvedHash }))).toMatchObject({ type: "ok" });
    expect(executed).toEqual([{ n: 1 }]);
  });

  test("is not, once the tool reads the same text otherwise", async () => {
    const approvedHash = question('{"n":"1"}').argumentsHash;
    const changed = make({ approval: "always", parameters: z.object({ n: z.string() }) as never });
    expect(await under(changed).execute(makeRequest("pay", '{"n":"1"}', { approvedHash }))).toMatchObject({
      type: "failed",
      message: expect.stringContaining("changed"),
    });
    expect(executed).toEqual([]);
  });

  test.each<[string, Partial<ToolOptions<typeof parameters>>, string]>([
    ["its tool's words", { describe: ({ n }) => `Pays ${n}` }, "Pays 1"],
    ["its name and arguments", {}, 'pay with {"n":1}'],
    ["the default where the words are none", { describe: () => " " }, 'pay with {"n":1}'],
    [
      "the default where they are no text",
      { describe: (async () => Promise.reject(new Error("x"))) as never },
      "pay with",
    ],
    [
      "the default where they cannot be made",
      {
        describe: () => {
          throw new Error("x");
        },
      },
      'pay with {"n":1}',
    ],
  ])("is described by %s", (_title, options, expected) => {
    expect(planOf(under(make({ approval: "always", ...options })))).toMatchObject({
      question: { description: expect.stringContaining(expected) },
    });
  });
});

describe("in a dry run", () => {
  const dry = (options: Partial<ToolOptions<typeof parameters>>, text?: string): CallPlan =>
    planOf(under(make(options)), text, true);

  test("a read runs; anything else is described and asks nobody", () => {
    expect(dry({ effect: "read" })).toMatchObject({ type: "run" });
    const described = 'Dry run: pay was not executed. It would have been called with {"n":1}.';
    const expected = { type: "settle", outcome: "ok", content: described, described };
    expect(dry({})).toEqual(expected);
    expect(dry({ effect: "irreversible" })).toEqual(expected);
    expect(dry({ idempotent: true })).toEqual(expected);
    expect(dry({ effect: "read", approval: "always" })).toEqual(expected); // no way around a person
  });

  test("a tool's own words are told as such, so that nobody takes them for a deed", () => {
    expect(dry({ describe: ({ n }) => `Pays ${n}` })).toMatchObject({
      content: "Dry run, not executed: Pays 1",
      described: "Pays 1",
    });
  });

  test("what a policy makes of a tool counts", () => {
    const plan = planOf(under(make({ effect: "read" }), { tool: "pay", effect: "write" }), '{"n":1}', true);
    expect(plan).toMatchObject({ type: "settle", outcome: "ok", policy: "policy rule 1: effect write" });
  });

  test("arguments that do not fit are refused as ever", () => {
    expect(dry({}, '{"n":"x"}')).toMatchObject({ type: "settle", content: expect.stringContaining("expected number") });
    expect(dry({}, '{"n":"x"}')).not.toHaveProperty("described");
  });
});
