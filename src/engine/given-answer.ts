import { DroverError } from "../core/errors.ts";
import type { Content, ContentPart } from "../core/message.ts";
import { problemOfNesting } from "../core/nesting.ts";
import { isAttachment } from "../core/parts.ts";
import type { OpenCall } from "../core/run.ts";
import type { SchemaCheck } from "../ports.ts";

const mostShown = 20;

/**
 * An answer from outside as the content of a call's result: text and content parts as they are, any other JSON value as
 * its JSON. Where the call says what its answer must be, text may also be the JSON of a value that fits.
 *
 * @throws DroverError "invalid" naming every place that does not fit: path, expected, received.
 */
export function toAnswerContent(value: unknown, call: OpenCall | undefined, check: SchemaCheck): Content {
  const tooDeep = problemOfNesting(value);
  if (tooDeep) throw new DroverError("invalid", `The answer was not taken, and the question stays open: ${tooDeep}.`);
  const schema = call?.state === "answer" ? call.answerSchema : undefined;
  if (!schema) return isParts(value) ? value : toText(value);
  const text = toText(value);
  checkAnswer(schema, typeof value === "string" ? value : (JSON.parse(text) as unknown), check);
  return text;
}

function toText(value: unknown): string {
  return typeof value === "string" ? value : toJson(value);
}

function checkAnswer(schema: Record<string, unknown>, value: unknown, check: SchemaCheck): void {
  let issues = check(schema, value);
  const parsed = typeof value === "string" && issues.length > 0 ? parseJson(value) : undefined;
  if (parsed) issues = check(schema, parsed.value);
  if (issues.length === 0) return;
  const told = issues.slice(0, mostShown).map(({ path, expected, received }) => {
    return `${path === "" ? "the answer" : path}: expected ${expected}, received ${received}`;
  });
  throw new DroverError("invalid", `The answer was not taken, and the question stays open: ${told.join("; ")}.`);
}

function parseJson(text: string): { value: unknown } | undefined {
  try {
    return { value: JSON.parse(text) as unknown };
  } catch {
    return undefined;
  }
}

/** A list of nothing but texts and attachments; any other list is data. */
function isParts(value: unknown): value is ContentPart[] {
  return Array.isArray(value) && value.length > 0 && value.every(isPart);
}

function isPart(value: unknown): boolean {
  if (typeof value !== "object" || value === null || !("type" in value) || typeof value.type !== "string") return false;
  const part = value as ContentPart;
  return isAttachment(part) || (part.type === "text" && typeof part.text === "string");
}

function toJson(value: unknown): string {
  // JSON would make null of it.
  if (typeof value === "number" && !Number.isFinite(value)) throw noValue(String(value));
  const text = tryJson(value);
  if (text === undefined) throw noValue(value === undefined ? "nothing" : `something of the type ${typeof value}`);
  return text;
}

function tryJson(value: unknown): string | undefined {
  try {
    return JSON.stringify(value);
  } catch {
    return undefined;
  }
}

function noValue(received: string): DroverError {
  return new DroverError("invalid", `The answer was not taken: expected text or a JSON value, received ${received}.`);
}
