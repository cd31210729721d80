import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { parseArguments } from "../../src/core/reply-arguments.ts";

describe("arguments that have one reading", () => {
  test.each<[string, string, Record<string, unknown>]>([
    ["an object", '{"a":1}', { a: 1 }],
    ["nothing", "", {}],
    ["space", "  \n", {}],
    ["null", "null", {}],
    ["an empty list", "[]", {}],
    ["an empty text, encoded", '""', {}],
    ["a double encoding", '"{\\"a\\":2}"', { a: 2 }],
    ["an empty object before the real one", '{}{"city":"Paris"}', { city: "Paris" }],
    ["the same with space", '{ }\n{"city":"Paris"}', { city: "Paris" }],
    ["a fence", '```json\n{"a":1}\n```', { a: 1 }],
    [
      "Python literals",
      "{'note': \"it's done\", 'urgent': True, 'late': False, 'tag': None,}",
      { note: "it's done", urgent: true, late: false, tag: null },
    ],
    ["a trailing comma in a list", "{'l': [1, -2.5, 3e2,]}", { l: [1, -2.5, 300] }],
    ["JSON words among single quotes", "{'a': true, 'b': false, 'c': null}", { a: true, b: false, c: null }],
    ["a raw line break in a string", '{"text":"one\ntwo\tthree"}', { text: "one\ntwo\tthree" }],
    ["escapes in a repaired string", "{'a': 'it\\'s \\u00e9\\n\\\\'}", { a: "it's é\n\\" }],
    ["a repaired double encoding", "'{\"a\":1}'", { a: 1 }],
    ["typographic quotes", `{“note”: “say "hi"”, ‘b’: 1}`, { note: 'say "hi"', b: 1 }],
    ["keys without quotes", "{city: 'Oslo', $n_1: 2}", { city: "Oslo", $n_1: 2 }],
    ["arrows", '{"a" => 1, b=>[2]}', { a: 1, b: [2] }],
    ["comments", '{ // one\n"a": 1, # two\n /* three */ "b": "// no" }', { a: 1, b: "// no" }],
    ["numbers of JavaScript", "{'a': +5, 'b': .5, 'c': 5., 'd': -0.5e-3}", { a: 5, b: 0.5, c: 5, d: -0.0005 }],
    ["a fence on one line", '```{"a":1}```', { a: 1 }],
    ["a byte order mark", '\uFEFF{"a":1}', { a: 1 }],
    ["leaked end tokens", '{"a":1}\n</tool_call><|im_end|>', { a: 1 }],
    ["the same object twice", '{"a":1}\n{"a":1}', { a: 1 }],
    ["a list around it", '[{"a":1}]', { a: 1 }],
    [
      "whole numbers that are exact",
      '{"a":9007199254740992,"b":1e300,"c":-10000000000000000000000}',
      { a: 2 ** 53, b: 1e300, c: -1e22 },
    ],
    ["the same key in other objects", '{"a":{"a":1},"b":[{"a":2},{"a":3}]}', { a: { a: 1 }, b: [{ a: 2 }, { a: 3 }] }],
    ["nested values", "{'a': {'b': [{'c': ''}]}}", { a: { b: [{ c: "" }] } }],
  ])("%s", (_, text, value) => {
    const parsed = parseArguments(text);
    expect(parsed).toMatchObject({ ok: true, value });
    expect(parsed.ok && JSON.parse(parsed.text)).toEqual(value);
  });

  test("sound JSON is replayed as the model wrote it", () => {
    const text = '{ "id": 1.0 , "note": "\\u00e9" }';
    expect(parseArguments(text)).toMatchObject({ ok: true, text });
  });

  test("a text that happens to hold JSON stays a text", () => {
    expect(parseArguments('{"note":"{\\"k\\":1}"}')).toMatchObject({ ok: true, value: { note: '{"k":1}' } });
  });

  test("a property called __proto__ is a property", () => {
    const parsed = parseArguments("{'__proto__': {'x': 1}}");
    expect(parsed.ok && Object.hasOwn(parsed.value, "__proto__")).toBe(true);
  });
});

