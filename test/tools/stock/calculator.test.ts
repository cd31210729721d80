import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { calculator } from "../../../src/tools/stock/calculator.ts";
import { callTool, textFrom } from "../request.ts";

const tool = calculator();

describe("calculator", () => {
  test.each([
    ["1 + 2 * 3", "7"],
    ["(1 + 2) * 3.5 ^ 2", "36.75"],
    ["0.1 + 0.2", "0.3"],
    ["2 ^ 10 % 1000", "24"],
    ["sqrt(2)", "1.4142135623731"],
    ["roundTo(PI, 4)", "3.1416"],
    ["max(3, 1 > 2 ? 9 : 4)", "4"],
    ["fac(5)", "120"],
    ["-0", "0"],
    ["1e21", "1e+21 (approximate: more digits than can be calculated exactly)"],
    ["1/3", "0.333333333333333"],
    [`${"-".repeat(998)}1`, "1"],
    [`${"1^".repeat(499)}1`, "1"],
    [`${"1?".repeat(249)}2${":3".repeat(249)}`, "2"],
  ])("%s", async (expression, expected) => {
    expect(await textFrom(tool, { expression })).toBe(expected);
  });

  test.each([
    ["nothing", "", "expression"],
    ["no expression", "two plus two", "cannot be calculated"],
    ["an open bracket", "(1 + 2", "cannot be calculated"],
    ["division by zero", "1/0", "infinite"],
    ["no number", "0/0", "not a number"],
    ["overflow", "9^9^9", "infinite"],
    ["text", '"a"', "not a number"],
    ["a comparison", "1 == 1", "not a number"],
    ["a list", "[1,2]", "not a number"],
    ["a variable", "x", "cannot be calculated"],
    ["too long an expression", "1+".repeat(600).concat("1"), "expression"],
    ["too deep an expression", `${"(".repeat(60)}1${")".repeat(60)}`, "nested"],
    ["assignment", "x = 5; x", "cannot be calculated"],
    ["a function of its own", "f(x) = f(x); f(1)", "cannot be calculated"],
    ["a member", "PI.constructor", "cannot be calculated"],
    ["an inherited name", "toString", "not a number"],
    ["the constructor", 'constructor("return process")()', ""],
    ["the prototype", "__proto__", ""],
    ["a scope function", "hasOwnProperty(1)", ""],
    ["randomness", "random()", "cannot be calculated"],
    ["work without end", "map(fac, [1,2,3])", "cannot be calculated"],
    ["text that grows", 'join("x", [1,2])', "cannot be calculated"],
  ])("refuses %s", async (_name, expression, part) => {
    const outcome = await callTool(tool, { expression });
    expect(outcome).toMatchObject({ type: "failed", code: "threw", message: expect.stringContaining(part) });
  });

  test("gives a finite number or says why not, whatever is asked", async () => {
    const piece = fc.constantFrom(
      "1",
      "2.5",
      "+",
      "-",
      "*",
      "/",
      "^",
      "(",
      ")",
      "!",
      "PI",
      "min",
      ",",
      "[",
      "]",
      "?",
      ":",
      " ",
      "e",
      "if",
    );
    const expression = fc.oneof(
      fc.string({ maxLength: 60 }),
      fc.array(piece, { maxLength: 40 }).map((list) => list.join("")),
    );
    await fc.assert(
      fc.asyncProperty(expression, async (text) => {
        const outcome = await callTool(tool, { expression: text });
        if (outcome.type === "ok") expect(Number.isFinite(Number.parseFloat(outcome.content as string))).toBe(true);
        else expect(outcome.type).toBe("failed");
      }),
      { numRuns: 1_000 },
    );
  });
});
