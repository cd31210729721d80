import type { RunStatus, StopReason, Usage } from "../../core/run.ts";
import type { OpenCallView, RunView } from "../../engine/run-view.ts";
import type { Mark, Output } from "../output.ts";
import { toDuration, toOneLine } from "./text.ts";

const colours: Record<RunStatus, Mark> = {
  queued: "dim",
  running: "cyan",
  waiting: "yellow",
  paused: "yellow",
  completed: "green",
  failed: "red",
  cancelled: "red",
  rejected: "red",
};

/** `failed (max_turns)`, `completed`. */
export function toStatus(
  run: { status: RunStatus; stopReason?: StopReason | undefined },
  mark: Output["mark"],
): string {
  const told = run.stopReason === undefined || run.stopReason === "answered" || run.stopReason === run.status;
  return mark(colours[run.status], told ? run.status : `${run.status} (${run.stopReason})`);
}

/** `1200 in (800 cached), 90 out, $0.0031`. */
export function toUsage(usage: Usage): string {
  const cached = usage.cachedTokens > 0 ? ` (${usage.cachedTokens} cached)` : "";
  const cost = usage.costUsd === undefined ? "" : `, $${usage.costUsd.toFixed(4)}`;
  const estimated = usage.estimated ? ", partly estimated" : "";
  return `${usage.inputTokens} in${cached}, ${usage.outputTokens} out${cost}${estimated}`;
}

type ListedRun = Pick<RunView, "runId" | "agent" | "status" | "stopReason" | "error" | "turns" | "usage"> &
  Pick<RunView, "createdAt" | "updatedAt">;

/** Runs as a table: head and rows. Reasons have a column if there are any. `now` in epoch ms. */
export function toListTable(runs: readonly ListedRun[], now: number, mark: Output["mark"]): [string[], string[][]] {
  const head = ["run", "agent", "status", "turns", "tokens", "age", "last change"];
  const reasons = runs.map((run) => (run.error ? toOneLine(run.error.message, 100) : ""));
  const rows = runs.map((run) => toListRow(run, now, mark));
  if (reasons.every((reason) => reason === "")) return [head, rows];
  return [[...head, "reason"], rows.map((row, index) => [...row, reasons[index] ?? ""])];
}

function toListRow(run: ListedRun, now: number, mark: Output["mark"]): string[] {
  return [
    run.runId,
    toOneLine(run.agent, 40),
    toStatus(run, mark),
    String(run.turns),
    String(run.usage.inputTokens + run.usage.outputTokens),
    toDuration(now - run.createdAt),
    `${toDuration(now - run.updatedAt)} ago`,
  ];
}

/** What is known about a run, line by line, without its transcript. */
export function toSummary(run: RunView, mark: Output["mark"]): string[] {
  const rows: [string, string | undefined][] = [
    ["run", run.runId],
    ["agent", toOneLine(run.agent, 128)],
    ["status", toStatus(run, mark)],
    ["dry run", run.dryRun && "what reads is executed, all else only described"],
    ["session", run.session && `${run.session}${toPlace(run.ahead)}`],
    ["part of", run.parent && `${run.parent.callId} of run ${run.parent.runId}`],
    ["paused", run.paused && `by ${toOneLine(run.paused.by, 80)}: ${toOneLine(run.paused.reason, 500)}`],
    ["reason", run.error && `${toOneLine(run.error.message, 1000)} (${run.error.code})`],
    ["waits for", run.waitingFor && toOneLine(run.waitingFor, 500)],
    ["turns", String(run.turns)],
    ["tokens", toUsage(run.usage)],
    ["created", new Date(run.createdAt).toISOString()],
    ["took", run.endedAt === undefined ? undefined : toDuration(run.endedAt - run.createdAt)],
    ["trace", run.traceId],
  ];
  return rows.flatMap(([name, value]) => (value === undefined ? [] : [`${mark("bold", name.padEnd(10))}${value}`]));
}

