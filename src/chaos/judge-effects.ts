import { isCut, type ToolMessage, textOf } from "../core/message.ts";
import { hashText } from "../engine/hash.ts";
import { hashOf } from "./chaos-agent.ts";
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
    ...((call.tool?.asks && !approved.has(call.callId)) || ranUnasked(call, feed)
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

/** Whether it ran by what was known when a person was still to be asked about it, or was asked and had not answered yet. */
function ranUnasked({ callId, tool, begun }: OfCall, feed: Evidence["feed"]): boolean {
  return begun.some(({ seq }) => {
    if (seq === undefined) return false;
    const last = feed.findLast(
      (entry) =>
        (entry.type === "approval_asked" || entry.type === "approved") && entry.callId === callId && entry.seq <= seq,
    );
    return last?.type === "approval_asked" || (tool?.asks === true && last === undefined);
  });
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
  if (!tool || mayRepeat(tool)) return [];
  // One that says so had no effect: itself, not another of the same attempt.
  const counted = begun.length - ended.filter(({ outcome }) => outcome === "retry").length;
  return counted > allowed ? [`${name} may not run again and ran ${counted} times under the key ${key}`] : [];
}

/** What the model was told about each call fits what the tool did. */
export function judgeResults({ runId, messages, executions, tools, feed }: Evidence): Finding[] {
  const byCall = new Map(byKey(executions, tools).map((call) => [call.callId, call]));
  return messages.flatMap((message): Finding[] => {
    const tool = message.role === "tool" ? tools.get(message.name) : undefined;
    if (message.role !== "tool" || !tool || tool.byAgent) return [];
    const call = byCall.get(message.callId);
    const again = timesAllowed(feed, message.callId) - 1;
    const problems = [toldOfSuccess(message, call), keptSilent(message, call, again), mistaken(message, call, byCall)];
    return problems.flatMap((text) => (text === undefined ? [] : [{ kind: "effect", runId, message: text }]));
  });
}

function toldOfSuccess({ callId, name, outcome, answered }: ToolMessage, call: OfCall | undefined): string | undefined {
  if (outcome !== "ok" || answered || call?.ended.some((end) => end.outcome === "ok")) return undefined;
  return `the model was told that ${name} succeeded as ${callId}, and it never did`;
}

/** Another call of the run returned what the model was told of this one, which did not. */
function mistaken(
  message: ToolMessage,
  call: OfCall | undefined,
  byCall: ReadonlyMap<string, OfCall>,
): string | undefined {
  const { callId, name, outcome, answered } = message;
  if (outcome !== "ok" || answered || !call || isCut(message)) return undefined;
  const told = textOf(message.content);
  // Of a text, and of what was written as JSON.
  const hashes = [hashOf(told), hashText(told).slice(0, hashOf("").length)];
  const isTold = (other: OfCall): boolean =>
    other.ended.some((end) => end.outcome === "ok" && end.result !== undefined && hashes.includes(end.result));
  if (isTold(call)) return undefined;
  const other = [...byCall.values()].find(isTold);
  return other && `the model was told of ${name} as ${callId} what ${other.name} returned as ${other.callId}`;
}

/**
 * Begun and never heard of again: nobody can know what became of it, and nobody may say that he does.
 *
 * @param again how often a person had it run again who was told so
 */
function keptSilent(
  { callId, name, outcome }: ToolMessage,
  call: OfCall | undefined,
  again: number,
): string | undefined {
  if (!call || mayRepeat(call.tool) || outcome === "unknown" || outcome === "cancelled") return undefined;
  if (call.begun.length - call.ended.length <= again) return undefined;
  return `${name} was begun as ${callId} and its outcome is not known, yet the model was told "${outcome}"`;
}
