// Catches: a schema called strict that OpenAI refuses, and a server that takes no form of answers ending the run.
import { describe, expect, test } from "vitest";
import { z } from "zod";
import { toResponseFormat } from "../../src/openai/output.ts";
import { findQuirk } from "../../src/openai/quirks.ts";
import { readServerError } from "../../src/openai/server-error.ts";
import { toParameters } from "../../src/tools/parameters.ts";

const formatOf = (output: unknown): { json_schema: { strict?: boolean } } =>
  toResponseFormat({ name: "answer", schema: toParameters(output).schema }) as never;
const closed = z.strictObject;
const tree = closed({
  value: z.string(),
  get children() {
    return z.array(tree);
  },
});

describe("strict", () => {
  test.each([
    ["closed objects", closed({ a: z.string(), b: closed({ c: z.number() }) })],
    [
      "lists, enums, literals and numbers in bounds",
      closed({ a: z.array(z.enum(["x"])).min(1), b: z.literal(1), c: z.int().max(9) }),
    ],
    ["what may be null", closed({ a: z.string().nullable(), b: closed({ c: z.string() }).nullable() })],
    ["unions further in", closed({ a: z.union([z.string(), closed({ b: z.string() })]) })],
    ["dates and addresses", closed({ a: z.iso.date(), b: z.email() })],
    ["what holds itself", tree],
    ["descriptions", closed({ a: z.string().describe("why") })],
  ])("are %s", (_name, output) => expect(formatOf(output).json_schema.strict).toBe(true));

  test.each([
    ["open objects", z.object({ a: z.string() })],
    [
      "open objects in lists of types",
      { type: "object", properties: { a: { type: ["object", "null"] } }, required: ["a"], additionalProperties: false },
    ],
    ["what may be left out", closed({ a: z.string().optional() })],
    [
      "defaults",
      {
        type: "object",
        properties: { a: { type: "string", default: "x" } },
        required: ["a"],
        additionalProperties: false,
      },
    ],
    ["records", closed({ a: z.record(z.string(), z.string()) })],
    ["tuples", closed({ a: z.tuple([z.string(), z.number()]) })],
    ["anything", closed({ a: z.any() })],
    [
      "exclusive unions",
      closed({ a: z.discriminatedUnion("k", [closed({ k: z.literal(1) }), closed({ k: z.literal(2) })]) }),
    ],
    ["lengths of text", closed({ a: z.string().min(1) })],
    ["URLs", closed({ a: z.url() })],
    ["patterns that look around", closed({ a: z.string().regex(/^(?=a)/) })],
    ["unions at the root", { type: "object", anyOf: [{ type: "object" }] }],
    ["unions of open objects", closed({ a: z.union([z.string(), z.object({ b: z.string() })]) })],
    ["patterns of names", { type: "object", properties: {}, additionalProperties: false, patternProperties: {} }],
  ])("are not %s", (_name, output) => expect(formatOf(output).json_schema.strict).toBeUndefined());
});

describe("a server that takes no form of answers", () => {
  const sent = { model: "m", messages: [{ role: "user", content: "hi" }], tools: [] };
  const strict = { ...sent, response_format: formatOf(closed({ a: z.string() })) };
  const loose = { ...sent, response_format: formatOf(z.object({ a: z.string() })) };
  const quirkOf = (status: number | undefined, message: string, body: object = loose, known: string[] = []) =>
    findQuirk(readServerError(status, JSON.stringify({ error: { message } })), body as never, new Set(known));

  test.each([
    [400, "This model does not support response format `json_schema`."],
    [400, "This response_format type is unavailable now"],
    [400, "'response_format.type' must be 'json_object' or 'text'"],
    [400, "json mode cannot be combined with tool/function calling"],
    [400, "Function calling with a response mime type: 'application/json' is unsupported"],
    [400, "Structured outputs are not supported with tools"],
    [404, "No endpoints found that support structured outputs: not available"],
    [422, "Extra inputs are not permitted: response_format"],
    [500, "Cannot use custom grammar constraints with tools."],
    [500, "Failed to parse grammar"],
    [501, "response_format is not implemented"],
    [undefined, "guided decoding is not supported"],
  ])("is heard: %s %s", (status, message) => expect(quirkOf(status, message)).toBe("response_format"));

  test.each([
    [429, "rate limit of response_format requests, not available"],
    [503, "json_schema engine overloaded, cannot serve"],
    [500, "the grammar of the universe"],
    [400, "the key is missing"],
  ])("is not found in %s %s", (status, message) => expect(quirkOf(status, message)).toBeUndefined());

  test("or none as strict gets the schema without that word first", () => {
    const message = "Invalid schema for response_format 'answer': In context=(), 'minimum' is not permitted.";
    expect(quirkOf(400, message, strict)).toBe("response_format.strict");
    expect(quirkOf(400, message, strict, ["response_format.strict"])).toBe("response_format");
    expect(quirkOf(400, message, loose)).toBe("response_format");
    expect(
      toResponseFormat({ name: "n", schema: toParameters(tree).schema }, { mayBeStrict: false }),
    ).not.toHaveProperty("json_schema.strict");
  });

  test("is not meant where the model's answer did not fit the form", () => {
    const error = { code: "json_validate_failed", message: "The answer does not match the JSON schema" };
    expect(findQuirk(readServerError(400, JSON.stringify({ error })), loose, new Set())).toBeUndefined();
  });
});
