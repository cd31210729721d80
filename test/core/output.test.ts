// Catches: prose taken for a value, a value missed in its fence, and feedback that does not say what is wrong.
import { describe, expect, test } from "vitest";
import { findJson, outputFeedback, outputInstructions } from "../../src/core/output.ts";

describe("findJson", () => {
  test.each([
    ['{"a":1}', { a: 1 }],
    ["  [1, 2]\n", [1, 2]],
    ['Here it is:\n```json\n{"a":1}\n```\nDone.', { a: 1 }],
    ['~~~\n{"a":"```"}\n~~~', { a: "```" }],
    ['Here:\r\n```json\r\n{"a":1}\r\n```\r\n', { a: 1 }],
    ['````\n```\n{"a":1}\n```\n', { a: 1 }],
    ['```js\nlet x\n```\n```json\n{"a":1}\n```', { a: 1 }],
    ["null", null],
  ])("reads %j", (text, value) => expect(findJson(text)).toEqual({ found: true, value }));

  test.each([
    ["", "empty"],
    ["The answer is {}.", "not JSON"],
    ['{"a":1', "not JSON"],
    ["```\n1\n```\nor\n```\n2\n```", "more than one"],
  ])("finds no value in %j", (text, problem) => {
    expect(findJson(text)).toMatchObject({ found: false, problem: expect.stringContaining(problem) });
  });
});

test("fences without end take no time", () => {
  const startedAt = performance.now();
  expect(findJson("```a\n".repeat(200_000)).found).toBe(false);
  expect(findJson(`x\n${"`".repeat(1_000_000)}`).found).toBe(false);
  expect(performance.now() - startedAt).toBeLessThan(2_000);
});

test("feedback names path, expected and received", () => {
  expect(outputFeedback("the answer is not JSON", {})).toContain("the answer is not JSON.");
  const issues = [
    { path: "age", expected: "a number", received: '"old"' },
    { path: "", expected: "an object", received: "a list" },
  ];
  expect(outputFeedback(issues, {})).toMatch(
    /- age: expected a number, received "old"\n- the answer: expected an object/,
  );
});

test("instructions hold the schema", () => {
  expect(outputInstructions({ type: "object" })).toContain('{"type":"object"}');
});
