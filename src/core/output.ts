// What of a final answer is its structured output (features H17).

import type { Json } from "./message.ts";

/** The JSON value that an answer consists of: all of its text, or the one fenced block in it. */
export type FoundJson = { found: true; value: Json } | { found: false; problem: string };

const fence = /^[ \t]*(`{3,}|~{3,})/;

/** Reads an answer's text (think blocks taken off) as JSON. Prose around a value makes it no value, but for one fence. */
export function findJson(text: string): FoundJson {
  const trimmed = text.trim();
  if (trimmed === "") return { found: false, problem: "the answer is empty" };
  const whole = parse(trimmed);
  if (whole !== undefined) return { found: true, value: whole };
  const blocks = fencedBlocks(trimmed).map((block) => parse(block.trim()));
  const values = blocks.filter((value) => value !== undefined);
  if (values.length === 1) return { found: true, value: values[0] as Json };
  const problem = values.length > 1 ? "the answer holds more than one JSON value" : "the answer is not JSON";
  return { found: false, problem };
}

/** What stands between fences, found in one pass: a model may open fences without end. */
function fencedBlocks(text: string): string[] {
  const lines = text.split("\n");
  /** Lines that can close a fence, by its mark, the last one first. */
  const closing = new Map<string, number[]>();
  for (let at = lines.length - 1; at >= 0; at--) {
    const mark = (lines[at] as string).trim();
    if (fence.exec(mark)?.[1] !== mark) continue;
    const known = closing.get(mark);
    if (known) known.push(at);
    else closing.set(mark, [at]);
  }
  const blocks: string[] = [];
  for (let at = 0; at < lines.length; at++) {
    const ends = closing.get(fence.exec(lines[at] as string)?.[1] ?? "") ?? [];
    while (ends.length > 0 && (ends.at(-1) as number) <= at) ends.pop();
    const end = ends.at(-1);
    if (end === undefined) continue;
    blocks.push(lines.slice(at + 1, end).join("\n"));
    at = end;
  }
  return blocks;
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
