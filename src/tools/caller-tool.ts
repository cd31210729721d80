// Tools that a run's caller brought: their calls are checked and handed over, never executed here.

import type { ToolSpec } from "../core/agent.ts";
import type { CallPlan } from "../core/event.ts";
import type { PlanOptions } from "../ports.ts";
import { describeDryRun } from "./describe-call.ts";
import { isObject, type JsonSchema } from "./json-schema.ts";
import { badArgumentsMessage, badJsonMessage } from "./messages.ts";
import { type ToolParameters, toParameters } from "./parameters.ts";
import { readArguments } from "./prepare.ts";

/** How a call of a caller's tool is to be treated. */
export function planCallerCall(spec: ToolSpec, text: string, { dryRun }: PlanOptions): CallPlan {
  const { name } = spec;
  const { schema, parse } = parametersOf(spec);
  // Nothing is coerced: the caller reads what the model wrote, so that itself must fit.
  const accepted = readArguments(text);
  if (!isObject(accepted)) return { type: "settle", content: badJsonMessage(name, text, schema) };
  const parsed = parse(accepted);
  if (!parsed.ok) return { type: "settle", content: badArgumentsMessage(name, parsed.issues) };
  if (dryRun) return { type: "settle", ...describeDryRun({ name }, { accepted, args: accepted }), outcome: "ok" };
  return { type: "answer", from: "caller" };
}

const known = new WeakMap<ToolSpec, ToolParameters>();

function parametersOf(spec: ToolSpec): ToolParameters {
  const parameters = known.get(spec) ?? read(spec);
  known.set(spec, parameters);
  return parameters;
}

/** A schema that cannot be checked by asks for any object: its caller checks the arguments itself. */
function read({ parameters }: ToolSpec): ToolParameters {
  try {
    return { ...toParameters(withoutPatterns(parameters)), schema: parameters };
  } catch {
    return { schema: parameters, parse: (value) => ({ ok: true, value }) };
  }
}

const values = new Set(["enum", "const", "default", "examples", "required"]);
const maps = new Set(["properties", "$defs", "definitions", "dependentSchemas"]);

/**
 * The schema without regular expressions: a stranger's could take for ever on a text that a model writes.
 * What lies under keywords that hold values is left as it is.
 */
function withoutPatterns(schema: JsonSchema): JsonSchema {
  const inner = (value: unknown): unknown => {
    if (Array.isArray(value)) return value.map(inner);
    return isObject(value) ? withoutPatterns(value) : value;
  };
  const kept = Object.entries(schema).filter(
    ([key]) => key !== "pattern" && key !== "patternProperties" && key !== "format",
  );
  return Object.fromEntries(
    kept.map(([key, value]) => {
      if (values.has(key)) return [key, value];
      if (!maps.has(key) || !isObject(value)) return [key, inner(value)];
      return [key, Object.fromEntries(Object.entries(value).map(([name, one]) => [name, inner(one)]))];
    }),
  );
}
