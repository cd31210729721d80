import { dereference, type Schema, type SchemaDraft, Validator } from "@cfworker/json-schema";
import { z } from "zod";
import type { SchemaCheck } from "../ports.ts";
import {
  describeSchema,
  isObject,
  type JsonSchema,
  listValues,
  pointerTokens,
  resolveSchema,
  schemaAt,
  typeOf,
} from "./json-schema.ts";

/** One thing wrong with a value: where, what was wanted, what was there. */
export type Issue = { path: string; expected: string; received: string };

/** A value that fits, as the tool gets it (zod's defaults and transforms applied), or everything wrong with it. */
export type Parsed = { ok: true; value: unknown } | { ok: false; issues: Issue[] };

/**
 * A tool's parameters, whatever they were written in.
 * - `schema`: draft-7 or newer JSON Schema of type object, without `$schema`, as sent to a model;
 * - `parse`: never throws.
 */
export type ToolParameters = { readonly schema: JsonSchema; readonly parse: (value: unknown) => Parsed };

/** Makes parameters of a zod schema or a JSON Schema object. Throws a plain `Error` that says why it cannot. */
export function toParameters(source: unknown): ToolParameters {
  if (!isObject(source)) throw new Error("expected a zod object schema or a JSON Schema object");
  const parameters = toValueSchema(source);
  if (parameters.schema.type !== "object") {
    throw new Error('expected a schema of type "object": models send named arguments');
  }
  return parameters;
}

/** The same for a value of any type. */
export function toValueSchema(source: unknown): ToolParameters {
  if (!isObject(source)) throw new Error("expected a zod schema or a JSON Schema");
  if ("_zod" in source) return fromZod(source as unknown as z.core.$ZodType);
  if ("_def" in source) throw new Error("expected a zod 4 schema: this one is of another version of zod");
  return fromJsonSchema(source);
}

/** Everything that is wrong with a value by a JSON Schema. A schema that makes no sense asks for nothing. Never throws. */
export const checkValue: SchemaCheck = (schema, value) => {
  try {
    const parsed = toValueSchema(schema).parse(value);
    return parsed.ok ? [] : parsed.issues;
  } catch {
    return [];
  }
};

function withoutDialect(schema: JsonSchema): JsonSchema {
  const { $schema: _dialect, ...rest } = schema;
  return rest;
}

/** Guards a validator: one that throws (an async refinement, too deep a value) has not found the value fitting. */
function guarded(parse: (value: unknown) => Parsed): (value: unknown) => Parsed {
  return (value) => {
    try {
      return parse(value);
    } catch (error) {
      const reason = error instanceof RangeError ? "the value is nested too deeply" : String(error).slice(0, 200);
      return { ok: false, issues: [{ path: "", expected: "a value that can be checked", received: reason }] };
    }
  };
}

function fromZod(source: z.core.$ZodType): ToolParameters {
  const override = dropSafeBounds;
  const schema = withoutDialect(z.toJSONSchema(source, { io: "input", target: "draft-7", override }));
  return {
    schema,
    parse: guarded((value) => {
      const result = z.safeParse(source, value);
      if (result.success) return { ok: true, value: result.data };
      return { ok: false, issues: result.error.issues.flatMap((issue) => toIssues(value, issue)) };
    }),
  };
}

/** The bounds that zod writes for every integer tell a model nothing and cost tokens in each request. */
function dropSafeBounds({ jsonSchema }: { jsonSchema: z.core.JSONSchema.BaseSchema }): void {
  if (jsonSchema.minimum === Number.MIN_SAFE_INTEGER) delete jsonSchema.minimum;
  if (jsonSchema.maximum === Number.MAX_SAFE_INTEGER) delete jsonSchema.maximum;
}

function toIssues(value: unknown, issue: z.core.$ZodIssue): Issue[] {
  const path = issue.path.map(String);
  if (issue.code === "unrecognized_keys") {
    return issue.keys.map((key) => toIssue(value, [...path, key], "no such argument"));
  }
  return [toIssue(value, path, expectedBy(issue))];
}

function expectedBy(issue: z.core.$ZodIssue): string {
  switch (issue.code) {
    case "invalid_type":
      return issue.expected;
    case "invalid_value":
      return listValues(issue.values);
    case "invalid_union": {
      const branches = issue.errors.flat().map((nested) => {
        const at = toPath(nested.path.map(String));
        return at === "" ? expectedBy(nested) : `${expectedBy(nested)} at ${at}`;
      });
      return [...new Set(branches)].slice(0, 8).join(" or ") || issue.message;
    }
    default:
      return issue.message;
  }
}

function fromJsonSchema(source: JsonSchema): ToolParameters {
  const schema = withoutDialect(toPlain(source));
  checkSchema(schema);
  // The validator marks the schema it is given, so it gets its own copy.
  const validator = new Validator(toPlain(schema) as Schema, draftOf(source), false);
  return {
    schema,
    parse: guarded((value) => {
      const result = validator.validate(value);
      if (result.valid) return { ok: true, value };
      return { ok: false, issues: summarise(schema, value, result.errors) };
    }),
  };
}

