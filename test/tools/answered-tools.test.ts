// Catches: a call that is answered from outside and yet executed, approved first, or handed over with arguments that do not
// fit; a stranger's schema that stops a worker.
import { describe, expect, test } from "vitest";
import { z } from "zod";
import type { ToolSpec } from "../../src/core/agent.ts";
import type { CallPlan } from "../../src/core/event.ts";
import { type Policy, rulingOn } from "../../src/core/policy.ts";
import type { PlanOptions } from "../../src/ports.ts";
import { defineTool } from "../../src/tools/define-tool.ts";
import { checkValue } from "../../src/tools/parameters.ts";
import { askPerson } from "../../src/tools/stock/ask-person.ts";
import { createToolCaller } from "../../src/tools/tool-caller.ts";
import { makeRequest } from "./request.ts";

const confirm = defineTool({
  name: "confirm",
  description: "Asks.",
  parameters: z.object({ amount: z.int() }),
  answeredBy: "person",
  answer: z.object({ ok: z.boolean() }),
});
const look = defineTool({ name: "look", description: "Looks.", parameters: z.object({}), execute: () => "seen" });

type Planned = { name: string; text?: string; options?: PlanOptions; policy?: Policy };
function plan({ name, text = "{}", options, policy = [] }: Planned): CallPlan {
  const ruleOn = (tool: string): ReturnType<typeof rulingOn> => rulingOn(policy, { agent: "a", tool });
  const caller = createToolCaller([confirm, look, askPerson({ expiresMs: 1_000 })], ruleOn);
  return caller.plan({ callId: "call-1-1", id: "x", name, arguments: text }, options);
}

describe("a tool that a person answers", () => {
  test("becomes a question, in its own words if it has any", () => {
    expect(plan({ name: "confirm", text: '{"amount":"5"}' })).toEqual({
      type: "answer",
      from: "person",
      question: {
        argumentsHash: expect.stringMatching(/^[\w-]{22}$/),
        description: 'confirm with {"amount":5}',
        reason: "the tool is answered by a person",
      },
      answerSchema: expect.objectContaining({ type: "object", required: ["ok"] }),
    });
    expect(plan({ name: "ask_person", text: '{"question":"Why?"}' })).toMatchObject({
      question: { description: "Why?" },
      expiresMs: 1_000,
    });
  });

  test("misfits and dry runs are told to the model, and ask nobody", () => {
    expect(plan({ name: "confirm", text: '{"amount":"much"}' })).toMatchObject({
      type: "settle",
      content: expect.stringMatching(/amount: expected/),
    });
    expect(plan({ name: "confirm", text: '{"amount":5}', options: { dryRun: true } })).toMatchObject({
      type: "settle",
      outcome: "ok",
      described: expect.stringContaining('{"amount":5}'),
    });
  });

  test("under a policy needs no approval; who may use it, and how long a person is waited for, operators say", () => {
    const strict: Policy = [{ tool: "*", approval: "always", effect: "irreversible" }];
    const asked = plan({ name: "confirm", text: '{"amount":5}', policy: strict });
    expect(asked).toMatchObject({ type: "answer", question: { reason: "the tool is answered by a person" } });
    expect(asked).not.toHaveProperty("policy");
    expect(
      plan({ name: "ask_person", text: '{"question":"Why?"}', policy: [{ tool: "*", approvalExpiresMs: 7 }] }),
    ).toMatchObject({
      type: "answer",
      expiresMs: 7,
      policy: "policy rule 1: approvalExpiresMs 7",
    });
    expect(plan({ name: "confirm", text: '{"amount":5}', policy: [{ tool: "confirm", allow: false }] })).toMatchObject({
      type: "settle",
      content: expect.stringContaining("may not be used"),
    });
  });

  test("is never executed, whatever a newer version made of it", async () => {
    const outcome = await createToolCaller([confirm]).execute(makeRequest("confirm", '{"amount":5}'));
    expect(outcome).toMatchObject({ type: "failed", message: expect.stringContaining("a person answers this tool") });
  });
});

