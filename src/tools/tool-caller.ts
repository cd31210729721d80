import { DroverError } from "../core/errors.ts";
import type { CallPlan } from "../core/event.ts";
import { isForbidden, type Ruling, rulingText } from "../core/policy.ts";
import type { Question } from "../core/run.ts";
import type { ToolCaller, ToolGate, ToolRequest } from "../ports.ts";
import { coerce } from "./coerce.ts";
import type { Tool } from "./define-tool.ts";
import { type Arguments, describeCall, describeDryRun, hashArguments } from "./describe-call.ts";
import { governTool, reasonToAsk } from "./govern-tool.ts";
import { isObject } from "./json-schema.ts";
import {
  badArgumentsMessage,
  badJsonMessage,
  forbiddenMessage,
  otherArgumentsMessage,
  unknownToolMessage,
} from "./messages.ts";
import { isRepeatable, runTool } from "./run-tool.ts";

type Prepared = ({ ok: true } & Arguments) | { ok: false; message: string };

/** A tool as defined and as the policy has it. */
type Entry = { defined: Tool; tool: Tool; ruling: Ruling };

/**
 * The tool caller over these tools: prepare (look up, parse, validate, coerce), then run.
 *
 * @param ruleOn what the operators' policy says about a tool; default: nothing.
 * @throws DroverError "invalid" if two tools have the same name.
 */
export function createToolCaller(tools: readonly Tool[], ruleOn: (tool: string) => Ruling = () => ({})): ToolCaller {
  const byName = new Map(tools.map((tool) => [tool.name, toEntry(tool, ruleOn(tool.name))]));
  if (byName.size < tools.length) {
    const names = tools.map((tool) => tool.name).filter((name, index, all) => all.indexOf(name) !== index);
    const list = [...new Set(names)].map((name) => `"${name}"`).join(", ");
    throw new DroverError("invalid", `More than one tool is named ${list}: give each its own name.`);
  }
  const offered = [...byName.values()].filter(({ ruling }) => !isForbidden(ruling)).map(({ tool }) => tool.name);
  const unknownTool = (name: string): string => unknownToolMessage(name, offered);
  return {
    plan: (call, options = {}) => {
      const entry = byName.get(call.name);
      return entry ? planCall(entry, call.arguments, options) : { type: "settle", content: unknownTool(call.name) };
    },
    execute: async (request) => {
      const { name, arguments: text } = request.call;
      const entry = byName.get(name);
      if (!entry) return { type: "failed", code: "threw", message: unknownTool(name) };
      const refusal = isForbidden(entry.ruling) ? forbiddenMessage(name) : undefined;
      const prepared = refusal === undefined ? prepare(entry.tool, text) : { ok: false as const, message: refusal };
      if (!prepared.ok) return { type: "failed", code: "threw", message: prepared.message };
      const { approvedHash } = request;
      if (approvedHash !== undefined && approvedHash !== hashArguments(name, prepared.accepted)) {
        return { type: "failed", code: "threw", message: otherArgumentsMessage(name) };
      }
      return runTool(asPlanned(entry.tool, request), prepared.args, request);
    },
    gate: (name) => toGate(byName.get(name)),
    retryPolicy: (name) => byName.get(name)?.tool.retry,
    maxResultTokens: (name) => byName.get(name)?.tool.maxResultTokens,
    isPolling: (name) => byName.get(name)?.tool.polling ?? false,
  };
}

function toGate(entry: Entry | undefined): ToolGate | undefined {
  if (!entry) return undefined;
  const { rate, concurrency, breaker, fallback, timeoutMs } = entry.tool;
  return { rate, concurrency, breaker, fallback, timeoutMs };
}

function toEntry(tool: Tool, ruling: Ruling): Entry {
  return { defined: tool, tool: governTool(tool, ruling), ruling };
}

/** What was decided when the call was planned holds, though a newer policy or version of the tool says otherwise. */
function asPlanned(tool: Tool, { repeatable }: ToolRequest): Tool {
  if (repeatable === undefined || repeatable === isRepeatable(tool)) return tool;
  return { ...tool, effect: repeatable ? tool.effect : "write", idempotent: repeatable };
}

function planCall(entry: Entry, text: string, { dryRun = false }: { dryRun?: boolean | undefined }): CallPlan {
  const { tool, ruling } = entry;
  const said = rulingText(ruling);
  const policy = said === "" ? {} : { policy: said };
  if (isForbidden(ruling)) return { type: "settle", content: forbiddenMessage(tool.name), ...policy };
  const prepared = prepare(tool, text);
  if (!prepared.ok) return { type: "settle", content: prepared.message };
  const asks = mustAsk(tool, prepared.args);
  // A read that somebody would have to approve is not executed either: a dry run is no way around a person.
  if (dryRun && (tool.effect !== "read" || asks)) {
    return { type: "settle", ...describeDryRun(tool, prepared), outcome: "ok", ...policy };
  }
  return { ...planToRun(entry, prepared, asks), ...policy };
}

function planToRun(entry: Entry, given: Arguments, asks: boolean): CallPlan {
  const { tool } = entry;
  const { effect, approval, timeoutMs, queue, approvalExpiresMs } = tool;
  const onUnknown = effect === "irreversible" && approval !== "never" ? "ask" : "tell";
  return {
    type: asks ? "ask" : "run",
    effect,
    repeatable: isRepeatable(tool),
    onUnknown,
    timeoutMs,
    ...(queue === undefined ? {} : { queue }),
    ...(approvalExpiresMs === undefined ? {} : { approvalExpiresMs }),
    ...(asks || onUnknown === "ask" ? { question: toQuestion(entry, given) } : {}),
  };
}

function toQuestion({ defined, tool, ruling }: Entry, given: Arguments): Question {
  return {
    argumentsHash: hashArguments(tool.name, given.accepted),
    description: describeCall(tool, given),
    reason: reasonToAsk(defined, ruling),
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
  if (asIs.ok) return { ok: true, accepted: object, args: asIs.value };
  // Only texts are replaced: an object stays one.
  const accepted = coerce(schema, object) as Arguments["accepted"];
  const coerced = parse(accepted);
  if (coerced.ok) return { ok: true, accepted, args: coerced.value };
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
