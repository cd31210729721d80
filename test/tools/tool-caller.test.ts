import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { z } from "zod";
import { DroverError } from "../../src/core/errors.ts";
import type { CallPlan } from "../../src/core/event.ts";
import type { ToolCall } from "../../src/core/message.ts";
import type { Tool } from "../../src/tools/define-tool.ts";
import { defineTool } from "../../src/tools/define-tool.ts";
import { createToolCaller } from "../../src/tools/tool-caller.ts";
import { makeRequest } from "./request.ts";

const add = defineTool({
  name: "add",
  description: "Adds.",
  parameters: z.object({ a: z.number(), b: z.number() }),
  effect: "read",
  execute: ({ a, b }) => a + b,
});

function callOf(name: string, text: string): ToolCall {
  return { callId: "call-1-1", id: "x", name, arguments: text };
}

function plan(tools: Tool[], name: string, text: string): CallPlan {
  return createToolCaller(tools).plan(callOf(name, text));
}

function settled(tools: Tool[], name: string, text: string): string {
  const result = plan(tools, name, text);
  if (result.type !== "settle") throw new Error(`planned to ${result.type}`);
  return result.content;
}

describe("plan", () => {
  test("an unknown tool settles with the tools there are", () => {
    expect(settled([add], "subtract", "{}")).toContain("Available tools: add.");
    expect(settled([add], "Add", "{}")).toContain('"Add"');
    expect(settled([add], "constructor", "{}")).toContain("no tool");
  });

  test.each(["{", "[1,2]", "3", '"text"', "null", "not json", '{"a":1,}'])("no JSON object settles: %s", (text) => {
    const content = settled([add], "add", text);
    expect(content).toContain("not a JSON object");
    expect(content).toContain(`Received: ${text}`);
    expect(content).toContain("with a, b");
  });

  test("arguments that do not fit settle with path, expected and received", () => {
    expect(settled([add], "add", '{"a":"abc"}')).toContain(
      '- a: expected number, received "abc" (string)\n- b: expected number, received nothing',
    );
  });

  test.each(['{"a":1,"b":2}', '{"a":"1","b":2}', '"{\\"a\\":1,\\"b\\":2}"'])(
    "what fits or can be made to runs: %s",
    (text) => {
      expect(plan([add], "add", text)).toEqual({
        type: "run",
        effect: "read",
        repeatable: true,
        onUnknown: "tell",
        timeoutMs: 60_000,
      });
    },
  );

  test("no text is no arguments", () => {
    const ping = defineTool({ ...base, name: "ping", parameters: z.object({}) });
    expect(plan([ping], "ping", "").type).toBe("run");
    expect(plan([ping], "ping", " \n").type).toBe("run");
  });

  const base = { name: "t", description: "d", parameters: z.object({ n: z.number() }), execute: () => null };
  test.each<[string, Partial<Parameters<typeof defineTool>[0]>, object]>([
    ["a write", {}, { type: "run", repeatable: false, onUnknown: "tell" }],
    ["an idempotent write", { idempotent: true }, { type: "run", repeatable: true, onUnknown: "tell" }],
    ["a read", { effect: "read" }, { type: "run", repeatable: true, onUnknown: "tell" }],
    ["an irreversible one", { effect: "irreversible" }, { type: "ask", repeatable: false, onUnknown: "ask" }],
    [
      "an irreversible one without approval",
      { effect: "irreversible", approval: "never" },
      { type: "run", repeatable: false, onUnknown: "tell" },
    ],
    [
      "an irreversible one with a predicate",
      { effect: "irreversible", approval: () => false },
      { type: "run", onUnknown: "ask" },
    ],
    ["one that always asks", { approval: "always" }, { type: "ask", onUnknown: "tell" }],
    [
      "its queue and times",
      { queue: "gpu", timeoutMs: 5, approvalExpiresMs: 7 },
      { queue: "gpu", timeoutMs: 5, approvalExpiresMs: 7 },
    ],
  ])("tells of %s how it is to be treated", (_name, options, expected) => {
    const tool = defineTool({ ...base, ...(options as object) });
    expect(plan([tool], "t", '{"n":1}')).toMatchObject(expected);
  });

  test.each<[string, (args: { n: number }) => unknown, string]>([
    ["false", () => false, "run"],
    ["true", () => true, "ask"],
    ["by the coerced arguments", ({ n }) => n !== 3, "run"],
    ["undefined", () => undefined, "ask"],
    ["no boolean", () => 0, "ask"],
    ["a promise", () => Promise.resolve(false), "ask"],
    [
      "an error",
      () => {
        throw new Error("x");
      },
      "ask",
    ],
  ])("a predicate that gives %s", (_name, approval, type) => {
    const tool = defineTool({ ...base, approval: approval as (args: { n: number }) => boolean });
    expect(plan([tool], "t", '{"n":"3"}').type).toBe(type);
  });

  test("never throws, whatever a model sends", () => {
    const tools = [
      add,
      defineTool({ ...base, parameters: z.record(z.string(), z.array(z.union([z.number(), z.null()]))) }),
      defineTool({
        ...base,
        name: "u",
        parameters: { type: "object", additionalProperties: { anyOf: [{ type: "number" }, { type: "object" }] } },
      }),
    ];
    const caller = createToolCaller(tools);
    const name = fc.oneof(fc.constantFrom("add", "t", "u", "__proto__"), fc.string());
    const text = fc.oneof(
      fc.json(),
      fc.string({ unit: "binary" }),
      fc.json().map((json) => JSON.stringify(json)),
    );
    fc.assert(
      fc.property(name, text, (tool, sent) => {
        const result = caller.plan(callOf(tool, sent));
        expect(["run", "ask", "settle"]).toContain(result.type);
        if (result.type === "settle") expect(result.content.isWellFormed()).toBe(true);
      }),
      { numRuns: 3_000 },
    );
  });

  test("deep nesting is refused, not fatal", () => {
    const tool = defineTool({ ...base, parameters: { type: "object", properties: { a: { $ref: "#" } } } });
    const text = `${'{"a":'.repeat(50_000)}{}${"}".repeat(50_000)}`;
    expect(settled([tool], "t", text)).toContain("do not fit");
  });

  test("arguments that are no text at all are refused", () => {
    for (const sent of [7, undefined, Object.create(null), Symbol("s")] as unknown as string[]) {
      expect(settled([add], "add", sent)).toContain("not a JSON object");
    }
  });
});

