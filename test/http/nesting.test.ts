import { expect, test } from "vitest";
import { isWithin } from "../../src/http/nesting.ts";

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
  expect(isWithin(json, max)).toBe(expected);
});
