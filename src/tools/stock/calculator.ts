import { Parser } from "expr-eval-fork";
import { z } from "zod";
import { PermanentError } from "../../core/errors.ts";
import { defineTool, type Tool } from "../define-tool.ts";
import { reasonOf } from "../messages.ts";

const maxLength = 1_000;
const maxNesting = 50;

const description = `Calculates one arithmetic expression and returns the number.
expression: numbers, + - * / % ^, parentheses, comparisons in "a > b ? x : y", the constants PI and E, and functions such
as sqrt(x), abs(x), round(x), roundTo(x, digits), min(a, b), max(a, b), log10(x), ln(x), sin(x) (radians), fac(n).
Format: plain text of at most ${maxLength} characters, decimal point, no units and no thousands separators.
Example: {"expression":"(1 + 2) * 3.5 ^ 2"}`;

/** A calculator for a model: a real expression library without assignment, functions of its own or randomness. */
export function calculator(): Tool {
  const parser = makeParser();
  return defineTool({
    name: "calculator",
    description,
    parameters: z.object({
      expression: z.string().min(1).max(maxLength).describe('The expression, e.g. "17 * (2 + 3)"'),
    }),
    effect: "read",
    timeoutMs: 5_000,
    execute: ({ expression }) => calculate(parser, expression),
  });
}

function makeParser(): Parser {
  const parser = new Parser({
    allowMemberAccess: false,
    operators: { assignment: false, fndef: false, concatenate: false, in: false, random: false, length: false },
  });
  // Those that repeat work, make text or give another answer each time have no place in a calculator.
  for (const name of ["random", "map", "fold", "filter", "join", "indexOf"]) {
    delete (parser.functions as Record<string, unknown>)[name];
  }
  return parser;
}

function calculate(parser: Parser, expression: string): string {
  if (nestingOf(expression) > maxNesting) {
    throw new PermanentError(`the expression is nested more than ${maxNesting} deep; calculate it in parts`);
  }
  const value = evaluate(parser, expression);
  if (typeof value !== "number" || Number.isNaN(value)) {
    throw new PermanentError("the result is not a number; give an expression whose value is a number");
  }
  if (!Number.isFinite(value)) throw new PermanentError("the result is infinite or too large for this calculator");
  return format(value);
}

function evaluate(parser: Parser, expression: string): unknown {
  try {
    return parser.parse(expression).evaluate() as unknown;
  } catch (error) {
    throw new PermanentError(`the expression cannot be calculated: ${reasonOf(error)}`);
  }
}

function nestingOf(expression: string): number {
  let depth = 0;
  let deepest = 0;
  for (const character of expression) {
    if (character === "(" || character === "[") depth++;
    else if (character === ")" || character === "]") depth--;
    deepest = Math.max(deepest, depth);
  }
  return deepest;
}

/** Whole numbers as they are; of others the digits that a double can vouch for, so that 0.1 + 0.2 is 0.3. */
function format(value: number): string {
  if (Number.isSafeInteger(value)) return String(value === 0 ? 0 : value);
  if (Number.isInteger(value)) return `${value} (approximate: more digits than can be calculated exactly)`;
  return String(Number(value.toPrecision(15)));
}
