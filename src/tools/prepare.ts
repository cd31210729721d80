import { coerce } from "./coerce.ts";
import type { Arguments } from "./describe-call.ts";
import { isObject } from "./json-schema.ts";
import { badArgumentsMessage, badJsonMessage } from "./messages.ts";
import type { ToolParameters } from "./parameters.ts";

/** Arguments as a tool gets them, or what the model is told of them. */
export type Prepared = ({ ok: true } & Arguments) | { ok: false; message: string };

type Named = { name: string; parameters: ToolParameters };

/** Takes the arguments as they are if they fit; only where they do not are they coerced and checked again. */
export function prepare(tool: Named, text: string): Prepared {
  const { schema, parse } = tool.parameters;
  const value = readArguments(text);
  const object = isObject(value) ? value : coerce(schema, value);
  if (!isObject(object))
    return {
      ok: false,
      message: badJsonMessage(tool.name, typeof text === "string" ? text : `a ${typeof text}`, schema),
    };
  const asIs = parse(object);
  if (asIs.ok) return { ok: true, accepted: object, args: asIs.value };
  // Only texts are replaced: an object stays one.
  const accepted = coerce(schema, object) as Arguments["accepted"];
  const coerced = parse(accepted);
  if (coerced.ok) return { ok: true, accepted, args: coerced.value };
  return { ok: false, message: badArgumentsMessage(tool.name, coerced.issues) };
}

/** No text is no arguments; text that is no JSON is undefined. */
export function readArguments(text: string): unknown {
  if (typeof text !== "string") return undefined;
  if (text.trim() === "") return {};
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return undefined;
  }
}
