import { describe, expect, expectTypeOf, test } from "vitest";
import { z } from "zod";
import { DroverError } from "../../src/core/errors.ts";
import { defineTool, type ToolOptions, toolSpec } from "../../src/tools/define-tool.ts";
import { lintTool } from "../../src/tools/lint-tool.ts";

const weather = {
  name: "get_weather",
  description: 'Current weather of a city. Example: {"city":"Oslo"}',
  parameters: z.object({ city: z.string().describe("City name in English, e.g. Oslo"), days: z.int().default(1) }),
  execute: () => "sunny",
} as const;

function problemsOf(options: unknown): string {
  try {
    defineTool(options as ToolOptions<z.ZodObject>);
  } catch (error) {
    expect(error).toBeInstanceOf(DroverError);
    expect((error as DroverError).code).toBe("invalid");
    return (error as DroverError).message;
  }
  throw new Error("the tool was accepted");
}

describe("defineTool", () => {
  test("fills in the defaults", () => {
    expect(defineTool(weather)).toMatchObject({
      effect: "write",
      idempotent: false,
      approval: "never",
      approvalExpiresMs: undefined,
      timeoutMs: 60_000,
      retry: { attempts: 3, delayMs: 500 },
      queue: undefined,
    });
    expect(defineTool({ ...weather, retry: { attempts: 1 } }).retry).toEqual({ attempts: 1, delayMs: 500 });
  });

  test("an irreversible tool asks unless it says otherwise", () => {
    expect(defineTool({ ...weather, effect: "irreversible" }).approval).toBe("always");
    expect(defineTool({ ...weather, effect: "irreversible", approval: "never" }).approval).toBe("never");
  });

  test("arguments are typed by the schema", () => {
    defineTool({
      ...weather,
      approval: ({ days }) => days > 3,
      execute: (args, context) => {
        expectTypeOf(args).toEqualTypeOf<{ city: string; days: number }>();
        expectTypeOf(context.signal).toEqualTypeOf<AbortSignal>();
      },
    });
    defineTool({
      ...weather,
      parameters: { type: "object", properties: {} },
      execute: (args) => {
        expectTypeOf(args).toEqualTypeOf<Record<string, unknown>>();
      },
    });
  });

  test("the model sees draft-7 JSON Schema of the input, without $schema", () => {
    expect(toolSpec(defineTool(weather))).toEqual({
      name: "get_weather",
      description: weather.description,
      parameters: {
        type: "object",
        properties: {
          city: { type: "string", description: "City name in English, e.g. Oslo" },
          days: { type: "integer", default: 1 },
        },
        required: ["city"],
      },
    });
  });

  test("a JSON Schema is passed on as it is, but for $schema", () => {
    const parameters = {
      $schema: "http://json-schema.org/draft-07/schema#",
      type: "object",
      properties: { city: { type: "string" } },
      additionalProperties: false,
    };
    const { $schema: _dialect, ...rest } = parameters;
    expect(toolSpec(defineTool({ ...weather, parameters })).parameters).toEqual(rest);
  });

  test("a tool that a person answers has a question and a form of answer in place of code", () => {
    const ask = defineTool({
      name: "ask",
      description: "Asks.",
      parameters: z.object({ what: z.string() }),
      answeredBy: "person",
      answer: z.object({ ok: z.boolean() }),
      expiresMs: 5,
      describe: (args) => {
        expectTypeOf(args).toEqualTypeOf<{ what: string }>();
        return args.what;
      },
    });
    expect(ask).toMatchObject({
      answeredBy: "person",
      expiresMs: 5,
      effect: "read",
      approval: "never",
      breaker: undefined,
    });
    expect(ask.answer?.schema).toMatchObject({ type: "object", required: ["ok"] });
    expect(() => ask.execute({}, {} as never)).toThrow(/a person answers/);
    const bare = defineTool({ name: "a", description: "", parameters: { type: "object" }, answeredBy: "person" });
    expect(bare).toMatchObject({ answer: undefined, expiresMs: undefined });
    const again = { ...bare, answeredBy: undefined, parameters: { type: "object" } };
    expect(defineTool({ ...again, execute: () => 1 })).toMatchObject({ answeredBy: undefined });
    expect(() => defineTool({ ...weather, answeredBy: "person" })).toThrow('has no option "execute"');
  });

  test.each([
    ["code and a person", { ...weather, answeredBy: "person", timeoutMs: 5 }, 'no option "execute", "timeoutMs"'],
    ["neither", { ...weather, execute: undefined }, 'expected a function, or answeredBy: "person" in its place'],
    ["somebody else", { ...weather, execute: undefined, answeredBy: "robot" }, 'answeredBy: expected "person"'],
    ["a form of answer and code", { ...weather, answer: z.string() }, "answer: expected nothing without answeredBy"],
    ["an answer that is no schema", { ...weather, answeredBy: "person", answer: 7 }, "answer: expected a zod schema"],
    ["an answer that JSON Schema cannot say", { ...weather, answeredBy: "person", answer: z.date() }, "answer: "],
    ["an expiry of no time", { ...weather, answeredBy: "person", expiresMs: 0 }, "expiresMs"],
  ])("refuses %s", (_name, options, part) => {
    expect(problemsOf(options)).toContain(part);
  });

  test("every problem is told in one error", () => {
    const message = problemsOf({
      name: "not a name!",
      description: 7,
      parameters: z.string(),
      execute: "run",
      effect: "delete",
      approval: "sometimes",
      timeoutMs: 0,
      retry: { attempts: 0 },
      queue: "a:b",
      rates: { max: 1, perMs: 1 },
    });
    for (const part of ["name", "description", "parameters", "execute", "effect", "approval", "timeoutMs"]) {
      expect(message).toContain(part);
    }
    expect(message).toContain("retry.attempts");
    expect(message).toContain("queue");
    expect(message).toContain('unknown option "rates"');
    expect(message).toContain('"not a name!"');
  });

  test.each([
    ["no options", undefined, "cannot be used"],
    ["no parameters", { ...weather, parameters: undefined }, "zod object schema or a JSON Schema"],
    ["a list", { ...weather, parameters: [] }, "zod object schema or a JSON Schema"],
    ["another zod", { ...weather, parameters: { _def: {} } }, "zod 4"],
    ["a schema of no object", { ...weather, parameters: { type: "string" } }, '"object"'],
    ["a zod type JSON Schema cannot say", { ...weather, parameters: z.object({ at: z.date() }) }, "Date"],
    [
      "a reference to nothing",
      { ...weather, parameters: { type: "object", properties: { a: { $ref: "#/$defs/b" } } } },
      "points at nothing",
    ],
    [
      "a foreign reference",
      { ...weather, parameters: { type: "object", properties: { a: { $ref: "https://example.com/s" } } } },
      "points at nothing",
    ],
    [
      "a bad pattern",
      { ...weather, parameters: { type: "object", properties: { a: { type: "string", pattern: "(" } } } },
      "regular expression",
    ],
    ["a circular schema", { ...weather, parameters: circular() }, "plain JSON"],
    ["an option of a later version", { ...weather, cache: 10 }, 'unknown option "cache"'],
  ])("refuses %s", (_name, options, part) => {
    expect(problemsOf(options)).toContain(part);
  });
});

