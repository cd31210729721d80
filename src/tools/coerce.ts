// Turns arguments towards their schema where a model spelled a value as text. Exact spellings only: what is not
// certainly meant stays as it is, and validation says what is wrong with it.

import { branchesOf, isObject, isOfType, type JsonSchema, resolveSchema, typesOf } from "./json-schema.ts";

const maxDepth = 64;

/**
 * The value with text replaced by what it spells, where `schema` wants that and no text: "3" by 3, "true" by true,
 * "null" by null, JSON text by the object or array it holds. Never the other way, and never on a guess: "abc", "007",
 * "True" and " 3" stay text, as do digits that a number cannot hold exactly. The input is not changed.
 */
export function coerce(schema: JsonSchema, value: unknown): unknown {
  return walk(schema, schema, value, 0);
}

function walk(root: JsonSchema, schema: unknown, value: unknown, depth: number): unknown {
  const wanted = resolveSchema(root, schema);
  if (!wanted || depth > maxDepth) return value;
  const types = typesOf(root, wanted);
  const fitting = types.length > 0 && !isOfType(value, types) ? spell(types, value) : value;
  if (!isObject(fitting) && !Array.isArray(fitting)) return fitting;
  const inner = shapeFor(root, wanted, fitting);
  return inner ? walkInto(root, inner, fitting, depth) : fitting;
}

/** The schema that describes the inside of an object or array; of a union only if one branch alone can be meant. */
function shapeFor(root: JsonSchema, schema: JsonSchema, value: unknown): JsonSchema | undefined {
  const branches = branchesOf(root, schema);
  if (branches.length === 0) return schema;
  const possible = branches.filter((branch) => isOfType(value, typesOf(root, branch)));
  return possible.length === 1 ? possible[0] : undefined;
}

function walkInto(root: JsonSchema, schema: JsonSchema, value: object, depth: number): unknown {
  if (Array.isArray(value)) {
    const tuple = Array.isArray(schema.prefixItems) ? schema.prefixItems : schema.items;
    return value.map((item, index) => walk(root, Array.isArray(tuple) ? tuple[index] : schema.items, item, depth + 1));
  }
  const properties = isObject(schema.properties) ? schema.properties : {};
  // Entries, not assignment: a key named __proto__ must stay a key.
  return Object.fromEntries(
    Object.entries(value).map(([key, item]) => {
      const inner = Object.hasOwn(properties, key) ? properties[key] : schema.additionalProperties;
      return [key, walk(root, inner, item, depth + 1)];
    }),
  );
}

/** What a text spells among the wanted types; the text itself if it spells none of them. */
function spell(types: readonly string[], value: unknown): unknown {
  if (typeof value !== "string") return value;
  const spelled = types.includes("null") && value === "null" ? null : (spellScalar(types, value) ?? parseJson(value));
  return spelled !== undefined && isOfType(spelled, types) ? spelled : value;
}

function spellScalar(types: readonly string[], text: string): boolean | number | undefined {
  if (types.includes("boolean") && (text === "true" || text === "false")) return text === "true";
  return types.includes("number") || types.includes("integer") ? toExactNumber(text) : undefined;
}

const numberPattern = /^-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?$/;

/** A double keeps this many significant digits of any decimal. */
const exactDigits = 15;

function toExactNumber(text: string): number | undefined {
  if (text.length > 40 || !numberPattern.test(text)) return undefined;
  const number = Number(text);
  if (!Number.isFinite(number)) return undefined;
  if (/^-?\d+$/.test(text)) return Number.isSafeInteger(number) ? number : undefined;
  const digits = text
    .replace(/[eE].*$/, "")
    .replace(/\D/g, "")
    .replace(/^0+/, "");
  if (digits.length > exactDigits || (number === 0 && digits !== "")) return undefined;
  return number;
}

/** The object or array that a text holds. */
function parseJson(text: string): unknown {
  const first = text.trimStart()[0];
  if (first !== "{" && first !== "[") return undefined;
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return undefined;
  }
}
