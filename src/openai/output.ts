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
const strictFormats = new Set(["date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"]);
/** One of these says what a value is; a schema without any takes everything. */
const saying = ["type", "anyOf", "enum", "const", "$ref"];
const maps = ["properties", "$defs", "definitions"];

/** Whether a schema is closed, asks for each of its properties, and holds nothing else than the keywords above. */
function isStrict(schema: unknown, depth = 0): boolean {
  if (typeof schema !== "object" || schema === null || Array.isArray(schema) || depth > maxDepth) return false;
  const given = schema as Record<string, unknown>;
  if (!Object.keys(given).every((keyword) => strictKeywords.has(keyword))) return false;
  if (!saying.some((keyword) => Object.hasOwn(given, keyword))) return false;
  if (typesOf(given).includes("object") && !isClosed(given)) return false;
  const { pattern, format, items, anyOf } = given;
  // No looking around in patterns.
  if (typeof pattern === "string" && /\(\?<?[=!]/.test(pattern)) return false;
  if (format !== undefined && !strictFormats.has(String(format))) return false;
  const named = maps.flatMap((keyword) => Object.values((given[keyword] ?? {}) as object) as unknown[]);
  const all = [...named, ...(items === undefined ? [] : [items]), ...(Array.isArray(anyOf) ? anyOf : [])];
  return all.every((one) => isStrict(one, depth + 1));
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
