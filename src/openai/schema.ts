type Schema = Record<string, unknown>;

/** What a server refused about tool schemas: keywords by name, and lists of types. */
export type SchemaQuirks = { keywords: ReadonlySet<string>; typeLists: boolean };

/** Keywords whose value is a map from names of the user to schemas: those names are no keywords. */
const mapKeywords = new Set(["properties", "patternProperties", "$defs", "definitions", "dependentSchemas"]);
/** Keywords whose value is data, not schemas. */
const dataKeywords = new Set(["enum", "const", "default", "examples", "required"]);
const referenceKeywords = ["$ref", "$defs", "definitions"];

/**
 * A tool's schema as it is sent. `$schema` is never needed. Keywords that the server refused are left out; local
 * references are written out instead, so that the model keeps the shape, and a list of types is cut to its first that
 * is not null.
 */
export function adaptSchema(schema: Schema, quirks: SchemaQuirks): Schema {
  const dropped = new Set(["$schema", ...quirks.keywords]);
  const inline = referenceKeywords.some((keyword) => quirks.keywords.has(keyword));
  if (inline) for (const keyword of referenceKeywords) dropped.add(keyword);
  const written = { left: mostWritten };
  return adapt(schema, { root: schema, dropped, inline, typeLists: quirks.typeLists, open: [], written }) as Schema;
}

type Context = {
  root: Schema;
  dropped: ReadonlySet<string>;
  inline: boolean;
  typeLists: boolean;
  /** References being written out, to stop at one that holds itself. */
  open: readonly string[];
  /** So many more parts are written out in place of references: a few that each hold two others would fill any memory. */
  written: { left: number };
};

const mostWritten = 20_000;

function adapt(value: unknown, context: Context): unknown {
  if (Array.isArray(value)) return value.map((item) => adapt(item, context));
  if (!isSchema(value)) return value;
  if (context.open.length > 0) context.written.left -= 1;
  if (context.inline && typeof value.$ref === "string") return writeOut(value, value.$ref, context);
  const result: Schema = {};
  for (const [key, inner] of Object.entries(value)) {
    if (!context.dropped.has(key)) define(result, key, adaptKeyword(key, inner, context));
  }
  return result;
}

function adaptKeyword(key: string, inner: unknown, context: Context): unknown {
  if (key === "type" && context.typeLists && Array.isArray(inner)) return firstType(inner);
  if (dataKeywords.has(key)) return inner;
  return mapKeywords.has(key) && isSchema(inner) ? adaptMap(inner, context) : adapt(inner, context);
}

/** A property may be called `__proto__`; assigning would set the prototype instead. */
function define(target: Schema, key: string, value: unknown): void {
  Object.defineProperty(target, key, { value, enumerable: true, writable: true, configurable: true });
}

function adaptMap(map: Schema, context: Context): Schema {
  return Object.fromEntries(Object.entries(map).map(([name, inner]) => [name, adapt(inner, context)]));
}

function writeOut(schema: Schema, reference: string, context: Context): unknown {
  const { $ref: _, ...beside } = schema;
  const isTooMuch = context.written.left <= 0 || context.open.includes(reference);
  const target = isTooMuch ? undefined : lookUp(context.root, reference);
  const inner = { ...context, open: [...context.open, reference] };
  return adapt({ ...(target ?? { type: "object" }), ...beside }, target ? inner : context);
}

/** Follows a local JSON pointer (`#/$defs/slot`). */
function lookUp(root: Schema, reference: string): Schema | undefined {
  if (!reference.startsWith("#")) return undefined;
  let value: unknown = root;
  for (const step of reference.slice(1).split("/").filter(Boolean)) {
    const key = step.replaceAll("~1", "/").replaceAll("~0", "~");
    value = isSchema(value) && Object.hasOwn(value, key) ? value[key] : undefined;
  }
  return isSchema(value) ? value : undefined;
}

function firstType(types: unknown[]): unknown {
  return types.find((type) => type !== "null") ?? types[0];
}

function isSchema(value: unknown): value is Schema {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** Every keyword that occurs in a schema, names of properties left out. */
export function keywordsOf(schema: unknown, found: Set<string> = new Set()): Set<string> {
  if (Array.isArray(schema)) for (const item of schema) keywordsOf(item, found);
  if (!isSchema(schema)) return found;
  for (const [key, inner] of Object.entries(schema)) {
    found.add(key);
    if (mapKeywords.has(key) && isSchema(inner)) for (const value of Object.values(inner)) keywordsOf(value, found);
    else if (!dataKeywords.has(key)) keywordsOf(inner, found);
  }
  return found;
}
