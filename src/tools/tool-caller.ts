import { DroverError } from "../core/errors.ts";
import type { CallPlan } from "../core/event.ts";
import { isForbidden, type Ruling, rulingText } from "../core/policy.ts";
import type { Question } from "../core/run.ts";
import type { PlanOptions, ToolCaller, ToolGate, ToolOutcome, ToolRequest } from "../ports.ts";
import { planCallerCall } from "./caller-tool.ts";
import type { ChildSettings, Tool } from "./define-tool.ts";
import { type Arguments, describeCall, describeDryRun, hashArguments } from "./describe-call.ts";
import { governTool, reasonToAsk, rulingFor } from "./govern-tool.ts";
import { forbiddenMessage, otherArgumentsMessage, reasonOf, threwMessage, unknownToolMessage } from "./messages.ts";
import { prepare } from "./prepare.ts";
import { isRepeatable, runTool } from "./run-tool.ts";

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
  const unknownTool = (name: string, callers: PlanOptions["callerTools"] = []): string =>
    unknownToolMessage(name, [...offered, ...callers.map((tool) => tool.name)]);
  return {
    plan: (call, options = {}) => {
      const entry = byName.get(call.name);
      if (entry) return planCall(entry, call.arguments, options);
      const spec = options.callerTools?.find(({ name }) => name === call.name);
      if (spec) return planCallerCall(spec, call.arguments, options);
      return { type: "settle", content: unknownTool(call.name, options.callerTools) };
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
      if (entry.tool.child) return toChild(entry.tool, entry.tool.child, prepared.args);
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

function toChild({ name }: Tool, { agent, toInput, limits, maxDepth }: ChildSettings, args: unknown): ToolOutcome {
  try {
    return { type: "child", agent, input: toInput(args), limits, maxDepth };
  } catch (thrown) {
    return { type: "failed", code: "threw", message: threwMessage(name, reasonOf(thrown)) };
  }
}

function toEntry(tool: Tool, given: Ruling): Entry {
  const ruling = rulingFor(tool, given);
  return { defined: tool, tool: governTool(tool, ruling), ruling };
}

/** What was decided when the call was planned holds, though a newer policy or version of the tool says otherwise. */
function asPlanned(tool: Tool, { repeatable }: ToolRequest): Tool {
  if (repeatable === undefined || repeatable === isRepeatable(tool)) return tool;
  return { ...tool, effect: repeatable ? tool.effect : "write", idempotent: repeatable };
}

function planCall(entry: Entry, text: string, { dryRun = false }: PlanOptions): CallPlan {
  const { tool, ruling } = entry;
  const said = rulingText(ruling);
  const policy = said === "" ? {} : { policy: said };
  if (isForbidden(ruling)) return { type: "settle", content: forbiddenMessage(tool.name), ...policy };
  const prepared = prepare(tool, text);
  if (!prepared.ok) return { type: "settle", content: prepared.message };
  const asks = mustAsk(tool, prepared.args);
  // A read that somebody would have to approve is not executed either: a dry run is no way around a person.
  // The child of a dry run is one itself.
  const isHarmless = tool.effect === "read" || tool.child;
  if (dryRun && (!isHarmless || asks || tool.answeredBy)) {
    return { type: "settle", ...describeDryRun(tool, prepared), outcome: "ok", ...policy };
  }
  const plan = tool.answeredBy ? planToAsk(entry, prepared) : planToRun(entry, prepared, asks);
  return { ...plan, ...policy };
}

function planToRun(entry: Entry, given: Arguments, asks: boolean): CallPlan {
  const { tool } = entry;
  const { effect, approval, timeoutMs, queue, approvalExpiresMs, child } = tool;
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
    ...(child ? { child: { agent: child.agent, onFailure: child.onFailure, retries: child.retries } } : {}),
  };
}

/** A question needs no approval: whoever would give it is asked anyway. */
function planToAsk(entry: Entry, given: Arguments): CallPlan {
  const { answer, expiresMs } = entry.tool;
  return {
    type: "answer",
    from: "person",
    question: toQuestion(entry, given),
    ...(expiresMs === undefined ? {} : { expiresMs }),
    ...(answer === undefined ? {} : { answerSchema: answer.schema }),
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
