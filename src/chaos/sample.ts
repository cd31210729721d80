import { isObject, type JsonSchema, resolveSchema } from "../tools/json-schema.ts";
import type { ToolParameters } from "../tools/parameters.ts";
import type { Random } from "./random.ts";
import { samplePattern } from "./sample-pattern.ts";

const tries = 60;
const deepest = 5;

/**
 * A value that fits, made up from its schema. What a schema cannot say (a zod refinement, say) is found by trying.
 *
 * @param examples tried when nothing that was made up fits.
 * @returns undefined if none was found.
 */
export function sampleFor(
  parameters: ToolParameters,
  random: Random,
  examples: readonly unknown[] = [],
): { value: unknown } | undefined {
  for (let count = 0; count < tries; count += 1) {
    const value = sample(parameters.schema, parameters.schema, { random, depth: 0 });
    if (parameters.parse(value).ok) return { value };
  }
  const known = examples.find((value) => parameters.parse(value).ok);
  return known === undefined ? undefined : { value: known };
}

/** The JSON objects in a description, such as the example that each should have. */
export function examplesIn(description: string): unknown[] {
  const found: unknown[] = [];
  for (let from = description.indexOf("{"); from >= 0; from = description.indexOf("{", from + 1)) {
    for (let to = description.lastIndexOf("}"); to > from; to = description.lastIndexOf("}", to - 1)) {
      try {
        found.push(JSON.parse(description.slice(from, to + 1)));
        break;
      } catch {
        // It does not end here.
      }
    }
  }
  return found;
}

type Place = { random: Random; depth: number };

function sample(root: JsonSchema, given: unknown, place: Place): unknown {
  const schema = isObject(given) ? (resolveSchema(root, given) as JsonSchema | undefined) : undefined;
  if (!isObject(schema)) return "text";
  const { random } = place;
  if ("const" in schema) return schema.const;
  if (listOf(schema.enum).length > 0) return random.pick(listOf(schema.enum));
  const examples = listOf(schema.examples);
  if (examples.length > 0 && random.chance(0.5)) return random.pick(examples);
  const branches = listOf(schema.anyOf ?? schema.oneOf);
  if (branches.length > 0) return sample(root, random.pick(branches), place);
  if (Array.isArray(schema.allOf)) return sampleAll(root, schema.allOf as unknown[], schema, place);
  return sampleType(root, schema, place);
}

function listOf(value: unknown): unknown[] {
  return Array.isArray(value) ? value : [];
}

function sampleAll(root: JsonSchema, parts: unknown[], schema: JsonSchema, place: Place): unknown {
  const { allOf: _parts, ...own } = schema;
  const values = [...parts, own].map((part) => sample(root, part, place));
  const objects = values.filter(isObject);
  return objects.length > 0 ? Object.assign({}, ...objects) : values[0];
}

function sampleType(root: JsonSchema, schema: JsonSchema, place: Place): unknown {
  const { random } = place;
  const type: unknown = Array.isArray(schema.type) ? random.pick(schema.type as unknown[]) : schema.type;
  switch (type) {
    case "string":
      return sampleText(schema, random);
    case "integer":
      return Math.round(sampleNumber(schema, random));
    case "number":
      return sampleNumber(schema, random);
    case "boolean":
      return random.chance(0.5);
    case "null":
      return null;
    case "array":
      return sampleList(root, schema, place);
    case "object":
      return sampleObject(root, schema, place);
    default:
      return isObject(schema.properties) ? sampleObject(root, schema, place) : sampleText({}, random);
  }
}

function numberOf(value: unknown): number | undefined {
  return typeof value === "number" ? value : undefined;
}

function sampleNumber(schema: JsonSchema, random: Random): number {
  const step = numberOf(schema.multipleOf) ?? 1;
  const above = numberOf(schema.exclusiveMinimum);
  const below = numberOf(schema.exclusiveMaximum);
  const low = numberOf(schema.minimum) ?? (above === undefined ? undefined : above + step);
  const high = numberOf(schema.maximum) ?? (below === undefined ? undefined : below - step);
  const from = low ?? Math.min(0, (high ?? 0) - 100);
  const to = Math.max(from, Math.min(high ?? from + 1_000, from + 1_000));
  return Math.min(to, Math.ceil(random.between(Math.ceil(from), Math.floor(to)) / step) * step);
}

const words = ["alder", "birch", "cedar", "elm", "fir", "hazel", "larch", "maple", "oak", "pine", "rowan", "willow"];

function sampleText(schema: JsonSchema, random: Random): string {
  const { format, pattern } = schema;
  if (typeof pattern === "string") {
    const text = samplePattern(pattern, random);
    if (text !== undefined) return text;
  }
  const formatted = typeof format === "string" ? sampleFormat(format, random) : undefined;
  if (formatted !== undefined) return formatted;
  const least = numberOf(schema.minLength) ?? 1;
  const most = numberOf(schema.maxLength) ?? Math.max(least, 40);
  let text = `${random.pick(words)} ${random.between(1, 9_999)}`;
  while (text.length < least) text += ` ${random.pick(words)}`;
  return text.slice(0, Math.max(0, most));
}

function sampleFormat(format: string, random: Random): string | undefined {
  const day = new Date(Date.UTC(2026, random.between(0, 11), random.between(1, 28), random.between(0, 23)));
  const digits = (count: number): string => Array.from({ length: count }, () => random.between(0, 9)).join("");
  switch (format) {
    case "date-time":
      return day.toISOString();
    case "date":
      return day.toISOString().slice(0, 10);
    case "time":
      return day.toISOString().slice(11);
    case "email":
      return `${random.pick(words)}${digits(3)}@example.com`;
    case "uri":
    case "url":
      return `https://example.com/${random.pick(words)}/${digits(3)}`;
    case "uuid":
      return `00000000-0000-4000-8000-${digits(12)}`;
    case "ipv4":
      return `192.0.2.${random.between(1, 254)}`;
    case "hostname":
      return `${random.pick(words)}.example.com`;
    default:
      return undefined;
  }
}

function sampleList(root: JsonSchema, schema: JsonSchema, { random, depth }: Place): unknown[] {
  const fixed = Array.isArray(schema.prefixItems) ? (schema.prefixItems as unknown[]) : undefined;
  if (fixed) return fixed.map((item) => sample(root, item, { random, depth: depth + 1 }));
  const least = numberOf(schema.minItems) ?? 0;
  const most = numberOf(schema.maxItems) ?? Math.max(least, depth < deepest ? 2 : 0);
  const length = random.between(least, Math.max(least, Math.min(most, least + 2)));
  return Array.from({ length }, () => sample(root, schema.items, { random, depth: depth + 1 }));
}

/** What is required, and some of what is not. */
function sampleObject(root: JsonSchema, schema: JsonSchema, { random, depth }: Place): Record<string, unknown> {
  const required = new Set(Array.isArray(schema.required) ? (schema.required as unknown[]) : []);
  const properties = isObject(schema.properties) ? schema.properties : {};
  const value: Record<string, unknown> = {};
  for (const [name, inner] of Object.entries(properties)) {
    if (!required.has(name) && (depth >= deepest || random.chance(0.5))) continue;
    value[name] = sample(root, inner, { random, depth: depth + 1 });
  }
  return value;
}
