// What a model reads when a call of it did not work: five different messages, each saying what to do next.
// Pure. Pinned by test/tools/messages.test.ts.

import { wholeEnd } from "../core/text.ts";
import { isObject, type JsonSchema } from "./json-schema.ts";
import type { Issue } from "./parameters.ts";

const maxNames = 50;
const maxIssues = 20;
const maxReceived = 200;
const maxErrorText = 2_000;

/** Text with halves of surrogate pairs and NUL replaced: strict servers and stores refuse them. */
export function cleanText(text: string): string {
  return text.toWellFormed().replaceAll("\0", "\uFFFD");
}

/** Text cut to `max` characters, never inside one, with an ellipsis where something is missing. */
export function shorten(text: string, max: number): string {
  if (text.length <= max) return cleanText(text);
  return `${cleanText(text.slice(0, wholeEnd(text, max)))}…`;
}

/** The model called a tool that is not there. */
export function unknownToolMessage(name: string, available: readonly string[]): string {
  const start = `There is no tool named ${JSON.stringify(shorten(name, 128))}. Nothing was run.`;
  if (available.length === 0) return `${start} No tools are available: answer without one.`;
  const more = available.length > maxNames ? ` and ${available.length - maxNames} more` : "";
  const names = available.slice(0, maxNames).join(", ") + more;
  return `${start} Available tools: ${names}. Call one of them by its exact name, or answer without one.`;
}

/** The arguments are not JSON, or no object. */
export function badJsonMessage(tool: string, received: string, schema: JsonSchema): string {
  const shown = received.trim() === "" ? "nothing" : shorten(received, maxReceived);
  return (
    `The arguments of "${tool}" are not a JSON object. Nothing was run. Received: ${shown}\n` +
    `Expected one complete JSON object ${expectedKeys(schema)}. Send the call again with valid JSON.`
  );
}

function expectedKeys(schema: JsonSchema): string {
  const keys = isObject(schema.properties) ? Object.keys(schema.properties) : [];
  if (keys.length === 0) return "such as {}";
  const required = Array.isArray(schema.required) ? schema.required : [];
  return `with ${keys.map((key) => (required.includes(key) ? key : `${key} (optional)`)).join(", ")}`;
}

/** The arguments do not fit the schema. */
export function badArgumentsMessage(tool: string, issues: readonly Issue[]): string {
  const lines = issues.slice(0, maxIssues).map(({ path, expected, received }) => {
    const where = path === "" ? "the arguments as a whole" : shorten(path, maxReceived);
    return `- ${where}: expected ${shorten(expected, maxReceived)}, received ${shorten(received, maxReceived)}`;
  });
  if (issues.length > maxIssues) lines.push(`- and ${issues.length - maxIssues} more`);
  return `The arguments of "${tool}" do not fit. Nothing was run.\n${lines.join("\n")}\nSend the call again, corrected.`;
}

/** The tool threw. */
export function threwMessage(tool: string, reason: string): string {
  return (
    `"${tool}" failed: ${shorten(reason, maxErrorText)}\n` +
    "If the arguments are the cause, send the call again with others; if not, go on without it."
  );
}

/** Operators forbid the tool by policy. */
export function forbiddenMessage(tool: string): string {
  return (
    `The tool "${tool}" may not be used here: a rule of the operators forbids it. Nothing was run. ` +
    "Do not call it again; go on without it, or say in your answer what was not done."
  );
}

/** What would be run is not what a person approved: the tool has changed since. */
export function otherArgumentsMessage(tool: string): string {
  return (
    `"${tool}" was not run: its arguments are read otherwise now than when they were approved, since the tool was ` +
    "changed in the meantime. Nothing happened. Call it again if it is still wanted; a person will be asked anew."
  );
}

/** The tool took too long. */
export function timeoutMessage(tool: string, timeoutMs: number): string {
  return (
    `"${tool}" did not finish within ${toSeconds(timeoutMs)} and was stopped; it has no result. ` +
    "Ask it for less at a time, or go on without it."
  );
}

/** `60 s`, `0.25 s`. */
export function toSeconds(ms: number): string {
  return `${ms / 1_000} s`;
}

/** What of a thrown value a model may read: its message, with a system error's code, never its stack. Never throws. */
export function reasonOf(thrown: unknown): string {
  try {
    if (typeof thrown === "string") return shorten(thrown, maxErrorText);
    if (!(thrown instanceof Error)) return "it threw something that is no error";
    const code = codeOf(thrown) ?? codeOf(thrown.cause);
    const message = String(thrown.message) || thrown.name;
    return shorten(code && !message.includes(code) ? `${message} (${code})` : message, maxErrorText);
  } catch {
    return "it threw something that cannot be read";
  }
}

/** Codes such as ECONNREFUSED: `fetch failed` alone helps nobody. */
function codeOf(thrown: unknown): string | undefined {
  const code = thrown instanceof Error && "code" in thrown ? thrown.code : undefined;
  return typeof code === "string" && /^[A-Z][A-Z0-9_]{1,60}$/.test(code) ? code : undefined;
}