/** How many runs of its session go before a run that waits for its turn. */
function toPlace(ahead: number | undefined): string {
  if (ahead === undefined) return "";
  return ahead === 0 ? " (next in line)" : ` (${ahead === 1 ? "1 run goes" : `${ahead} runs go`} first)`;
}

const argumentsShown = 300;

/** The open calls of a run, each that waits for a person with the commands that settle it. */
export function toOpenCalls(run: RunView, mark: Output["mark"], program: string): string[] {
  return run.openCalls.flatMap((call) => [
    `${mark("bold", call.callId)} ${toOneLine(call.tool, 128)} ${toOneLine(call.arguments, argumentsShown)} ${mark("yellow", states[call.state])}`,
    ...(isUpToPerson(call) && call.arguments.length > argumentsShown
      ? [`    not all is shown: \`${program} show ${run.runId} --json\` has all ${call.arguments.length} characters`]
      : []),
    ...toQuestion(call).map((line) => `    ${line}`),
    ...toCommands(program, run.runId, call).map((line) => `    ${line}`),
  ]);
}

function toCommands(program: string, runId: string, call: OpenCallView): string[] {
  if (call.state === "answer") return toAnswers(program, runId, call);
  return isUpToPerson(call) ? toDecisions(program, runId, call) : [];
}

/** What a person needs to know to decide on a call, or to answer it. */
function toQuestion(call: OpenCallView): string[] {
  if (call.child) return [`run ${call.child.runId} of agent ${call.child.agent}`];
  if (call.state === "answer") return toAsked(call);
  if (!isUpToPerson(call)) return call.decision ? [`approved by ${toOneLine(call.decision.by, 80)}`] : [];
  const { effect, description, reason, askedAt, expiresAt } = call;
  const since = askedAt === undefined ? "" : `, asked ${new Date(askedAt).toISOString()}`;
  const until = expiresAt === undefined ? "" : `, expires ${new Date(expiresAt).toISOString()}`;
  return [
    ...(description === undefined ? [] : [`would do: ${toOneLine(description, 500)}`]),
    `effect ${effect}${reason === undefined ? "" : `, because ${toOneLine(reason, 300)}`}${since}${until}`,
  ];
}

function toAsked({ question, answerSchema, askedAt, expiresAt }: OpenCallView): string[] {
  const since = askedAt === undefined ? [] : [`asked ${new Date(askedAt).toISOString()}`];
  const until = expiresAt === undefined ? [] : [`expires ${new Date(expiresAt).toISOString()}`];
  return [
    ...(question === undefined ? [] : [`asks: ${toOneLine(question, 500)}`]),
    ...(answerSchema === undefined ? [] : [`the answer must fit: ${toOneLine(JSON.stringify(answerSchema), 500)}`]),
    ...(askedAt === undefined && expiresAt === undefined ? [] : [[...since, ...until].join(", ")]),
  ];
}

const states: Record<OpenCallView["state"], string> = {
  approval: "waits for approval",
  ready: "queued or running",
  started: "running, may not be repeated",
  lost: "its worker was lost, its result may still come",
  answer: "waits for an answer from outside",
  child: "waits for a run of its own",
  asking: "outcome unknown: approve to run it again, deny to go on without it",
};

/** Whether a person decides what becomes of the call. */
export function isUpToPerson(call: Pick<OpenCallView, "state">): boolean {
  return call.state === "approval" || call.state === "asking";
}

/** The commands that decide an open call, ready to be pasted. `program`: how this one was called. */
export function toDecisions(
  program: string,
  runId: string,
  { callId, argumentsHash }: { callId: string; argumentsHash?: string | undefined },
): string[] {
  const bound = argumentsHash === undefined ? "" : ` --hash ${argumentsHash}`;
  return [`${program} approve ${runId} ${callId}${bound}`, `${program} deny ${runId} ${callId} --reason "..."`];
}

/** The command that answers a call which waits for an answer, ready to be filled in. */
export function toAnswers(program: string, runId: string, { callId }: { callId: string }): string[] {
  return [`${program} answer ${runId} ${callId} "..."`];
}
