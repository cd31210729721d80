import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { z } from "zod";
import { type Issue, toParameters } from "../../src/tools/parameters.ts";

function issuesOf(source: unknown, value: unknown): Issue[] {
  const parsed = toParameters(source).parse(value);
  if (parsed.ok) throw new Error(`accepted ${JSON.stringify(parsed.value)}`);
  return parsed.issues;
}

const node = z.object({
  city: z.string(),
  days: z.int().optional(),
  unit: z.enum(["c", "f"]).optional(),
  items: z.array(z.object({ id: z.number() })).optional(),
  either: z.union([z.string(), z.number()]).optional(),
});

const zodSchema = z.strictObject(node.shape);
const { $schema: _dialect, ...jsonSchema } = z.toJSONSchema(zodSchema, { io: "input" });

describe.each([
  ["zod", zodSchema],
  ["JSON Schema", jsonSchema],
])("issues of %s name path, expected and received", (kind, source) => {
  test.each<[string, unknown, Issue]>([
    ["a missing key", {}, { path: "city", expected: "string", received: "nothing" }],
    ["a wrong type", { city: 7 }, { path: "city", expected: "string", received: "7 (number)" }],
    ["null", { city: null }, { path: "city", expected: "string", received: "null" }],
    ["an enum", { city: "x", unit: "kelvin" }, { path: "unit", expected: '"c" or "f"', received: '"kelvin" (string)' }],
    [
      "an inner place",
      { city: "x", items: [{ id: 1 }, { id: "abc" }] },
      { path: "items[1].id", expected: "number", received: '"abc" (string)' },
    ],
    [
      "a union",
      { city: "x", either: true },
      { path: "either", expected: "string or number", received: "true (boolean)" },
    ],
    [
      "a key too many",
      { city: "x", town: "y" },
      { path: "town", expected: "no such argument", received: '"y" (string)' },
    ],
    ["a list", { city: ["a", "b"] }, { path: "city", expected: "string", received: "an array of 2" }],
    ["an object", { city: { a: 1 } }, { path: "city", expected: "string", received: "an object with the keys a" }],
  ])("%s", (_name, value, issue) => {
    expect(issuesOf(source, value)).toEqual([issue]);
  });

  test("all at once", () => {
    const paths = issuesOf(source, { unit: 1, days: "x" }).map(({ path }) => path);
    expect(paths.toSorted()).toEqual(["city", "days", "unit"]);
  });

  test(`${kind} never throws`, () => {
    const { parse } = toParameters(source);
    fc.assert(
      fc.property(fc.jsonValue(), (value) => {
        expect(typeof parse(value).ok).toBe("boolean");
      }),
    );
  });
});

describe("parameters", () => {
  test("zod gives its output, JSON Schema the value", () => {
    const schema = z.object({ n: z.number().default(3), s: z.string().transform((text) => text.length) });
    expect(toParameters(schema).parse({ s: "four" })).toEqual({ ok: true, value: { n: 3, s: 4 } });
    expect(toParameters({ type: "object" }).parse({ s: "four" })).toEqual({ ok: true, value: { s: "four" } });
  });

  test("keywords without a short name say what they want", () => {
    const source = {
      type: "object",
      properties: { n: { type: "integer", minimum: 3 }, s: { pattern: "^a" }, k: { const: 1 } },
      additionalProperties: { type: "number" },
    };
    expect(issuesOf(source, { n: 1 })[0]).toMatchObject({ path: "n", expected: expect.stringContaining("3") });
    expect(issuesOf(source, { s: "b" })[0]).toMatchObject({ path: "s", expected: expect.stringContaining("pattern") });
    expect(issuesOf(source, { k: 2 })).toEqual([{ path: "k", expected: "1", received: "2 (number)" }]);
    expect(issuesOf(source, { other: "x" })).toEqual([{ path: "other", expected: "number", received: '"x" (string)' }]);
  });

  test("references are followed to the wanted type", () => {
    const source = {
      type: "object",
      properties: { "a/b c": { $ref: "#/definitions/p" } },
      required: ["a/b c"],
      definitions: { p: { type: "object", required: ["x"], properties: { x: { type: "number" } } } },
    };
    expect(issuesOf(source, { "a/b c": {} })).toEqual([{ path: "a/b c.x", expected: "number", received: "nothing" }]);
    expect(issuesOf(source, {})).toEqual([{ path: "a/b c", expected: "object", received: "nothing" }]);
  });

  test.each(["http://json-schema.org/draft-04/schema#", "http://json-schema.org/draft-07/schema#"])(
    "the dialect %s is kept to: what stands beside a reference is ignored",
    ($schema) => {
      const properties = { a: { $ref: "#/definitions/any", type: "string" } };
      const source = { $schema, type: "object", properties, definitions: { any: {} } };
      expect(toParameters(source).parse({ a: 1 }).ok).toBe(true);
    },
  );

  test("without a dialect the newest one rules", () => {
    const properties = { a: { $ref: "#/$defs/any", type: "string" } };
    const source = { type: "object", properties, $defs: { any: {} } };
    expect(toParameters(source).parse({ a: 1 }).ok).toBe(false);
  });

  test("a value that cannot be checked does not fit", () => {
    const later = z.object({ a: z.string().refine(() => Promise.resolve(true)) });
    expect(issuesOf(later, { a: "x" })[0]?.expected).toContain("can be checked");
    const throwing = z.object({
      a: z.string().transform(() => {
        throw new Error("boom");
      }),
    });
    expect(issuesOf(throwing, { a: "x" })[0]?.received).toContain("boom");
    const recursive = { type: "object", properties: { next: { $ref: "#" } } };
    let deep: unknown = {};
    for (let depth = 0; depth < 100_000; depth++) deep = { next: deep };
    expect(issuesOf(recursive, deep)[0]?.received).toContain("nested too deeply");
  });

  test("a discriminated union tells what is wrong inside the branch", () => {
    const source = z.object({
      shape: z.discriminatedUnion("kind", [
        z.object({ kind: z.literal("circle"), radius: z.number() }),
        z.object({ kind: z.literal("square"), side: z.number() }),
      ]),
    });
    expect(issuesOf(source, { shape: { kind: "circle" } })).toEqual([
      { path: "shape.radius", expected: "number", received: "nothing" },
    ]);
    expect(issuesOf(source, { shape: { kind: "star" } })).toHaveLength(1);
  });
});
