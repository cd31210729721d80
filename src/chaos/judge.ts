import type { FeedEntry } from "../core/event.ts";
import { type AssistantMessage, type Message, textOf } from "../core/message.ts";
import { isEnded } from "../core/run.ts";
import type { Tool } from "../tools/define-tool.ts";
import { isDoneByAgent } from "./chaos-agent.ts";
import type { Evidence, Finding, JudgedRun, JudgedTool } from "./evidence.ts";
import { judgeEffects, judgeResults } from "./judge-effects.ts";
import { judgeChildren, judgePeople } from "./judge-others.ts";
import { judgePauses } from "./judge-pauses.ts";
import type { Script } from "./script.ts";

/** Everything that is wrong with a run, told from its record and from what tools really did. Empty if nothing is. */
export function judge(evidence: Evidence): Finding[] {
  const { run, runId } = evidence;
  if (!run) return [{ kind: "lost", runId, message: "its record is gone" }];
  if (!isEnded(run)) {
    const waits = (run.calls ?? []).map(({ callId, state }) => `${callId} ${state}`).join(", ");
    return [{ kind: "stuck", runId, message: `it is ${run.status} in turn ${run.turns}${waits ? ` (${waits})` : ""}` }];
  }
  return [
    ...judgeTranscript(evidence),
    ...judgeFeed(evidence, run),
    ...judgeEnd(evidence, run),
    ...judgeEffects(evidence),
    ...judgeResults(evidence),
    ...judgeChildren(evidence),
    ...judgePeople(evidence, run),
    ...judgePauses(evidence),
  ];
}

function judgeTranscript({ runId, messages, script, run, asked }: Evidence): Finding[] {
  const answers = messages.filter((message) => message.role === "assistant");
  const turns = run?.turns ?? 0;
  const counted =
    answers.length === turns ? [] : [problem("duplicated", `${answers.length} answers are kept of ${turns} turns`)];
  const isAsked = (message: Message): boolean => message.role === "user" && textOf(message.content) === asked;
  const unasked =
    turns === 0 || asked === undefined || messages.some(isAsked) ? [] : [problem("lost", "what it was asked is gone")];
  const problems = [...problemsOfOrder(messages), ...counted, ...unasked, ...problemsOfTurns(answers, script)];
  return problems.map((found) => ({
    ...found,
    runId,
  }));
}

type Problem = Omit<Finding, "runId">;
const problem = (kind: Finding["kind"], message: string): Problem => ({ kind, message });

/** Each call has one result, in call order, before anything else is said. */
export function problemsOfOrder(messages: readonly Message[]): Problem[] {
  const found: Problem[] = [];
  let open: string[] = [];
  for (const [index, message] of messages.entries()) {
    if (message.role === "tool") {
      const expected = open.shift();
      if (message.callId === expected) continue;
      found.push(problem("duplicated", `message ${index} is a result of ${message.callId}, expected ${expected}`));
      continue;
    }
    if (open.length > 0) found.push(problem("lost", `message ${index} comes while ${open.join(", ")} had no result`));
    open = message.role === "assistant" ? (message.toolCalls ?? []).map(({ callId }) => callId) : [];
  }
  return open.length > 0 ? [...found, problem("lost", `${open.join(", ")} had no result at the end`)] : found;
}

/** Each turn says what its model said. */
function problemsOfTurns(answers: readonly AssistantMessage[], script: Script = []): Problem[] {
  return answers.flatMap(({ content, toolCalls = [] }, index) => {
    const turn = script[index];
    if (!turn) return [];
    const names = toolCalls.map(({ name }) => name).join(", ");
    const expected = turn.toolCalls.map(({ name }) => name).join(", ");
    if (textOf(content) === turn.text && names === expected) return [];
    const said = `"${textOf(content).slice(0, 80)}" [${names}]`;
    return [problem("duplicated", `turn ${index + 1} is not what its model said: ${said}`)];
  });
}

/** Numbers without gaps; each end, answer and result once. */
function judgeFeed({ runId, feed }: Evidence, { turns: answered }: JudgedRun): Finding[] {
  const found: Finding[] = [];
  const gap = feed.findIndex(({ seq }, index) => seq !== index + 1);
  if (gap >= 0)
    found.push({ kind: "lost", runId, message: `its feed has number ${feed[gap]?.seq} in place ${gap + 1}` });
  const names = feed.flatMap((entry) => {
    if (entry.type === "model_answered") return [`the answer of turn ${entry.turn}`];
    return entry.type === "tool_finished" ? [`the result of ${entry.callId}`] : [];
  });
  const turns = feed.flatMap((entry) => (entry.type === "model_answered" ? [entry.turn] : []));
  const skipped = turns.find((turn, index) => turn > (turns[index - 1] ?? 0) + 1);
  if (skipped !== undefined)
    found.push({ kind: "lost", runId, message: `the answer before turn ${skipped} is not in its feed` });
  const last = turns.at(-1) ?? 0;
  if (last !== answered)
    found.push({ kind: "lost", runId, message: `the last answer in its feed is of turn ${last} of ${answered}` });
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

function judgeEnd({ runId, ends }: Evidence, run: JudgedRun): Finding[] {
  if (!ends || (run.status === ends.status && run.stopReason === ends.stopReason)) return [];
  // Time passes while workers are away.
  if (run.stopReason === "deadline" && run.deadlineAt !== undefined) return [];
  const why = run.error ? `: ${run.error.code}: ${run.error.message.slice(0, 200)}` : "";
  return [
    {
      kind: "outcome",
      runId,
      message: `it is ${run.status} (${run.stopReason}${why}); undisturbed it is ${ends.status} (${ends.stopReason})`,
    },
  ];
}

/** @param knows which agents are there: calls of a tool that stands for another are stubbed. */
export function toJudged(tool: Tool, knows: (agent: string) => boolean): JudgedTool {
  const { effect, idempotent, approval } = tool;
  return { effect, idempotent, asks: approval === "always", byAgent: isDoneByAgent(tool, { knows }) };
}
