// What this folder needs to know about JSON Schema besides validation. Pure, and total over schemas of strangers.

/** A JSON Schema object. */
export type JsonSchema = Record<string, unknown>;

export function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** The JSON Schema type of a JSON value; an integer is a "number". */
export function typeOf(value: unknown): string {
  if (value === null) return "null";
  return Array.isArray(value) ? "array" : typeof value;
}

function own(object: Record<string, unknown>, key: string): unknown {
  return Object.hasOwn(object, key) ? object[key] : undefined;
}

function fromPointer(pointer: string): string[] {
  return pointer
    .split("/")
    .slice(1)
    .map((token) => decode(token).replaceAll("~1", "/").replaceAll("~0", "~"));
}

function decode(token: string): string {
  try {
    return decodeURIComponent(token);
  } catch {
    return token;
  }
}

const maxRefs = 32;

/** Follows local `$ref`s. Undefined where there is nothing to say: a boolean schema, a foreign or a circular reference. */
export function resolveSchema(root: JsonSchema, schema: unknown): JsonSchema | undefined {
  let current = schema;
  for (let hop = 0; hop < maxRefs; hop++) {
    if (!isObject(current)) return undefined;
    const ref = own(current, "$ref");
    if (typeof ref !== "string") return current;
    if (ref !== "#" && !ref.startsWith("#/")) return undefined;
    current = fromPointer(ref).reduce<unknown>((at, token) => stepInto(at, token), root);
  }
  return undefined;
}

function stepInto(at: unknown, token: string): unknown {
  if (Array.isArray(at)) return at[Number(token)];
  return isObject(at) ? own(at, token) : undefined;
}

/** The schema that a validator's keyword location points at; `$ref` in it is followed. */
export function schemaAt(root: JsonSchema, location: string): JsonSchema | undefined {
  let at: unknown = root;
  for (const token of fromPointer(location)) {
    at = token === "$ref" ? resolveSchema(root, at) : stepInto(at, token);
  }
  return resolveSchema(root, at);
}

/** Decodes a JSON pointer fragment such as `#/items/0` into its tokens. */
export function pointerTokens(location: string): string[] {
  return fromPointer(location);
}

/** The branches of a union, or none. */
export function branchesOf(root: JsonSchema, schema: JsonSchema): JsonSchema[] {
  const list = own(schema, "anyOf") ?? own(schema, "oneOf");
  if (!Array.isArray(list)) return [];
  return list.map((branch) => resolveSchema(root, branch)).filter((branch) => branch !== undefined);
}

/**
 * Names of the JSON types that a schema admits, from `type`, `const`, `enum` or its union branches. Empty if it does
 * not say.
 */
export function typesOf(root: JsonSchema, schema: JsonSchema, depth = 0): string[] {
  const type = own(schema, "type");
  if (typeof type === "string") return [type];
  if (Array.isArray(type)) return type.filter((name) => typeof name === "string");
  if (Object.hasOwn(schema, "const")) return [typeOf(schema.const)];
  const values = own(schema, "enum");
  if (Array.isArray(values)) return [...new Set(values.map(typeOf))];
  if (depth >= 8) return [];
  const branches = branchesOf(root, schema).map((branch) => typesOf(root, branch, depth + 1));
  // A branch that admits anything makes the union admit anything.
  if (branches.some((types) => types.length === 0)) return [];
  return [...new Set(branches.flat())];
}

/** Whether a value is of one of the named types. */
export function isOfType(value: unknown, types: readonly string[]): boolean {
  return types.some((type) => (type === "integer" ? Number.isInteger(value) : type === typeOf(value)));
}

const maxEnumShown = 20;

/** A few words for what a schema wants, such as `string`, `"a" or "b"`, `integer or null`. */
export function describeSchema(root: JsonSchema, schema: JsonSchema | undefined): string {
  if (!schema) return "another value";
  const values = Object.hasOwn(schema, "const") ? [schema.const] : own(schema, "enum");
  if (Array.isArray(values)) return listValues(values);
  const types = typesOf(root, schema);
  return types.length === 0 ? "another value" : types.join(" or ");
}

/** `"a" or "b"`, cut after some values. */
export function listValues(values: readonly unknown[]): string {
  const shown = values.slice(0, maxEnumShown).map((value) => JSON.stringify(value) ?? String(value));
  const more = values.length - shown.length;
  return shown.join(" or ") + (more > 0 ? ` or one of ${more} more` : "");
}