function circular(): Record<string, unknown> {
  const schema: Record<string, unknown> = { type: "object" };
  schema.self = schema;
  return schema;
}

describe("lintTool", () => {
  test("finds nothing wrong with a tool that has the four elements", () => {
    const parameters = z.object({ city: z.string().describe("City name") });
    expect(lintTool(defineTool({ ...weather, parameters }))).toEqual([]);
  });

  test("names what is missing, nested parameters included", () => {
    const tool = defineTool({
      ...weather,
      description: " ",
      parameters: z.object({
        who: z.object({ name: z.string() }).describe("The person"),
        tags: z.array(z.object({ key: z.string() })).describe("Tags"),
        when: z.string(),
      }),
    });
    const problems = lintTool(tool).map(({ problem }) => problem);
    expect(problems[0]).toContain("no description");
    expect(problems.slice(1).map((problem) => /"(.*?)"/.exec(problem)?.[1])).toEqual([
      "who.name",
      "tags[].key",
      "when",
    ]);
  });

  test("asks for an example where there are parameters", () => {
    expect(lintTool(defineTool({ ...weather, description: "Weather." }))).toContainEqual({
      tool: "get_weather",
      problem: expect.stringContaining("no example"),
    });
    const bare = { ...weather, description: "Answers pong.", parameters: z.object({}) };
    expect(lintTool(defineTool(bare))).toEqual([]);
  });

  test("ends on a recursive schema", () => {
    const parameters = {
      type: "object",
      properties: { node: { $ref: "#/$defs/node" } },
      $defs: { node: { type: "object", properties: { next: { $ref: "#/$defs/node" } } } },
    };
    expect(lintTool(defineTool({ ...weather, parameters }))[0]?.problem).toContain('"node"');
  });
});