describe("arguments that are refused", () => {
  test.each<[string, string, RegExp]>([
    ["cut inside a string", '{"path":"list.txt","content":"1. app', /ends inside a string/],
    ["cut after a value", '{"a":1', /ends before the value/],
    ["cut in an escape", '{"a":"x\\', /unknown escape/],
    ["cut in a list", "{'a': [1,", /ends before the value/],
    ["a Windows path", "{'p': 'C:\\dir'}", /unknown escape/],
    ["a key that is none", "{1: 1}", /key is missing/],
    ["a comment without end", '{"a": 1 /* x}', /comma or the closing/],
    ["typographic quotes that are not closed", '{“a": 1}', /ends inside a string/],
    ["an apostrophe in single quotes", "{'a': 'it's'}", /comma/],
    ["a key twice in sound JSON", '{"a":1,"\\u0061":2}', /"\\u0061" is given twice/],
    ["a long key twice", `{"${"k".repeat(100)}":1,"${"k".repeat(100)}":2}`, /k…/],
    ["a number that would become another", '{"id":12345678901234567891}', /12345678901234567891 cannot be held/],
    ["such a number, repaired", "{'id':12345678901234567891}", /12345678901234567891 cannot be held/],
    ["such a number, encoded", JSON.stringify('{"id":12345678901234567891}'), /cannot be held/],
    ["a number without bound", '{"a":1e999}', /1e999 cannot be held/],
    ["no number", '{"a":NaN}', /unexpected word/],
    ["sound JSON without sense", `{"a":${"[".repeat(300)}${"]".repeat(300)}}`, /too deep/],
    ["objects that begin alike", '{"a":1}{"a":2}', /more after/],
    ["a missing colon", "{'a' 1}", /colon/],
    ["a missing comma", "{'a': 1 'b': 2}", /comma/],
    ["a word", "{'a': yes}", /unexpected word/],
    ["an inherited name as a word", "{'a': constructor}", /unexpected word/],
    ["a leading zero", "{'a': 007}", /unexpected word/],
    ["two objects", "{'a': 1}{'a': 2}", /more after/],
    ["a key twice", "{'a': 1, 'a': 2,}", /twice/],
    ["prose", "Sure, here it is", /unexpected word/],
    ["a list", "[1]", /a list, not a JSON object/],
    ["a number", "7", /a number, not a JSON object/],
    ["a text", '"Paris"', /a string, not a JSON object/],
    [
      "a text in too many wrappings",
      JSON.stringify(JSON.stringify(JSON.stringify(JSON.stringify('{"a":1}')))),
      /a string/,
    ],
    ["nesting without end", `{'a': ${"[".repeat(500)}`, /too deep/],
  ])("%s", (_, text, problem) => {
    const parsed = parseArguments(text);
    expect(parsed).toEqual({ ok: false, problem: expect.stringMatching(problem) });
  });
});

test.each<[string, string]>([
  ["one string", JSON.stringify({ a: 'x\\"'.repeat(1_000_000) })],
  ["space", `{"a":${" ".repeat(1_000_000)}1`],
  ["backticks", "`".repeat(1_000_000)],
  ["empty objects", "{}".repeat(500_000)],
  ["brackets", "[".repeat(1_000_000)],
  ["numbers", JSON.stringify({ a: Array.from({ length: 300_000 }, (_, at) => at) })],
])("megabytes of %s are read in good time", (_, text) => {
  const beganAt = performance.now();
  parseArguments(text);
  expect(performance.now() - beganAt).toBeLessThan(2_000);
});

test("never throws, and what is accepted is always replayed as a JSON object", () => {
  const pieces = ["{", "}", "[", "]", '"', "'", ":", ",", "a", "1", "True", "\\", "null", " ", "```", "\n"];
  const jumble = fc.array(fc.constantFrom(...pieces), { maxLength: 20 }).map((list) => list.join(""));
  fc.assert(
    fc.property(fc.oneof(fc.string(), jumble), (text) => {
      const parsed = parseArguments(text);
      const value: unknown = parsed.ok ? JSON.parse(parsed.text) : {};
      expect(typeof value === "object" && value !== null && !Array.isArray(value)).toBe(true);
    }),
    { numRuns: 5_000 },
  );
});

test("a cut object is never accepted", () => {
  fc.assert(
    fc.property(fc.dictionary(fc.string(), fc.jsonValue(), { minKeys: 1 }), fc.nat(), (value, at) => {
      const text = JSON.stringify(value);
      const cut = text.slice(0, 1 + (at % (text.length - 1)));
      expect(parseArguments(cut).ok).toBe(false);
    }),
    { numRuns: 2_000 },
  );
});