describe("a tool of the run's caller", () => {
  const book: ToolSpec = {
    name: "book",
    description: "Books.",
    parameters: { type: "object", properties: { seats: { type: "integer" } }, required: ["seats"] },
  };
  const planOf = (text: string, spec: ToolSpec = book, dryRun = false): CallPlan =>
    plan({ name: spec.name, text, options: { callerTools: [spec], dryRun } });

  test("waits for its caller, if the arguments fit as they are written", () => {
    expect(planOf('{"seats":2}')).toEqual({ type: "answer", from: "caller" });
    // The caller reads these very arguments: nothing is made to fit.
    expect(planOf('{"seats":"2"}')).toMatchObject({
      type: "settle",
      content: expect.stringMatching(/seats: expected integer/),
    });
    expect(planOf("")).toMatchObject({ type: "settle", content: expect.stringMatching(/seats: .*received nothing/) });
    for (const text of ["{", "[1]", '"{\\"seats\\":2}"']) {
      expect(planOf(text)).toMatchObject({ type: "settle", content: expect.stringContaining("not a JSON object") });
    }
  });

  test("is described by a dry run", () => {
    expect(planOf('{"seats":2}', book, true)).toMatchObject({
      outcome: "ok",
      described: expect.stringContaining('{"seats":2}'),
    });
  });

  test("never stands for one of the agent's, and is named among what there is", () => {
    expect(planOf("{}", { ...book, name: "look" })).toMatchObject({ type: "run" });
    expect(plan({ name: "fly", options: { callerTools: [book] } })).toMatchObject({
      content: expect.stringContaining("Available tools: confirm, look, ask_person, book."),
    });
  });

  test("whose schema makes no sense takes any object", () => {
    const odd = { ...book, parameters: { type: "object", minimum: "x", properties: { a: { type: "no such type" } } } };
    expect(planOf('{"b":1}', odd)).toEqual({ type: "answer", from: "caller" });
  });

  test.each([
    { required: 5 },
    { required: [5] },
    { enum: null },
    { allOf: {} },
    { anyOf: [] },
    { oneOf: "x" },
    { not: 5 },
    { if: false, else: null },
    { properties: null },
    { dependentRequired: { b: 5 } },
    { dependentSchemas: { b: null } },
    { dependencies: { b: 5 } },
    { minProperties: "many" },
    { additionalProperties: 5 },
    { $id: 5 },
    { properties: { b: null } },
    { properties: { b: { multipleOf: 0 } } },
    { properties: { b: { type: ["integer", 5] } } },
    { properties: { b: { maximum: "x", exclusiveMinimum: [] } } },
    { properties: { b: { items: 5, prefixItems: 5 } } },
  ])("whose schema says %j asks nothing by that, and all the rest", (nonsense) => {
    const { properties = {}, ...others } = nonsense as { properties?: object };
    const known = properties === null ? null : { ...properties, seats: { type: "integer" } };
    const odd = { ...book, parameters: { type: "object", ...others, properties: known } };
    expect(planOf('{"b":1}', odd)).toEqual({ type: "answer", from: "caller" });
    if (known) expect(planOf('{"b":1,"seats":"x"}', odd)).toMatchObject({ type: "settle" });
  });

  test("whose schema would take for ever to check by is not checked by it", () => {
    // Each level asks for the next one twice: 2^40 checks.
    const levels = Array.from({ length: 40 }, (_, level) => {
      const next = { $ref: `#/$defs/d${level + 1}` };
      return [`d${level}`, { allOf: [next, next] }];
    });
    const $defs = Object.fromEntries([...levels, ["d40", { type: "object" }]]);
    const doubling = { ...book, parameters: { type: "object", allOf: [{ $ref: "#/$defs/d0" }], $defs } };
    expect(planOf('{"a":1}', doubling)).toEqual({ type: "answer", from: "caller" });
    const anyOf = Array.from({ length: 2_000 }, (_, index) => ({ const: `${index}` }));
    const wide = { ...book, parameters: { type: "object", properties: { a: { type: "array", items: { anyOf } } } } };
    const many = JSON.stringify({ a: Array.from({ length: 20_000 }, () => 1) });
    expect(planOf(many, wide)).toEqual({ type: "answer", from: "caller" });
    expect(planOf('{"a":[1]}', wide)).toMatchObject({ type: "settle" });
  });

  test("cannot stop a worker by a regular expression; what else it asks for holds", () => {
    const evil = "^(a+)+$";
    const spec: ToolSpec = {
      ...book,
      parameters: {
        type: "object",
        properties: {
          pattern: { type: "string", pattern: evil },
          format: { type: "string", format: "email" },
          kind: { enum: [{ pattern: evil }] },
        },
        patternProperties: { [evil]: { type: "number" } },
        allOf: [{ required: ["pattern"] }],
      },
    };
    const text = JSON.stringify({ pattern: `${"a".repeat(40)}!`, format: "none", kind: { pattern: evil } });
    expect(planOf(text, spec)).toEqual({ type: "answer", from: "caller" });
    expect(planOf('{"pattern":1}', spec)).toMatchObject({
      content: expect.stringMatching(/pattern: expected text|pattern: expected string/),
    });
    expect(planOf('{"pattern":"x","kind":{"pattern":"y"}}', spec)).toMatchObject({ type: "settle" });
    expect(planOf("{}", spec)).toMatchObject({ type: "settle" });
  });
});

test("a value is checked by a schema of any type; one that makes no sense asks for nothing", () => {
  expect(checkValue({ type: "string" }, "x")).toEqual([]);
  expect(checkValue({ type: "string" }, 1)).toEqual([{ path: "", expected: "string", received: "1 (number)" }]);
  expect(checkValue({ $ref: "#/nowhere" }, 1)).toEqual([]);
});

test.each([[{ expiresMs: 0 }], [{ expires: 5 }], [{ expiresMs: "1 h" }]])("askPerson refuses %j", (options) => {
  expect(() => askPerson(options as never)).toThrow(/The options of askPerson cannot be used/);
});