describe("execute", () => {
  test("runs the tool with the coerced arguments", async () => {
    const outcome = await createToolCaller([add]).execute(makeRequest("add", '{"a":"1","b":2}'));
    expect(outcome).toEqual({ type: "ok", content: "3" });
  });

  test("converts towards the schema only, whatever it was written in", async () => {
    const shape = {
      minutes: z.int(),
      repeat: z.boolean(),
      volume: z.number(),
      label: z.string(),
      note: z.string(),
      tag: z.string().nullable(),
      items: z.array(z.string()),
    };
    const sent = {
      minutes: "15",
      repeat: "false",
      volume: "0.5",
      label: "007",
      note: '{"k":1}',
      tag: "null",
      items: '["a","b"]',
    };
    const wanted = { ...sent, minutes: 15, repeat: false, volume: 0.5, items: ["a", "b"] };
    for (const parameters of [z.object(shape), z.toJSONSchema(z.object(shape)) as Record<string, unknown>]) {
      const tool = defineTool({ name: "set", description: "d", parameters, effect: "read", execute: (args) => args });
      const outcome = await createToolCaller([tool]).execute(makeRequest("set", JSON.stringify(sent)));
      expect(outcome).toMatchObject({ type: "ok" });
      expect(JSON.parse((outcome as { content: string }).content)).toEqual(wanted);
    }
  });

  test("validates again and does not run what does not fit", async () => {
    const caller = createToolCaller([add]);
    expect(await caller.execute(makeRequest("add", '{"a":1}'))).toMatchObject({ type: "failed", code: "threw" });
    expect(await caller.execute(makeRequest("add", "{"))).toMatchObject({ type: "failed" });
    expect(await caller.execute(makeRequest("gone", "{}"))).toMatchObject({ type: "failed" });
  });
});

test("a retry policy is there for tools that are", () => {
  const caller = createToolCaller([add]);
  expect(caller.retryPolicy("add")).toEqual({ attempts: 3, delayMs: 500 });
  expect(caller.retryPolicy("gone")).toBeUndefined();
});

test("two tools of one name are refused", () => {
  expect(() => createToolCaller([add, add, add])).toThrow(
    new DroverError("invalid", 'More than one tool is named "add": give each its own name.'),
  );
});
