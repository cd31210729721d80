import { deepestNesting } from "./nesting.ts";
import { parseRelaxed } from "./reply-relaxed.ts";

/** A call as it was written into the text. */
export type WrittenCall = { name: string; arguments: string };

/** A closed block of calls: what it holds, and where the text goes on. */
export type Block = { calls: WrittenCall[]; end: number };

/**
 * One way in which models write calls. `open` finds where a block may begin; `read` reads the block that begins at a
 * position, if it is closed.
 */
export type Form = { open: RegExp; read: (text: string, at: number) => Block | undefined };

/** Names that models and frameworks give to the two halves of a call. */
const nameFields = ["name", "tool_name", "function_name", "recipient_name", "tool", "action", "function"];
const argumentFields = ["arguments", "parameters", "args", "input", "tool_input", "action_input", "params"];
const otherFields = ["type", "id", "tool_call_id", "index"];
const callFields = new Set([...nameFields, ...argumentFields, ...otherFields]);
/** Fields that hold nothing but a call, or a list of them. */
const wrappers = ["tool_calls", "tool_call", "function_call", "tool_uses", "function"];

/**
 * JSON calls, one after the other or in lists; undefined if the text is anything else.
 *
 * @param bare without a marker around it a call must name its arguments: an object with a name is not yet a call.
 */
export function readJsonCalls(text: string, { bare = false }: { bare?: boolean } = {}): WrittenCall[] | undefined {
  const calls: WrittenCall[] = [];
  let rest = withoutFence(text.trim());
  while (rest !== "") {
    const json = jsonPrefix(rest);
    const parsed = json === "" ? undefined : parse(json);
    const found = parsed?.ok ? toCalls(parsed.value, bare) : undefined;
    if (!found) return undefined;
    calls.push(...found);
    rest = rest.slice(json.length).replace(/^[\s;,]+/, "");
  }
  return calls.length > 0 ? calls : undefined;
}

/** The inside of a fence that is all there is. */
export function withoutFence(text: string): string {
  const head = /^```[\w-]*\s*/.exec(text)?.[0];
  return head !== undefined && text.length > head.length + 3 && text.endsWith("```")
    ? text.slice(head.length, -3).trim()
    : text;
}

function parse(json: string): ReturnType<typeof parseRelaxed> {
  try {
    return { ok: true, value: JSON.parse(json) as unknown };
  } catch {
    return parseRelaxed(json);
  }
}

function toCalls(value: unknown, bare: boolean): WrittenCall[] | undefined {
  if (Array.isArray(value)) {
    const calls = value.map((item) => toCall(item, bare));
    return calls.length > 0 && calls.every((call) => call !== undefined) ? calls : undefined;
  }
  const fields = isRecord(value) ? Object.keys(value) : [];
  const [only = ""] = fields;
  if (fields.length === 1 && wrappers.includes(only)) return toCalls((value as Record<string, unknown>)[only], bare);
  const call = toCall(value, bare);
  return call && [call];
}

function toCall(value: unknown, bare: boolean): WrittenCall | undefined {
  if (!isRecord(value) || !Object.keys(value).every((field) => callFields.has(field))) return undefined;
  if (isRecord(value.function)) return toCall(value.function, bare);
  const names = nameFields.filter((field) => value[field] !== undefined);
  const given = argumentFields.filter((field) => value[field] !== undefined);
  const name = value[names[0] ?? ""];
  // Two fields of a kind have two readings.
  if (typeof name !== "string" || names.length > 1 || given.length > 1) return undefined;
  const args = given[0] === undefined ? (bare ? undefined : {}) : value[given[0]];
  if (args === undefined) return undefined;
  return { name, arguments: typeof args === "string" ? args : JSON.stringify(args) };
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** Nesting that no call has, and that reading it would have to follow. */

/**
 * The JSON object or list that a text begins with, by its brackets; empty if there is none, it is not closed or it is
 * nested without sense.
 */
export function jsonPrefix(text: string): string {
  if (!/^[[{]/.test(text)) return "";
  let depth = 0;
  for (const { 0: token, index } of text.matchAll(/"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|[[\]{}]/gs)) {
    if (token === "{" || token === "[") depth += 1;
    if (token === "}" || token === "]") depth -= 1;
    if (depth === 0) return text.slice(0, index + 1);
    if (depth > deepestNesting) return "";
  }
  return "";
}
