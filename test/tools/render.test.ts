import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { cutText, maxResultBytes, renderResult } from "../../src/tools/render.ts";

const cyclic: Record<string, unknown> = { name: "loop" };
cyclic.self = cyclic;
const shared = { x: 1 };

describe("a result is rendered", () => {
  test.each<[string, unknown, unknown]>([
    ["text as it is", "21 C", "21 C"],
    ["empty text", "", ""],
    ["undefined", undefined, "Done."],
    ["null", null, "null"],
    ["a number", 4, "4"],
    ["an object", { a: [1, "x", null] }, '{"a":[1,"x",null]}'],
    ["an empty list", [], "[]"],
    ["a date", new Date(0), '"1970-01-01T00:00:00.000Z"'],
    ["a big integer", { n: 12n }, '{"n":"12"}'],
    ["a map", new Map([["k", 1]]), '[["k",1]]'],
    ["a set", new Set([1, 2]), "[1,2]"],
    ["bytes", Buffer.from("secret"), '"[6 bytes of binary data]"'],
    [
      "bytes inside",
      { a: new Uint8Array(3), b: [Buffer.alloc(2)], c: new ArrayBuffer(4) },
      expect.stringContaining("3 bytes"),
    ],
    ["a Buffer in a list", [Buffer.alloc(2)], '["[2 bytes of binary data]"]'],
    ["an error by its message", { error: new Error("oops") }, '{"error":"oops"}'],
    ["what JSON drops", { f: () => 1, s: Symbol("s"), u: undefined, ok: 1 }, '{"ok":1}'],
    ["a function", () => 1, "Done. (The result is a function, which has no text.)"],
    ["a symbol", Symbol("s"), "Done. (The result is a symbol, which has no text.)"],
    ["halves of characters and NUL", "a\uD83Db\0c", "a\uFFFDb\uFFFDc"],
    ["numbers that are none", [Number.NaN, -0, Number.POSITIVE_INFINITY], "[null,0,null]"],
    ["boxed values", { a: Object("x"), b: Object(1), c: Object(false) }, '{"a":"x","b":1,"c":false}'],
    ["functions in lists", [undefined, () => 1, Symbol("s")], "[null,null,null]"],
    [
      "what toJSON gives",
      { a: { toJSON: (key: string) => ({ key }) }, n: { toJSON: () => 3n } },
      '{"a":{"key":"a"},"n":"3"}',
    ],
    ["an error that toJSON gives", { a: { toJSON: () => new Error("inner") } }, '{"a":"inner"}'],
    ["a cycle", cyclic, '{"name":"loop","self":"[the same again: it holds itself]"}'],
    ["the same twice, in no cycle", [shared, shared], '[{"x":1},{"x":1}]'],
    [
      "a property that throws",
      {
        before: 1,
        get bad() {
          throw new Error("broken");
        },
      },
      '{"before":1,"bad":"[cannot be read: broken]"}',
    ],
    [
      "a toJSON that throws",
      { ok: 1, bad: { toJSON: () => JSON.parse("no JSON") } },
      expect.stringMatching(/^{"ok":1,"bad":"\[cannot be read/),
    ],
  ])("%s", (_name, value, expected) => {
    expect(renderResult(value)).toEqual(expected);
  });

  test("content parts stay parts, cleaned", () => {
    const image = { type: "image_url", image_url: { url: "data:image/png;base64,AA==" }, extra: 1 };
    expect(renderResult([{ type: "text", text: "a\uD83D" }, image])).toEqual([
      { type: "text", text: "a\uFFFD" },
      image,
    ]);
  });

  test("a list that only looks like content parts is data", () => {
    const animals = [{ type: "dog", name: "Rex" }];
    expect(renderResult(animals)).toBe(JSON.stringify(animals));
    expect(renderResult([{ type: "text", text: 5 }])).toBe('[{"type":"text","text":5}]');
  });

  test("a hostile value does not throw", () => {
    const throwing = {
      toJSON: () => {
        throw new Error("no JSON for you");
      },
    };
    expect(renderResult(throwing)).toBe("Done, but the result cannot be shown: no JSON for you");
    let deep: unknown = 1;
    for (let depth = 0; depth < 200_000; depth++) deep = [deep];
    expect(renderResult(deep)).toContain("[nested too deep]");
  });

  test("any JSON value comes back from its text", () => {
    fc.assert(
      fc.property(fc.jsonValue(), (value) => {
        const parts = Array.isArray(value) && value.length > 0 && typeof renderResult(value) !== "string";
        fc.pre(typeof value !== "string" && !parts);
        expect(JSON.parse(renderResult(value) as string)).toEqual(JSON.parse(JSON.stringify(value)));
      }),
    );
  });
});

describe("a result is bounded", () => {
  const size = (content: unknown): number => Buffer.byteLength(JSON.stringify(content));

  test("long text is cut between characters, and the note says how much is missing", () => {
    const text = `x${"\u{1F600}".repeat(maxResultBytes / 4 + 100)}`;
    const shown = renderResult(text) as string;
    expect(shown.isWellFormed()).toBe(true);
    expect(shown).not.toContain("\uFFFD");
    const chars = (maxResultBytes - 4) / 2 + 1;
    expect(shown.endsWith(`and only its first ${chars} of ${chars + 202} characters are kept]`)).toBe(true);
  });

  test("text of the limit is whole", () => {
    const text = "x".repeat(maxResultBytes);
    expect(renderResult(text)).toBe(text);
  });

  test.each<[string, unknown]>([
    ["a long text inside", { a: "x".repeat(12_000_000), b: "y".repeat(12_000_000) }],
    ["many elements", Array.from({ length: 5_000_000 }, (_, index) => index)],
    ["many keys", Object.fromEntries(Array.from({ length: 900_000 }, (_, index) => [`key-number-${index}`, index]))],
    ["many lists", Array.from({ length: 6_000 }, () => "z".repeat(1_000).split(""))],
  ])("%s", (_name, value) => {
    const shown = renderResult(value) as string;
    expect(Buffer.byteLength(shown)).toBeLessThan(maxResultBytes + 200);
    expect(shown.slice(-200)).toMatch(/\n\[cut: .* only its first \d+ characters are kept\]$/);
  });

  test("parts: the text is cut, what does not fit is left out and said", () => {
    const image = { type: "image_url", image_url: { url: `https://x.example/${"x".repeat(maxResultBytes)}` } };
    const many = renderResult([{ type: "text", text: "seen" }, image, { type: "text", text: "after" }]);
    expect(many).toEqual([
      { type: "text", text: "seen" },
      { type: "text", text: "[left out: 2 more parts, for their size]" },
    ]);
    const texts = renderResult([{ type: "text", text: "a".repeat(maxResultBytes + 9) }]);
    expect(size(texts)).toBeLessThan(maxResultBytes + 200);
    expect(JSON.stringify(texts).slice(-100)).toContain(`of ${maxResultBytes + 9} characters are kept`);
  });

  test("JSON that is short enough in characters and too long in bytes says how long it is", () => {
    const shown = renderResult(["é".repeat(9_000_000)]) as string;
    expect(Buffer.byteLength(shown)).toBeLessThan(maxResultBytes + 200);
    expect(shown).toMatch(/only its first \d+ of 9000004 characters are kept\]$/);
  });

  test("what JSON.stringify would never end with ends: bytes, and objects shared many times", () => {
    expect(renderResult({ file: Buffer.alloc(100_000_000) })).toBe('{"file":"[100000000 bytes of binary data]"}');
    let many: unknown = "leaf";
    for (let level = 0; level < 60; level++) many = [many, many];
    expect((renderResult(many) as string).length).toBeLessThan(maxResultBytes + 200);
  });

  test("a long text full of NUL is cleaned, and one in JSON keeps its characters together", () => {
    expect(renderResult("a\0".repeat(5_000_000))).toBe("a\uFFFD".repeat(5_000_000));
    const text = `x${"\u{1F600}".repeat(200_000)}`;
    expect(renderResult([text])).toBe(`["${text}"]`);
  });

  test("a part is cut without what else it holds, and very many parts are data", () => {
    const huge = { type: "text", text: "a".repeat(maxResultBytes), junk: "b".repeat(1_000_000) };
    expect(Object.keys((renderResult([huge]) as object[])[0] ?? {})).toEqual(["type", "text"]);
    expect(renderResult(Array.from({ length: 1_001 }, () => ({ type: "text", text: "x" })))).toMatch(/^\[{"type"/);
  });

  test("cutText keeps what fits", () => {
    expect(cutText("abc", 3)).toBe("abc");
    expect(cutText("aé", 2)).toMatch(/^a\n\[cut: .* only its first 1 of 2 characters are kept\]$/);
    expect(cutText("é", 0)).toMatch(/^\n\[cut: .* only its first 0 of 1 characters are kept\]$/);
  });
});
