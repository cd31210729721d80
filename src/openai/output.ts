import type { OutputSpec } from "../core/agent.ts";

/** Structured output as the request field that servers enforce it by; `strict` only where the schema is what that asks for. */
export function toResponseFormat({ name, schema }: OutputSpec): Record<string, unknown> {
  return { type: "json_schema", json_schema: { name, schema, ...(isStrict(schema) ? { strict: true } : {}) } };
}

const combinations = ["anyOf", "allOf", "oneOf", "prefixItems"];
const maps = ["properties", "$defs", "definitions"];

/**
 * Whether OpenAI takes a schema as strict: every object closed, and each of its properties required
 * (platform.openai.com/docs/guides/structured-outputs, "Supported schemas").
 */
function isStrict(schema: unknown, depth = 0): boolean {
  if (typeof schema !== "object" || schema === null || depth > maxDepth) return false;
  const { type, properties, additionalProperties, required, items } = schema as Record<string, unknown>;
  if (type === "object") {
    const names = Object.keys((properties ?? {}) as object);
    const all = Array.isArray(required) ? required : [];
    if (additionalProperties !== false || names.some((name) => !all.includes(name))) return false;
  }
  const inner = schema as Record<string, unknown>;
  const listed = combinations.flatMap((keyword) =>
    Array.isArray(inner[keyword]) ? (inner[keyword] as unknown[]) : [],
  );
  const named = maps.flatMap((keyword) => Object.values((inner[keyword] ?? {}) as object) as unknown[]);
  const all = [...listed, ...named, ...(items === undefined ? [] : [items])];
  return all.every((one) => isStrict(one, depth + 1));
}

const maxDepth = 32;
