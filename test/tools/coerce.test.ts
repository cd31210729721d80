import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { coerce } from "../../src/tools/coerce.ts";
import type { JsonSchema } from "../../src/tools/json-schema.ts";

function coerceOne(schema: unknown, value: unknown): unknown {
  const result = coerce({ type: "object", properties: { a: schema } }, { a: value }) as { a: unknown };
  return result.a;
}

const number = { type: "number" };
const integer = { type: "integer" };

describe("coerce", () => {
  test.each<[string, unknown, unknown, unknown]>([
    ["digits", integer, "3", 3],
    ["a fraction", number, "0.5", 0.5],
    ["a negative", number, "-2", -2],
    ["an exponent", number, "1e3", 1000],
    ["a whole fraction as integer", integer, "15.0", 15],
    ["true", { type: "boolean" }, "true", true],
    ["false", { type: "boolean" }, "false", false],
    ["null", { type: ["number", "null"] }, "null", null],
    ["an object", { type: "object" }, '{"k":1}', { k: 1 }],
    ["an array", { type: "array" }, ' ["a"]', ["a"]],
    ["numbers inside a held array", { type: "array", items: integer }, '["1",2]', [1, 2]],
    ["a number in an enum", { enum: [1, 2] }, "2", 2],
    ["a constant", { const: true }, "true", true],
    ["one branch of a union", { anyOf: [{ type: "integer" }, { type: "null" }] }, "7", 7],
    ["inside the only possible branch", { anyOf: [{ type: "array", items: integer }, { type: "null" }] }, ["1"], [1]],
    ["a tuple", { type: "array", prefixItems: [integer, { type: "string" }] }, ["1", "2"], [1, "2"]],
    ["a tuple of draft 7", { type: "array", items: [integer, { type: "string" }] }, ["1", "2"], [1, "2"]],
    ["other properties", { type: "object", additionalProperties: number }, { x: "1" }, { x: 1 }],
  ])("takes %s", (_name, schema, value, expected) => {
    expect(coerceOne(schema, value)).toEqual(expected);
  });

  test.each<[string, unknown, unknown]>([
    ["text to a number", number, "abc"],
    ["leading zeros to a number", integer, "007"],
    ["a sign", integer, "+3"],
    ["space", integer, " 3"],
    ["nothing", number, ""],
    ["hexadecimal", integer, "0x10"],
    ["infinity", number, "Infinity"],
    ["too large a number", number, "1e999"],
    ["digits a double cannot hold", integer, "9007199254740993"],
    ["a fraction a double cannot hold", number, "0.12345678901234567"],
    ["a fraction to an integer", integer, "1.5"],
    ["another spelling of true", { type: "boolean" }, "True"],
    ["yes", { type: "boolean" }, "yes"],
    ["one to a boolean", { type: "boolean" }, 1],
    ["a number to text", { type: "string" }, 3],
    ["a boolean to text", { type: "string" }, true],
    ["digits wanted as text", { type: "string" }, "007"],
    ["JSON wanted as text", { type: "string" }, '{"k":1}'],
    ["text that fits a union", { type: ["string", "null"] }, "null"],
    ["text that fits a branch", { anyOf: [{ type: "string" }, { type: "number" }] }, "3"],
    ["cut JSON", { type: "object" }, '{"k":'],
    ["an array where an object is wanted", { type: "object" }, "[1]"],
    ["a number into a list", { type: "array" }, "3"],
    ["anything a schema does not speak of", {}, "3"],
    ["an ambiguous union", { anyOf: [{ type: "object", properties: { x: number } }, { type: "object" }] }, { x: "1" }],
    ["a foreign reference", { $ref: "https://example.com/s" }, "3"],
    ["a circular reference", { $ref: "#/properties/a" }, "3"],
  ])("leaves %s", (_name, schema, value) => {
    expect(coerceOne(schema, value)).toEqual(value);
  });

  test("unwraps arguments that were encoded twice", () => {
    expect(coerce({ type: "object", properties: { a: number } }, '{"a":"2"}')).toEqual({ a: 2 });
  });

  test("follows local references, recursive ones too", () => {
    const schema = {
      type: "object",
      properties: { value: { type: "integer" }, next: { $ref: "#" } },
    };
    expect(coerce(schema, { value: "1", next: { value: "2" } })).toEqual({ value: 1, next: { value: 2 } });
  });

  test("a key named __proto__ stays a key", () => {
    const value: unknown = JSON.parse('{"__proto__":{"x":"1"},"constructor":"3"}');
    const result = coerce({ type: "object", additionalProperties: { type: "number" } }, value) as object;
    expect(Object.keys(result)).toEqual(["__proto__", "constructor"]);
    expect(Object.getPrototypeOf(result)).toBe(Object.prototype);
  });

  test("never throws, whatever the schema and the value are, and does not change its input", () => {
    const json = fc.jsonValue({ maxDepth: 4 });
    const schema = fc.oneof(json, schemas().tree);
    fc.assert(
      fc.property(schema, json, (wanted, value) => {
        const before = JSON.stringify(value);
        coerce(wanted as JsonSchema, value);
        coerce({ type: "object", properties: { a: wanted } }, { a: value });
        expect(JSON.stringify(value)).toBe(before);
      }),
      { numRuns: 2_000 },
    );
  });

  test("a value of a wanted type is left as it is", () => {
    const scalar = fc.oneof(fc.string(), fc.integer(), fc.boolean(), fc.constant(null));
    fc.assert(
      fc.property(scalar, (value) => {
        const type = value === null ? "null" : typeof value;
        expect(coerceOne({ type: [type, "number", "boolean", "null"] }, value)).toBe(value);
      }),
    );
  });
});

function schemas(): { tree: fc.Arbitrary<unknown> } {
  return fc.letrec((tie) => ({
    tree: fc.oneof(
      { maxDepth: 4 },
      fc.record({ type: fc.constantFrom("string", "number", "integer", "boolean", "null", "object", "array") }),
      fc.record({ type: fc.constant("array"), items: tie("tree") }),
      fc.record({ type: fc.constant("object"), properties: fc.dictionary(fc.string(), tie("tree")) }),
      fc.record({ anyOf: fc.array(tie("tree"), { maxLength: 3 }) }),
      fc.record({ $ref: fc.constantFrom("#", "#/properties/a", "#/%", "x") }),
      fc.record({ enum: fc.array(fc.jsonValue(), { maxLength: 3 }) }),
    ),
  }));
}