function toPlain(schema: JsonSchema): JsonSchema {
  try {
    return JSON.parse(JSON.stringify(schema)) as JsonSchema;
  } catch (error) {
    throw new Error(`expected a JSON Schema that is plain JSON (${(error as Error).message})`);
  }
}

function draftOf(schema: JsonSchema): SchemaDraft {
  const dialect = typeof schema.$schema === "string" ? schema.$schema : "";
  if (dialect.includes("draft-04")) return "4";
  if (dialect.includes("draft-06") || dialect.includes("draft-07")) return "7";
  return dialect.includes("2019-09") ? "2019-09" : "2020-12";
}

/** Finds at once what the validator would only find in the middle of a run: lost references and bad patterns. */
function checkSchema(schema: JsonSchema): void {
  const lookup = dereference(toPlain(schema) as Schema);
  for (const target of Object.values(lookup)) {
    if (!isObject(target)) continue;
    const { $ref: ref, __absolute_ref__: absolute, pattern, patternProperties } = target;
    if (typeof ref === "string" && lookup[String(absolute ?? ref)] === undefined) {
      throw new Error(`$ref "${ref}" points at nothing in this schema`);
    }
    const patterns = isObject(patternProperties) ? Object.keys(patternProperties) : [];
    if (typeof pattern === "string") patterns.push(pattern);
    for (const text of patterns) new RegExp(text, "u");
  }
}

type ValidatorError = { keyword: string; keywordLocation: string; instanceLocation: string; error: string };

/** Keywords that only say that something further in is wrong. */
const containers = new Set([
  "properties",
  "patternProperties",
  "additionalProperties",
  "unevaluatedProperties",
  "items",
  "prefixItems",
  "additionalItems",
  "allOf",
  "$ref",
  "$recursiveRef",
  "then",
  "else",
  "if",
]);

function summarise(schema: JsonSchema, value: unknown, errors: ValidatorError[]): Issue[] {
  const unions = errors.filter(({ keyword }) => keyword === "anyOf" || keyword === "oneOf");
  const inUnion = (at: string): boolean => unions.some((union) => at.startsWith(`${union.keywordLocation}/`));
  const leaves = errors.filter((error) => !containers.has(error.keyword) && !inUnion(error.keywordLocation));
  const issues = (leaves.length > 0 ? leaves : errors).map((error) => fromValidator(schema, value, error));
  // A wrong type and a value outside an enumeration are told in the same words.
  return [...new Map(issues.map((issue) => [`${issue.path}\n${issue.expected}`, issue])).values()];
}

function fromValidator(schema: JsonSchema, value: unknown, error: ValidatorError): Issue {
  const path = pointerTokens(error.instanceLocation);
  const owner = schemaAt(schema, error.keywordLocation.slice(0, error.keywordLocation.lastIndexOf("/")));
  switch (error.keyword) {
    case "required": {
      const name = /"(.*)"/s.exec(error.error)?.[1] ?? "";
      const properties = isObject(owner?.properties) ? owner.properties : {};
      const wanted = Object.hasOwn(properties, name) ? properties[name] : undefined;
      return toIssue(
        value,
        [...path, name],
        wanted === undefined ? "a value" : describeSchema(schema, resolveSchema(schema, wanted)),
      );
    }
    case "false":
      return toIssue(value, path, "no such argument");
    case "type":
    case "enum":
    case "const":
    case "anyOf":
    case "oneOf":
      return toIssue(value, path, describeSchema(schema, owner));
    default:
      return toIssue(value, path, error.error);
  }
}

function toIssue(root: unknown, path: string[], expected: string): Issue {
  let at: unknown = root;
  for (const token of path) {
    at = typeof at === "object" && at !== null && Object.hasOwn(at, token) ? (at as JsonSchema)[token] : undefined;
  }
  return { path: toPath(path), expected, received: describeValue(at) };
}

function toPath(tokens: string[]): string {
  return tokens.reduce((path, token) => {
    if (/^\d+$/.test(token) && path !== "") return `${path}[${token}]`;
    return path === "" ? token : `${path}.${token}`;
  }, "");
}

const maxShown = 80;

/** A value in a few words for a model: `"abc" (string)`, `nothing`. */
function describeValue(value: unknown): string {
  if (value === undefined) return "nothing";
  if (value === null) return "null";
  if (Array.isArray(value)) return `an array of ${value.length}`;
  if (typeof value === "object") {
    const keys = Object.keys(value);
    const shown = keys.slice(0, 8).map((key) => key.slice(0, 40));
    return `an object with ${keys.length === 0 ? "no keys" : `the keys ${shown.join(", ")}`}`;
  }
  const text = (JSON.stringify(value) ?? typeof value).toWellFormed();
  return `${text.length > maxShown ? `${text.slice(0, maxShown).toWellFormed()}…` : text} (${typeOf(value)})`;
}
