import type { FeedEntry } from "../core/event.ts";
import type { Message, ToolMessage } from "../core/message.ts";
import { textOf } from "../core/message.ts";
import { isEnded, type Run } from "../core/run.ts";
import type { Begun, Ended, Execution } from "./execution.ts";
import type { Script } from "./script.ts";

/**
 * What is wrong with a run.
 * - `lost`: the run, a turn of it or a result is gone;
 * - `duplicated`: something was committed twice, or a transcript is not one;
 * - `stuck`: it does not end, or left jobs behind;
 * - `effect`: a tool was executed in a way that its policy forbids, or an unknown outcome was not told;
 * - `outcome`: it ended in another way than it does undisturbed.
 */
export type Finding = { kind: "lost" | "duplicated" | "stuck" | "effect" | "outcome"; runId: string; message: string };

/** What the judge is told of a tool. `maySkip`: executed by nobody's worker. */
export type JudgedTool = { effect: "read" | "write" | "irreversible"; idempotent: boolean; asks: boolean };

export type Evidence = {
  runId: string;
  /** Null: there is no record. */
  run: Run | null;
  messages: readonly Message[];
  feed: readonly FeedEntry[];
  /** Of this run. */
  executions: readonly Execution[];
  tools: ReadonlyMap<string, JudgedTool>;
  /** What its model was to say; undefined: not known. */
  script?: Script | undefined;
  /** How it ends when nobody disturbs it; undefined: anyhow. */
  ends?: Pick<Run, "status" | "stopReason"> | undefined;
};

/** Everything that is wrong with a run, told from its record and from what tools really did. Empty if nothing is. */
export function judge(evidence: Evidence): Finding[] {
  const { run, runId } = evidence;
  if (!run) return [{ kind: "lost", runId, message: "its record is gone" }];
  if (!isEnded(run)) {
    const waits = run.calls.map(({ callId, state }) => `${callId} ${state}`).join(", ");
    return [{ kind: "stuck", runId, message: `it is ${run.status} in turn ${run.turns}${waits ? ` (${waits})` : ""}` }];
  }
  return [
    ...judgeTranscript(evidence),
    ...judgeFeed(evidence),
    ...judgeEnd(evidence, run),
    ...judgeEffects(evidence),
    ...judgeResults(evidence),
  ];
}

/** Calls and results follow each other as they must, and each turn says what its model said. */
function judgeTranscript({ runId, messages, script, run }: Evidence): Finding[] {
  const found: Finding[] = [];
  let open: string[] = [];
  const say = (kind: Finding["kind"], message: string): void => void found.push({ kind, runId, message });
  for (const [index, message] of messages.entries()) {
    if (message.role === "tool") {
      const expected = open.shift();
      if (message.callId !== expected)
        say("duplicated", `message ${index} is a result of ${message.callId}, expected ${expected}`);
    } else {
      if (open.length > 0) say("lost", `message ${index} comes while ${open.join(", ")} had no result`);
      open = message.role === "assistant" ? (message.toolCalls ?? []).map(({ callId }) => callId) : [];
    }
  }
  if (open.length > 0) say("lost", `${open.join(", ")} had no result at the end`);
  const said = messages.filter((message) => message.role === "assistant");
  if (run && said.length !== run.turns) say("duplicated", `${said.length} answers are kept of ${run.turns} turns`);
  for (const [index, { content, toolCalls = [] }] of said.entries()) {
    const turn = script?.[index];
    if (!turn) continue;
    const names = toolCalls.map(({ name }) => name).join(", ");
    const expected = turn.toolCalls.map(({ name }) => name).join(", ");
    if (textOf(content) !== turn.text || names !== expected) {
      say("duplicated", `turn ${index + 1} is not what its model said: "${textOf(content).slice(0, 80)}" [${names}]`);
    }
  }
  return found;
}

/** Numbers without gaps; each end, answer and result once. */
function judgeFeed({ runId, feed }: Evidence): Finding[] {
  const found: Finding[] = [];
  const gap = feed.findIndex(({ seq }, index) => seq !== index + 1);
  if (gap >= 0)
    found.push({ kind: "lost", runId, message: `its feed has number ${feed[gap]?.seq} in place ${gap + 1}` });
  const names = feed.flatMap((entry) => {
    if (entry.type === "model_answered") return [`the answer of turn ${entry.turn}`];
    return entry.type === "tool_finished" ? [`the result of ${entry.callId}`] : [];
  });
  for (const name of twice(names)) found.push({ kind: "duplicated", runId, message: `${name} was committed twice` });
  const count = (type: FeedEntry["type"]): number => feed.filter((entry) => entry.type === type).length;
  if (count("run_ended") !== 1 + count("run_retried")) {
    found.push({ kind: "duplicated", runId, message: `it ended ${count("run_ended")} times` });
  }
  return found;
}

