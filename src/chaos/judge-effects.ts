import type { ToolMessage } from "../core/message.ts";
import type { Evidence, Finding, JudgedTool } from "./evidence.ts";
import type { Begun, Ended, Execution } from "./execution.ts";

/** Executions under one key. */
type OfCall = {
  key: string;
  name: string;
  callId: string;
  begun: Begun[];
  ended: Ended[];
  tool: JudgedTool | undefined;
};

function byKey(executions: readonly Execution[], tools: Evidence["tools"]): OfCall[] {
  const calls = new Map<string, OfCall>();
  for (const execution of executions) {
    if (execution.type === "effect") continue;
    const { key, tool: name, callId } = execution;
    const call = calls.get(key) ?? { key, name, callId, begun: [], ended: [], tool: tools.get(name) };
    calls.set(key, call);
    if (execution.type === "begun") call.begun.push(execution);
    else call.ended.push(execution);
  }
  return [...calls.values()];
}

function mayRepeat(tool: JudgedTool | undefined): boolean {
  return tool?.effect === "read" || tool?.idempotent === true;
}

/** What ran more often than it may, what ran without leave, and effects that a key should have held to one. */
export function judgeEffects({ runId, executions, tools, messages, feed }: Evidence): Finding[] {
  const approved = new Set(feed.flatMap((entry) => (entry.type === "approved" ? [entry.callId] : [])));
  const denied = new Set(
    messages.flatMap((message) => (message.role === "tool" && message.outcome === "denied" ? [message.callId] : [])),
  );
  const settled = new Set(messages.flatMap((message) => (message.role === "tool" ? [message.callId] : [])));
  const problems = byKey(executions, tools).flatMap((call) => [
    ...problemsOfRepeats(call, timesAllowed(feed, call.callId)),
    ...(settled.has(call.callId) ? [] : [`${call.name} ran as ${call.callId}, which is no call of its transcript`]),
    ...(denied.has(call.callId) ? [`${call.name} ran though ${call.callId} was denied`] : []),
    ...(call.tool?.asks && !approved.has(call.callId)
      ? [`${call.name} ran as ${call.callId} before anybody approved it`]
      : []),
  ]);
  const effects = executions.flatMap((entry) =>
    entry.type === "effect" ? [`"${entry.what}" under the key ${entry.key}`] : [],
  );
  const repeated = [...new Set(effects.filter((name, index) => effects.indexOf(name) !== index))];
  return [...problems, ...repeated.map((effect) => `the effect ${effect} took place more than once`)].map(
    (message): Finding => ({ kind: "effect", runId, message }),
  );
}

/** Once, and again whenever a person was told that the outcome is not known and said so. */
function timesAllowed(feed: Evidence["feed"], callId: string): number {
  const ofCall = feed.filter((entry) => "callId" in entry && entry.callId === callId);
  const again = ofCall.filter(({ type }, index) => {
    const asked = ofCall.slice(0, index).findLast((entry) => entry.type === "approval_asked");
    return type === "approved" && asked?.type === "approval_asked" && asked.why === "unknown_outcome";
  });
  return 1 + again.length;
}

function problemsOfRepeats({ key, name, begun, ended, tool }: OfCall, allowed: number): string[] {
  if (!tool) return [];
  // An attempt that says so had no effect.
  const undone = new Set(ended.filter(({ outcome }) => outcome === "retry").map(({ attempt }) => attempt));
  const counted = begun.filter(({ attempt }) => !undone.has(attempt)).length;
  if (!mayRepeat(tool)) {
    return counted > allowed ? [`${name} may not run again and ran ${counted} times under the key ${key}`] : [];
  }
  if (tool.effect === "read") return [];
  const results = new Set(ended.flatMap(({ outcome, result }) => (outcome === "ok" && result ? [result] : [])));
  if (results.size <= 1) return [];
  return [`${name} says that it is idempotent and returned ${results.size} different results under the key ${key}`];
}

/** What the model was told about each call fits what the tool did. */
export function judgeResults({ runId, messages, executions, tools }: Evidence): Finding[] {
  const byCall = new Map(byKey(executions, tools).map((call) => [call.callId, call]));
  return messages.flatMap((message): Finding[] => {
    const tool = message.role === "tool" ? tools.get(message.name) : undefined;
    if (message.role !== "tool" || !tool || tool.byAgent) return [];
    const call = byCall.get(message.callId);
    const problems = [toldOfSuccess(message, call), keptSilent(message, call)].filter((text) => text !== undefined);
    return problems.map((text) => ({ kind: "effect", runId, message: text }));
  });
}

function toldOfSuccess({ callId, name, outcome, answered }: ToolMessage, call: OfCall | undefined): string | undefined {
  if (outcome !== "ok" || answered || call?.ended.some((end) => end.outcome === "ok")) return undefined;
  return `the model was told that ${name} succeeded as ${callId}, and it never did`;
}

/** Begun and never heard of again: nobody can know what became of it, and nobody may say that he does. */
function keptSilent({ callId, name, outcome }: ToolMessage, call: OfCall | undefined): string | undefined {
  if (!call || mayRepeat(call.tool) || outcome === "unknown" || outcome === "cancelled") return undefined;
  const left = call.begun.some(({ attempt }) => !call.ended.some((end) => end.attempt === attempt));
  if (!left) return undefined;
  return `${name} was begun as ${callId} and its outcome is not known, yet the model was told "${outcome}"`;
}
