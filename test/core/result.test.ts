// Catches: results over their limit, notes that lie, and text that is lost between what is shown and what is kept.
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { Content } from "../../src/core/message.ts";
import {
  type CutResult,
  cutResult,
  joinRange,
  planRange,
  type ResultRange,
  rangeText,
  resultTextOf,
  wholeCharacters,
} from "../../src/core/result.ts";

/** Every character a token but white space: exact and easy to see through. */
const counter = {
  count: (text: string): number => text.replace(/\s/g, "").length,
  cut: (text: string, tokens: number): string => {
    let end = 0;
    for (let count = 0; end < text.length; end++) {
      if (!/\s/.test(text.charAt(end))) count++;
      if (count > tokens) break;
    }
    return text.slice(0, /[\uD800-\uDBFF]/.test(text.charAt(end - 1)) ? end - 1 : end);
  },
};
const names = { name: "call-3-1", runId: "run-1", ref: "call-3-1.x" };
const cut = (content: Content, maxTokens: number): CutResult | null =>
  cutResult(content, { maxTokens, bytes: Buffer.byteLength(resultTextOf(content)), names, counter });

function readRange({ content, full, middle }: CutResult, from: number, length: number): ResultRange {
  const plan = planRange(full, { from, length });
  return joinRange(content, full, plan, middle.slice(...plan.middle));
}

/** Reads the whole in pieces of `length`. */
function readAll(result: CutResult, length: number): string {
  for (let text = ""; ; ) {
    const range = readRange(result, text.length, length);
    if (range.text === "") return text;
    text += range.text;
  }
}

describe("cutResult", () => {
  test("leaves what fits alone", () => {
    expect(cut("short", 100)).toBeNull();
    expect(cut(" ".repeat(1_000), 100)).toBeNull();
    expect(cut([{ type: "text", text: "short" }], 100)).toBeNull();
  });

  test("shows beginning and end, says what is left out and how to read on", () => {
    const text = `${"a".repeat(3_000)}${"z".repeat(3_000)}`;
    const result = cut(text, 280) as CutResult;
    expect(result.content).toMatch(
      /^a{129}\n\[cut: characters 129 to 59\d\d of 6000 are left out here\. To read on call read_result with \{"result":"call-3-1","from":129\}\]\nz{30,40}$/,
    );
    expect(result.full).toMatchObject({ ...names, chars: 6_000, bytes: 6_000, head: 129 });
  });
  test("is the note alone where there is room for no more", () => {
    const result = cut("x".repeat(3_000), 100) as CutResult;
    expect(result.content).toMatch(/^\n\[cut: characters 0 to 3000 of 3000 are left out here\.[^\]]*"from":0}\]\n$/);
    expect(readAll(result, 999)).toBe("x".repeat(3_000));
  });

  test("leaves a text alone that was taken for a long one and fits", () => {
    expect(cut("\u3000".repeat(1_100), 200)).toBeNull();
  });

  test("keeps to its limit where tokens of the parts do not add up", () => {
    const odd = { ...counter, count: (text: string) => counter.count(text) + (text.length > 250 ? 40 : 0) };
    const result = cutResult("x".repeat(9_000), { maxTokens: 300, bytes: 9_000, names, counter: odd }) as CutResult;
    expect(odd.count(resultTextOf(result.content))).toBeLessThanOrEqual(300);
    expect(result.full.head).toBeGreaterThan(50);
  });

  test("cuts a refusal as it cuts text", () => {
    const { content } = cut(
      [
        { type: "refusal", refusal: "no ".repeat(500) },
        { type: "text", text: "!" },
      ],
      200,
    ) as CutResult;
    expect(content).toMatch(/^no [^]*\n!$/);
  });

  test("never cuts a character in two", () => {
    for (let limit = 190; limit < 230; limit++) {
      const { content } = cut("🎉".repeat(500), limit) as CutResult;
      expect(resultTextOf(content).isWellFormed()).toBe(true);
    }
  });

  test("keeps images beside the text of all parts", () => {
    const image = { type: "image_url", image_url: { url: "data:image/png;base64,AAAA" } };
    const { content } = cut(
      [{ type: "text", text: "x".repeat(900) }, image, { type: "text", text: "end" }],
      200,
    ) as CutResult;
    expect(content).toEqual([{ type: "text", text: expect.stringMatching(/x\nend$/) }, image]);
    expect(resultTextOf([image])).toBe("");
  });

  test("any text is within its limit, and is put together again from what is shown and what is kept", () => {
    const text = fc.oneof(
      fc.string({ unit: "grapheme", maxLength: 900 }),
      fc.string({ unit: "binary", maxLength: 900 }),
    );
    fc.assert(
      fc.property(text, fc.integer({ min: 100, max: 400 }), fc.integer({ min: 1, max: 500 }), (whole, max, length) => {
        const result = cut(whole, max);
        if (!result) {
          expect(counter.count(whole)).toBeLessThanOrEqual(max);
          return;
        }
        const { head, tail } = result.full;
        // The note alone may be longer than the limit.
        if (head + tail > 0) expect(counter.count(resultTextOf(result.content))).toBeLessThanOrEqual(max);
        const [, from, to, of] = /\[cut: characters (\d+) to (\d+) of (\d+) /.exec(resultTextOf(result.content)) ?? [];
        expect([from, to, of].map(Number)).toEqual([head, whole.length - tail, whole.length]);
        expect(readAll(result, length)).toBe(whole);
        if (whole.isWellFormed()) expect(resultTextOf(result.content).isWellFormed()).toBe(true);
      }),
      { numRuns: 1_000 },
    );
  });
});

describe("a range", () => {
  const result = cut("0123456789".repeat(100), 200) as CutResult;
  const read = (from: number, length: number): ResultRange => readRange(result, from, length);

  test.each([
    [0, 10, "0123456789", 0],
    [85, 10, "5678901234", 85],
    [960, 20, "01234567890123456789", 960],
    [995, 50, "56789", 995],
    [-5, 3, "012", 0],
    [5_000, 10, "", 1_000],
    [3, -1, "", 3],
  ])("from %i, %i characters", (from, length, text, at) => {
    expect(read(from, length)).toEqual({ text, from: at, to: at + text.length, chars: 1_000 });
  });

  test("begins and ends with whole characters", () => {
    const text = "a🎉b🎉";
    const part = (from: number, to: number): ResultRange =>
      wholeCharacters({ text: text.slice(from, to), from, to, chars: text.length });
    expect(part(0, 4)).toEqual({ text: "a🎉b", from: 0, to: 4, chars: 6 });
    expect(part(2, 5)).toEqual({ text: "b", from: 3, to: 4, chars: 6 });
    expect(part(0, 2)).toEqual({ text: "a", from: 0, to: 1, chars: 6 });
    expect(part(4, 6)).toEqual({ text: "🎉", from: 4, to: 6, chars: 6 });
  });

  test("says where it is and how to go on", () => {
    expect(rangeText(read(10, 5))).toBe('[characters 10 to 15 of 1000; to read on use "from": 15]\n01234');
    expect(rangeText(read(990, 50))).toBe("[characters 990 to 1000 of 1000; this is its end]\n0123456789");
    expect(rangeText(read(5_000, 1))).toContain("nothing from character 1000 on");
  });
});