function twice(names: readonly string[]): string[] {
  return [...new Set(names.filter((name, index) => names.indexOf(name) !== index))];
}

function judgeEnd({ runId, ends }: Evidence, run: Run): Finding[] {
  if (!ends || (run.status === ends.status && run.stopReason === ends.stopReason)) return [];
  // Time passes while workers are away.
  if (run.stopReason === "deadline") return [];
  const why = run.error ? `: ${run.error.code}: ${run.error.message.slice(0, 200)}` : "";
  return [
    {
      kind: "outcome",
      runId,
      message: `it is ${run.status} (${run.stopReason}${why}); undisturbed it is ${ends.status} (${ends.stopReason})`,
    },
  ];
}

type OfCall = { begun: Begun[]; ended: Ended[]; tool: JudgedTool | undefined };

function byKey(executions: readonly Execution[], tools: Evidence["tools"]): Map<string, OfCall> {
  const calls = new Map<string, OfCall>();
  for (const execution of executions) {
    if (execution.type === "effect") continue;
    const call = calls.get(execution.key) ?? { begun: [], ended: [], tool: tools.get(execution.tool) };
    calls.set(execution.key, call);
    if (execution.type === "begun") call.begun.push(execution);
    else call.ended.push(execution);
  }
  return calls;
}

/** What ran more often than it may, what ran without leave, and effects that a key should have held to one. */
function judgeEffects({ runId, executions, tools, messages, feed }: Evidence): Finding[] {
  const found: Finding[] = [];
  const say = (message: string): void => void found.push({ kind: "effect", runId, message });
  const approved = new Set(feed.flatMap((entry) => (entry.type === "approved" ? [entry.callId] : [])));
  const denied = new Set(
    messages.flatMap((message) => (message.role === "tool" && message.outcome === "denied" ? [message.callId] : [])),
  );
  for (const [key, { begun, ended, tool }] of byKey(executions, tools)) {
    const { tool: name = "", callId = "" } = begun[0] ?? {};
    const undone = new Set(ended.filter(({ outcome }) => outcome === "retry").map(({ attempt }) => attempt));
    const counted = begun.filter(({ attempt }) => !undone.has(attempt)).length;
    const repeatable = tool?.effect === "read" || tool?.idempotent === true;
    if (!repeatable && counted > 1) say(`${name} may not run again and ran ${counted} times under the key ${key}`);
    if (denied.has(callId)) say(`${name} ran though ${callId} was denied`);
    if (tool?.asks && !approved.has(callId)) say(`${name} ran as ${callId} before anybody approved it`);
    const results = new Set(ended.flatMap(({ outcome, result }) => (outcome === "ok" && result ? [result] : [])));
    if (tool?.idempotent && tool.effect !== "read" && results.size > 1) {
      say(`${name} says that it is idempotent and returned ${results.size} different results under the key ${key}`);
    }
  }
  const effects = executions.flatMap((entry) =>
    entry.type === "effect" ? [`"${entry.what}" under the key ${entry.key}`] : [],
  );
  for (const effect of twice(effects)) say(`the effect ${effect} took place more than once`);
  return found;
}

/** What the model was told about each call fits what the tool did. */
function judgeResults({ runId, messages, executions, tools }: Evidence): Finding[] {
  const calls = byKey(executions, tools);
  const byCall = new Map([...calls.values()].map((call) => [call.begun[0]?.callId ?? "", call]));
  return messages.flatMap((message): Finding[] => {
    if (message.role !== "tool" || !tools.has(message.name)) return [];
    const problem = problemOfResult(message, byCall.get(message.callId));
    return problem === undefined ? [] : [{ kind: "effect", runId, message: problem }];
  });
}

function problemOfResult(
  { callId, name, outcome, answered }: ToolMessage,
  call: OfCall | undefined,
): string | undefined {
  if (outcome === "ok" && !answered && !call?.ended.some((end) => end.outcome === "ok")) {
    return `the model was told that ${name} succeeded as ${callId}, and it never did`;
  }
  const left = call?.begun.filter(({ attempt }) => !call.ended.some((end) => end.attempt === attempt)) ?? [];
  const repeatable = call?.tool?.effect === "read" || call?.tool?.idempotent === true;
  if (left.length > 0 && !repeatable && outcome !== "unknown" && outcome !== "cancelled") {
    return `${name} was begun as ${callId} and its outcome is not known, yet the model was told "${outcome}"`;
  }
  return undefined;
}

/** Whose approval the tool asks for in every case. */
export function toJudged(tool: { effect: JudgedTool["effect"]; idempotent: boolean; approval: unknown }): JudgedTool {
  return { effect: tool.effect, idempotent: tool.idempotent, asks: tool.approval === "always" };
}
