// Tools that a run's caller brought: their calls are checked and handed over, never executed here.

import type { ToolSpec } from "../core/agent.ts";
import type { CallPlan } from "../core/event.ts";
import type { PlanOptions } from "../ports.ts";
import { toBounded } from "./bounded-schema.ts";
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
