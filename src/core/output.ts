// What of a final answer is its structured output (features H17).

import type { Json } from "./message.ts";

/** The JSON value that an answer consists of: all of its text, or the one fenced block in it. */
export type FoundJson = { found: true; value: Json } | { found: false; problem: string };

const fence = /^[ \t]*(`{3,}|~{3,})[^\n]*\n([\s\S]*?)^[ \t]*\1[ \t]*$/gm;

/** Reads an answer's text (think blocks taken off) as JSON. Prose around a value makes it no value, but for one fence. */
export function findJson(text: string): FoundJson {
  const trimmed = text.trim();
  if (trimmed === "") return { found: false, problem: "the answer is empty" };
  const whole = parse(trimmed);
  if (whole !== undefined) return { found: true, value: whole };
  const blocks = [...trimmed.matchAll(fence)].map((match) => parse((match[2] as string).trim()));
  const values = blocks.filter((value) => value !== undefined);
  if (values.length === 1) return { found: true, value: values[0] as Json };
  const problem = values.length > 1 ? "the answer holds more than one JSON value" : "the answer is not JSON";
  return { found: false, problem };
}

function parse(text: string): Json | undefined {
  try {
    return JSON.parse(text) as Json;
  } catch {
    return undefined;
  }
}

/** A place where an answer does not fit the output. */
export type OutputIssue = { path: string; expected: string; received: string };

const shownIssues = 20;

/** What the model is told of an answer that does not fit. */
export function outputFeedback(problem: string | OutputIssue[], schema: Record<string, unknown>): string {
  const what =
    typeof problem === "string"
      ? `${problem}.`
      : `it does not fit the schema:\n${problem.slice(0, shownIssues).map(toLine).join("\n")}`;
  return `Your answer was not taken: ${what}\nAnswer again with one JSON value that fits this JSON Schema, and nothing else:\n${JSON.stringify(schema)}`;
}

function toLine({ path, expected, received }: OutputIssue): string {
  return `- ${path === "" ? "the answer" : path}: expected ${expected}, received ${received}`;
}

/** What is added to the instructions where the server does not enforce the schema. */
export function outputInstructions(schema: Record<string, unknown>): string {
  return `Your final answer must be one JSON value that fits this JSON Schema, and nothing else:\n${JSON.stringify(schema)}`;
}
