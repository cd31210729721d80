import { DroverError } from "../core/errors.ts";
import type { CallPlan } from "../core/event.ts";
import type { ToolCaller } from "../ports.ts";
import { coerce } from "./coerce.ts";
import type { Tool } from "./define-tool.ts";
import { isObject } from "./json-schema.ts";
import { badArgumentsMessage, badJsonMessage, unknownToolMessage } from "./messages.ts";
import { isRepeatable, runTool } from "./run-tool.ts";

type Prepared = { ok: true; args: unknown } | { ok: false; message: string };

/**
 * The tool caller over these tools: prepare (look up, parse, validate, coerce), then run.
 *
 * @throws DroverError "invalid" if two tools have the same name.
 */
export function createToolCaller(tools: readonly Tool[]): ToolCaller {
  const byName = new Map(tools.map((tool) => [tool.name, tool]));
  if (byName.size < tools.length) {
    const names = tools.map((tool) => tool.name).filter((name, index, all) => all.indexOf(name) !== index);
    const list = [...new Set(names)].map((name) => `"${name}"`).join(", ");
    throw new DroverError("invalid", `More than one tool is named ${list}: give each its own name.`);
  }
  const unknownTool = (name: string): string => unknownToolMessage(name, [...byName.keys()]);
  return {
    plan: (call) => {
      const tool = byName.get(call.name);
      return tool ? planCall(tool, call.arguments) : { type: "settle", content: unknownTool(call.name) };
    },
    execute: async (request) => {
      const { name, arguments: text } = request.call;
      const tool = byName.get(name);
      if (!tool) return { type: "failed", code: "threw", message: unknownTool(name) };
      const prepared = prepare(tool, text);
      if (!prepared.ok) return { type: "failed", code: "threw", message: prepared.message };
      return runTool(tool, prepared.args, request);
    },
    retryPolicy: (name) => byName.get(name)?.retry,
  };
}

function planCall(tool: Tool, text: string): CallPlan {
  const prepared = prepare(tool, text);
  if (!prepared.ok) return { type: "settle", content: prepared.message };
  const { effect, approval, timeoutMs, queue, approvalExpiresMs } = tool;
  return {
    type: mustAsk(tool, prepared.args) ? "ask" : "run",
    effect,
    repeatable: isRepeatable(tool),
    onUnknown: effect === "irreversible" && approval !== "never" ? "ask" : "tell",
    timeoutMs,
    ...(queue === undefined ? {} : { queue }),
    ...(approvalExpiresMs === undefined ? {} : { approvalExpiresMs }),
  };
}

/** A predicate lets a call run only by saying exactly `false`: whatever else it does, a person is asked. */
function mustAsk(tool: Tool, args: unknown): boolean {
  const { approval } = tool;
  if (typeof approval !== "function") return approval === "always";
  try {
    return approval(args) !== false;
  } catch {
    return true;
  }
}

/** Takes the arguments as they are if they fit; only where they do not are they coerced and checked again. */
function prepare(tool: Tool, text: string): Prepared {
  const { schema, parse } = tool.parameters;
  const value = readArguments(text);
  const object = isObject(value) ? value : coerce(schema, value);
  if (!isObject(object))
    return {
      ok: false,
      message: badJsonMessage(tool.name, typeof text === "string" ? text : `a ${typeof text}`, schema),
    };
  const asIs = parse(object);
  if (asIs.ok) return { ok: true, args: asIs.value };
  const coerced = parse(coerce(schema, object));
  if (coerced.ok) return { ok: true, args: coerced.value };
  return { ok: false, message: badArgumentsMessage(tool.name, coerced.issues) };
}

/** No text is no arguments; text that is no JSON is undefined. */
function readArguments(text: string): unknown {
  if (typeof text !== "string") return undefined;
  if (text.trim() === "") return {};
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return undefined;
  }
}
