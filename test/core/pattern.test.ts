import { expect, test } from "vitest";
import { toPattern } from "../../src/core/pattern.ts";

test("the signs that a pattern has a meaning for stand for themselves, and all else stays", () => {
  expect(toPattern("{drover}:q")).toBe("{drover}:q");
  expect(toPattern("a*b?c[d]e\\f")).toBe("a\\*b\\?c\\[d\\]e\\\\f");
});
