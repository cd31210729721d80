import type { OutputSpec } from "../core/agent.ts";

/** Structured output as the request field that servers enforce it by; `strict` only where the schema is what that asks for. */
export function toResponseFormat(
  { name, schema }: OutputSpec,
  { mayBeStrict = true }: { mayBeStrict?: boolean } = {},
): Record<string, unknown> {
  const strict = mayBeStrict && !Object.hasOwn(schema, "anyOf") && isStrict(schema);
  return { type: "json_schema", json_schema: { name, schema, ...(strict ? { strict: true } : {}) } };
}

/** All that OpenAI takes in a strict schema (platform.openai.com/docs/guides/structured-outputs, "Supported schemas"). */
const strictKeywords = new Set([
  ...["type", "properties", "required", "additionalProperties", "items", "anyOf", "enum", "const"],
  ...["$ref", "$defs", "definitions", "title", "description", "pattern", "format", "multipleOf"],
  ...["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "minItems", "maxItems"],
]);
const strictFormats: ReadonlySet<unknown> = new Set([
  "date-time",
  "time",
  "date",
  "duration",
  "email",
  "hostname",
  "ipv4",
  "ipv6",
  "uuid",
]);
/** One of these says what a value is; a schema without any takes everything. */
const saying = ["type", "anyOf", "enum", "const", "$ref"];
const maps = ["properties", "$defs", "definitions"];

/** Whether a schema is closed, asks for each of its properties, and holds nothing else than the keywords above. */
function isStrict(schema: unknown, depth = 0): boolean {
  if (typeof schema !== "object" || schema === null || Array.isArray(schema) || depth > maxDepth) return false;
  const given = schema as Record<string, unknown>;
  const isKnown = Object.keys(given).every((keyword) => strictKeywords.has(keyword));
  if (!isKnown || !saying.some((keyword) => Object.hasOwn(given, keyword))) return false;
  if (typesOf(given).includes("object") && !isClosed(given)) return false;
  return isPlainText(given) && innerOf(given).every((one) => isStrict(one, depth + 1));
}

/** Whether its format is known there, and its pattern does not look around. */
function isPlainText({ pattern, format }: Record<string, unknown>): boolean {
  const looksAround = typeof pattern === "string" && /\(\?<?[=!]/.test(pattern);
  return !looksAround && (format === undefined || strictFormats.has(format));
}

function innerOf(schema: Record<string, unknown>): unknown[] {
  const { items, anyOf } = schema;
  const named = maps.flatMap((keyword) => Object.values((schema[keyword] ?? {}) as object) as unknown[]);
  return [...named, ...(items === undefined ? [] : [items]), ...(Array.isArray(anyOf) ? (anyOf as unknown[]) : [])];
}

function typesOf({ type }: Record<string, unknown>): unknown[] {
  return Array.isArray(type) ? type : [type];
}

function isClosed({ properties, additionalProperties, required }: Record<string, unknown>): boolean {
  const asked = Array.isArray(required) ? required : [];
  const names = Object.keys((properties ?? {}) as object);
  return additionalProperties === false && names.every((name) => asked.includes(name));
}

const maxDepth = 10;
