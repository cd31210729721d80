// Tools that a run's caller brought: their calls are checked and handed over, never executed here.

import type { ToolSpec } from "../core/agent.ts";
import type { CallPlan } from "../core/event.ts";
import type { PlanOptions } from "../ports.ts";
import { describeDryRun } from "./describe-call.ts";
import { isObject, type JsonSchema } from "./json-schema.ts";
import { badArgumentsMessage, badJsonMessage } from "./messages.ts";
import { type ToolParameters, toParameters } from "./parameters.ts";
import { readArguments } from "./prepare.ts";

/** Parts of a schema times characters of arguments that are gone through at most; more is left to the caller. */
const mostWork = 10_000_000;

/** How a call of a caller's tool is to be treated. */
export function planCallerCall(spec: ToolSpec, text: string, { dryRun }: PlanOptions): CallPlan {
  const { name } = spec;
  const { schema, nodes, parse } = parametersOf(spec);
  // Nothing is coerced: the caller reads what the model wrote, so that itself must fit.
  const accepted = readArguments(text);
  if (!isObject(accepted)) return { type: "settle", content: badJsonMessage(name, text, schema) };
  const parsed = nodes * text.length > mostWork ? undefined : parse(accepted);
  if (parsed?.ok === false) return { type: "settle", content: badArgumentsMessage(name, parsed.issues) };
  if (dryRun) return { type: "settle", ...describeDryRun({ name }, { accepted, args: accepted }), outcome: "ok" };
  return { type: "answer", from: "caller" };
}

/** A caller's schema as it is checked by. `nodes`: how much of it there is to go through for each value. */
type Checkable = ToolParameters & { nodes: number };

const known = new WeakMap<ToolSpec, Checkable>();

function parametersOf(spec: ToolSpec): Checkable {
  const parameters = known.get(spec) ?? read(spec.parameters);
  known.set(spec, parameters);
  return parameters;
}

/**
 * What cannot be checked in little time, whatever the value, is not checked here: with a schema that refers to parts of
 * itself, or makes no sense, any object is taken, and its caller sees for itself.
 */
function read(schema: JsonSchema): Checkable {
  const any: Checkable = { schema, nodes: 0, parse: (value) => ({ ok: true, value }) };
  const bounded = toBounded(schema);
  if (!bounded) return any;
  try {
    return { schema, nodes: bounded.nodes, parse: toParameters(bounded.schema).parse };
  } catch {
    return any;
  }
}

/** Keywords that may take for ever: regular expressions of a stranger, and comparisons of all with all. */
const dropped = new Set(["pattern", "patternProperties", "format", "uniqueItems"]);
const references = new Set(["$ref", "$dynamicRef", "$recursiveRef"]);
const values = new Set(["enum", "const", "default", "examples", "required"]);
const maps = new Set(["properties", "$defs", "definitions", "dependentSchemas"]);

/** The schema without what may take for ever, and the number of its parts; undefined if it refers to parts of itself. */
function toBounded(schema: JsonSchema): { schema: JsonSchema; nodes: number } | undefined {
  let nodes = 0;
  let refers = false;
  const inner = (value: unknown): unknown => {
    nodes += 1;
    if (Array.isArray(value)) return value.map(inner);
    return isObject(value) ? toInner(value) : value;
  };
  const toInner = (part: JsonSchema): JsonSchema => {
    const kept = Object.entries(part).filter(([key]) => !dropped.has(key));
    refers ||= kept.some(([key]) => references.has(key));
    return Object.fromEntries(kept.map(([key, value]) => [key, toKeyword(key, value)]));
  };
  const toKeyword = (key: string, value: unknown): unknown => {
    if (values.has(key)) {
      nodes += Array.isArray(value) ? value.length : 1;
      return value;
    }
    if (!maps.has(key) || !isObject(value)) return inner(value);
    return Object.fromEntries(Object.entries(value).map(([name, one]) => [name, inner(one)]));
  };
  const bounded = toInner(schema);
  return refers ? undefined : { schema: bounded, nodes };
}
