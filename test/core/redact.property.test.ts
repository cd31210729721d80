import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { createRedactor, noRedaction, type Redactor } from "../../src/core/redact.ts";
import { parsePatterns } from "../../src/redaction/patterns.ts";
import { plainTexts, secretTexts } from "../support/secrets.ts";

const parsed = parsePatterns([
  { name: "customer", pattern: /\bCUST-\d+\b/i },
  { name: "word", pattern: "zebra (fish|crossing)" },
]);
const own = createRedactor({
  known: [
    { kind: "own", value: "tango-42-foxtrot" },
    { kind: "own", value: "tango-42" },
  ],
  patterns: parsed.ok ? parsed.patterns : [],
});

const pieces = [
  ...secretTexts.map(([, , text]) => text),
  ...plainTexts,
  ...['"', "\\", '\\"', " ", "\n", "  ", "\t", "中文", "😀", "=", ": ", ",", ".", "--", "{", "}", "[redacted: x]"],
  ...[
    "password",
    "token",
    "Bearer ",
    "eyJ",
    "://",
    "@",
    "sk-",
    "api key",
    "cookie",
    "a=b; ",
    "-----BEGIN ",
    "A".repeat(30),
  ],
  ...["cust-17", "CUST-", "zebra", " fish", "tango-", "42", "-foxtrot", "x".repeat(300), " is ", "authorization"],
];
const text = fc
  .array(fc.oneof(fc.constantFrom(...pieces), fc.string({ maxLength: 8 })), { maxLength: 12 })
  .map((all) => all.join(""));

function inPieces(redactor: Redactor, given: string, cuts: readonly number[]): string[] {
  const stream = redactor.stream();
  const places = [...new Set(cuts.map((cut) => cut % (given.length + 1)))].sort((a, b) => a - b);
  const out = [0, ...places].map((from, index) => stream.push(given.slice(from, [...places, given.length][index])));
  return [...out, stream.end()];
}

describe.each([
  ["what Drover knows", createRedactor()],
  ["with patterns and values of its own", own],
])("%s", (_title, redactor) => {
  test("text in pieces gives what the whole gives, however it is cut", () => {
    fc.assert(
      fc.property(text, fc.array(fc.nat(), { maxLength: 30 }), (given, cuts) => {
        expect(inPieces(redactor, given, cuts).join("")).toBe(redactor.text(given));
      }),
      { numRuns: 1_500 },
    );
  });

  test("also one character at a time", () => {
    for (const [, secret, given] of secretTexts) {
      const out = inPieces(
        redactor,
        given,
        Array.from({ length: given.length }, (_, at) => at),
      ).join("");
      expect(out).toBe(redactor.text(given));
      expect(out).not.toContain(secret);
    }
  });

  test("what is redacted stays as it is", () => {
    fc.assert(
      fc.property(text, (given) => {
        const once = createRedactor().text(given);
        expect(createRedactor().text(once)).toBe(once);
      }),
      { numRuns: 500 },
    );
  });
});

test("live text is held back by a few words alone", () => {
  const stream = createRedactor().stream();
  const words = "these are plain words of an answer that nobody needs to wait for";
  expect(stream.push(words)).toBe("these are plain words of an answer that");
  expect(stream.push(" 中文也不等")).toContain("nobody");
  expect(noRedaction.stream().push("a") + noRedaction.stream().end()).toBe("a");
});
