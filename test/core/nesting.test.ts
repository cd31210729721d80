import { describe, expect, test } from "vitest";
import { parseStart } from "../../src/bullmq/start-contract.ts";
import { problemsOfCommand } from "../../src/core/command.ts";
import { deepestNesting, isTextWithin, problemOfNesting } from "../../src/core/nesting.ts";

describe("a JSON text", () => {
  test.each([
    ["[[[]]]", 3, true],
    ["[[[]]]", 2, false],
    ['{"a":{"b":[1,{"c":2}]}}', 4, true],
    ['{"a":{"b":[1,{"c":2}]}}', 3, false],
    [JSON.stringify(["[[[[{{{{", '"[[[[', "\\[[[["]), 1, true],
    [`${"[],".repeat(1_000)}`, 1, true],
    ["[".repeat(50_000), 100, false],
    ["", 0, true],
    ["]]]][", 0, true],
  ])("%j within %i: %s", (json, max, expected) => {
    expect(isTextWithin(json, max)).toBe(expected);
  });

  test("may be as deep as values may", () => {
    const deep = (levels: number): string => "[".repeat(levels) + "]".repeat(levels);
    expect(isTextWithin(deep(deepestNesting))).toBe(true);
    expect(isTextWithin(deep(deepestNesting + 1))).toBe(false);
  });
});

describe("a value", () => {
  const nested = (levels: number): unknown => {
    let value: unknown = "x";
    for (let level = 0; level < levels; level += 1) value = level % 2 === 0 ? [value] : { value };
    return value;
  };

  test.each([
    [0, 0, true],
    [3, 3, true],
    [4, 3, false],
  ])("%i levels within %i: %s", (levels, max, fits) => {
    expect(problemOfNesting(nested(levels), max) === undefined).toBe(fits);
  });

  test("is refused wherever it would be stored, however deep it is", () => {
    const metadata = { deep: nested(500_000) };
    expect(parseStart({ id: "run-a", name: "start", data: { agent: "a", input: "x", metadata } })).toMatchObject({
      rejected: { runId: "run-a", agent: "a", reason: expect.stringContaining("at most 200 deep in each other") },
    });
    const limits = metadata as never;
    const refused = problemsOfCommand({ type: "retry_requested", by: "a", limits });
    expect(refused).toEqual([expect.stringContaining("at most 200 deep in each other")]);
  });
});
