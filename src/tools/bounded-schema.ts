// Schemas of strangers, brought down to what can be checked in little time whatever the value.

import { isObject, type JsonSchema } from "./json-schema.ts";

/** Keywords that may take for ever: regular expressions of a stranger, and comparisons of all with all. */
const slow = ["pattern", "patternProperties", "format", "uniqueItems"];
/** Names for references, of which there are none. */
const names = ["$schema", "$id", "id", "$anchor", "$dynamicAnchor", "$recursiveAnchor"];
const dropped = new Set([...slow, ...names]);
const references = new Set(["$ref", "$dynamicRef", "$recursiveRef"]);

type Test = (value: unknown) => boolean;
const types = new Set<unknown>(["string", "number", "integer", "boolean", "object", "array", "null"]);
const isSchema: Test = (value) => typeof value === "boolean" || isObject(value);
const isSchemas: Test = (value) => Array.isArray(value) && value.length > 0 && value.every(isSchema);
const isNames: Test = (value) => Array.isArray(value) && value.every((name) => typeof name === "string");
const isNumber: Test = (value) => typeof value === "number";
const isCount: Test = (value) => Number.isInteger(value) && (value as number) >= 0;

/** What the values of keywords must be. A keyword that makes no sense asks for nothing: no call could satisfy it. */
const sensible = new Map<string, Test>([
  ["type", (value) => types.has(value) || (isSchemaTypes(value) && value.length > 0)],
  ["enum", Array.isArray],
  ["required", isNames],
  ["dependentRequired", (value) => isObject(value) && Object.values(value).every(isNames)],
  ["dependencies", isObject],
  ["multipleOf", (value) => isNumber(value) && (value as number) > 0],
  ["exclusiveMinimum", (value) => isNumber(value) || typeof value === "boolean"],
  ["exclusiveMaximum", (value) => isNumber(value) || typeof value === "boolean"],
  ["items", (value) => isSchema(value) || (Array.isArray(value) && value.every(isSchema))],
  ...["minimum", "maximum"].map((name): [string, Test] => [name, isNumber]),
  ...["Length", "Items", "Properties", "Contains"].flatMap((what): [string, Test][] => [
    [`min${what}`, isCount],
    [`max${what}`, isCount],
  ]),
  ...["properties", "dependentSchemas", "$defs", "definitions"].map((name): [string, Test] => [name, isObject]),
  ...["allOf", "anyOf", "oneOf", "prefixItems"].map((name): [string, Test] => [name, isSchemas]),
  ...["not", "if", "then", "else", "contains", "propertyNames"].map((name): [string, Test] => [name, isSchema]),
  ...["additionalProperties", "unevaluatedProperties", "additionalItems", "unevaluatedItems"].map(
    (name): [string, Test] => [name, isSchema],
  ),
]);

function isSchemaTypes(value: unknown): value is unknown[] {
  return Array.isArray(value) && value.every((type) => types.has(type));
}

const values = new Set(["enum", "const", "default", "examples", "required"]);
const maps = new Set(["properties", "$defs", "definitions", "dependentSchemas", "dependencies"]);

/**
 * The schema without what may take for ever or makes no sense, and the number of its parts; undefined if it refers to
 * parts of itself.
 */
export function toBounded(schema: JsonSchema): { schema: JsonSchema; nodes: number } | undefined {
  let nodes = 0;
  let refers = false;
  const inner = (value: unknown): unknown => {
    nodes += 1;
    if (Array.isArray(value)) return value.map(inner);
    return isObject(value) ? toInner(value) : value;
  };
  const toInner = (part: JsonSchema): JsonSchema => {
    const kept = Object.entries(part).filter(
      ([key, value]) => !dropped.has(key) && sensible.get(key)?.(value) !== false,
    );
    refers ||= kept.some(([key]) => references.has(key));
    return Object.fromEntries(kept.map(([key, value]) => [key, toKeyword(key, value)]));
  };
  const toKeyword = (key: string, value: unknown): unknown => {
    if (values.has(key)) {
      nodes += Array.isArray(value) ? value.length : 1;
      return value;
    }
    if (!maps.has(key) || !isObject(value)) return inner(value);
    const sound = Object.entries(value).filter(([, one]) => isSchema(one) || (key === "dependencies" && isNames(one)));
    return Object.fromEntries(sound.map(([name, one]) => [name, inner(one)]));
  };
  const bounded = toInner(schema);
  return refers ? undefined : { schema: bounded, nodes };
}
