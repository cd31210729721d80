import type { Content, Message } from "../../core/message.ts";
import { shownText } from "../../core/parts.ts";
import type { CallView, MarkView, RequestView, StepView, TurnView } from "../../core/report.ts";
import type { Mark, Output } from "../output.ts";
import { toUsage } from "./run.ts";
import { count, indent, toDuration, toOneLine, toPrintable } from "./text.ts";

export type ReplayOptions = {
  /** Turns that the run has. */
  total: number;
  /** Whole messages and results in place of their beginnings. */
  full: boolean;
  mark: Output["mark"];
};

/** One turn for people: what was asked, what it took, what came back. */
export function toReplay(turn: TurnView, options: ReplayOptions): string[] {
  const { mark } = options;
  const { steps, request, answer, calls, marks, input } = turn;
  return [
    toHeading(turn, options),
    ...marks.filter(({ type }) => !isEnd(type)).map((one) => toMark(one, mark)),
    ...section(
      "input",
      input.flatMap((message) => toMessage(message, options)),
      mark,
    ),
    ...(request ? section("request", toRequest(request, options), mark) : []),
    ...(answer && !request ? section("request", [lostRequest], mark) : []),
    ...section(
      "steps",
      steps.map((step) => toStep(step, mark)),
      mark,
    ),
    ...(answer ? section("reply", toAnswer(answer.content, answer.refusal, options), mark) : []),
    ...section(
      "calls",
      calls.flatMap((call) => toCall(call, options)),
      mark,
    ),
    ...marks.filter(({ type }) => isEnd(type)).map((one) => toMark(one, mark)),
  ];
}

const lostRequest = "cannot be told: Redis has lost the definition that its agent had then";

function isEnd(type: MarkView["type"]): boolean {
  return type === "ended" || type === "rejected";
}

function section(name: string, lines: string[], mark: Output["mark"]): string[] {
  return lines.length === 0 ? [] : [mark("bold", name), ...lines.map((line) => indent(line, "  "))];
}

/** `turn 2 of 5 | 10:22:01 | 2.4 s | its steps: queues 3 ms, model 1.2 s, tools 1.1 s | 412 in, 38 out`. */
function toHeading({ turn, startedAt, endedAt, steps, usage }: TurnView, { total, mark }: ReplayOptions): string {
  const took = endedAt === undefined ? "still open" : toDuration(endedAt - startedAt);
  const sum = (kinds: StepView["kind"][], field: "queueWaitMs" | "performMs"): number =>
    steps.reduce((ms, step) => ms + (kinds.includes(step.kind) ? (step[field] ?? 0) : 0), 0);
  const parts: [string, number][] = [
    ["queues", sum(["model", "tool", "summary", "verify"], "queueWaitMs")],
    ["model", sum(["model", "summary"], "performMs")],
    ["tools", sum(["tool"], "performMs")],
    ["check", sum(["verify"], "performMs")],
  ];
  const told = parts.filter(([, ms]) => ms > 0).map(([name, ms]) => `${name} ${toDuration(ms)}`);
  const inside = told.length === 0 ? "" : ` | its steps: ${told.join(", ")}`;
  const spent = usage.inputTokens + usage.outputTokens === 0 ? "" : ` | ${toUsage(usage)}`;
  return `${mark("bold", mark("cyan", `turn ${turn} of ${total}`))} | ${new Date(startedAt).toISOString()} | ${took}${inside}${spent}`;
}

function toMark(one: MarkView, mark: Output["mark"]): string {
  switch (one.type) {
    case "rejected":
      return mark("red", `rejected: ${toOneLine(one.error.message, 500)}`);
    case "session_queued":
      return `waited for run ${toOneLine(one.behind, 128)} of its session`;
    case "session_entered":
      return "came to its turn in its session";
    case "retried":
      return mark("yellow", `retried by ${toOneLine(one.by, 80)}`);
    case "ended": {
      const why = one.error ? `: ${toOneLine(one.error.message, 500)}` : "";
      const by = one.by ? ` by ${toOneLine(one.by, 80)}` : "";
      const reason = one.stopReason === "answered" || one.stopReason === one.status ? "" : ` (${one.stopReason})`;
      return mark(one.status === "completed" ? "green" : "red", `${one.status}${reason}${by}${why}`);
    }
  }
}

/** Of a request that is shortened: so many messages from its beginning and its end. */
const firstShown = 2;
const lastShown = 4;

function toRequest(request: RequestView, options: ReplayOptions): string[] {
  const { agent, kept, leftOut, summarisedUpTo, dropped, offered, messages = [] } = request;
  const left = leftOut.reduce((sum, [from, to]) => sum + to - from, 0);
  const version = agent.version === undefined ? "" : ` ${toOneLine(agent.version, 40)}`;
  const facts = [
    `agent ${toOneLine(agent.name, 128)}${version}, model ${toOneLine(agent.model, 128)}`,
    `${messages.length} of ${count(kept, "message")} kept${left === 0 ? "" : `, ${left} left out`}${summarisedUpTo === undefined ? "" : `, a summary of the first ${summarisedUpTo}`}`,
    ...(offered.length === 0 ? [] : [`tools ${toOneLine(offered.join(", "), 300)}`]),
    ...parametersOf(request),
    ...(dropped.length === 0 ? [] : [`not sent, since the server refuses it: ${toOneLine(dropped.join(", "), 300)}`]),
  ];
  const { full } = options;
  const instructions = request.instructions ? [`system: ${shorten(request.instructions, options)}`] : [];
  if (full || messages.length <= firstShown + lastShown) {
    return [...facts, ...instructions, ...messages.flatMap((message) => toMessage(message, options))];
  }
  return [
    ...facts,
    ...instructions,
    ...messages.slice(0, firstShown).flatMap((message) => toMessage(message, options)),
    options.mark("dim", `… ${count(messages.length - firstShown - lastShown, "message")} between (--full shows them)`),
    ...messages.slice(-lastShown).flatMap((message) => toMessage(message, options)),
  ];
}

function parametersOf({ request = {}, output }: RequestView): string[] {
  const said = Object.entries(request).map(([name, value]) => `${name} ${JSON.stringify(value)}`);
  if (output) said.push(`answers as ${output.name}`);
  return said.length === 0 ? [] : [`parameters ${toOneLine(said.join(", "), 300)}`];
}

function toMessage(message: Message, options: ReplayOptions): string[] {
  const who = message.role === "tool" ? `${toOneLine(message.name, 64)} ${message.callId}` : message.role;
  const text = shownText(message.content);
  const calls = message.role === "assistant" ? (message.toolCalls ?? []) : [];
  return [
    ...(text === "" && calls.length > 0 ? [] : [`${options.mark("cyan", `${who}:`)} ${shorten(text, options)}`]),
    ...calls.map((call) => toMade(call.name, call.arguments, call.callId, options)),
  ];
}

function toMade(name: string, args: string, callId: string, options: ReplayOptions): string {
  const { mark } = options;
  return `${mark("cyan", "→")} ${toOneLine(name, 128)} ${shorten(args, options)} ${mark("dim", callId)}`;
}

const shortLength = 160;

function shorten(text: string, { full }: ReplayOptions): string {
  return full ? toPrintable(text) : toOneLine(text, shortLength);
}

function toAnswer(content: Content | null, refusal: string | undefined, options: ReplayOptions): string[] {
  const text = toPrintable(shownText(content));
  return [
    ...(text === "" ? [] : [text]),
    ...(refusal ? [`${options.mark("yellow", "refused:")} ${toOneLine(refusal, 500)}`] : []),
  ];
}

function toCall(call: CallView, options: ReplayOptions): string[] {
  const { mark } = options;
  const { outcome, result, cutFrom, described, decision, policy } = call;
  const label = outcome === undefined ? mark("yellow", "open") : mark(outcome === "ok" ? "green" : "red", outcome);
  const notes = [
    ...(decision ? [`${decision.type} by ${toOneLine(decision.by, 80)}`] : []),
    ...(policy === undefined ? [] : [toOneLine(policy, 200)]),
    ...(described === undefined ? [] : [`only described: ${toOneLine(described, 200)}`]),
    ...(cutFrom === undefined ? [] : [`cut from ${cutFrom} characters`]),
  ];
  return [
    `${toMade(call.tool, call.arguments, call.callId, options)} ${label}${notes.length === 0 ? "" : mark("dim", ` (${notes.join("; ")})`)}`,
    ...(result === undefined ? [] : [indent(shorten(shownText(result), options), "  ")]),
  ];
}

const outcomeMarks: Record<StepView["outcome"], Mark> = {
  ok: "green",
  open: "yellow",
  held: "yellow",
  lost: "yellow",
  unknown: "yellow",
  failed: "red",
  denied: "red",
  cancelled: "red",
  crashed: "red",
  expired: "red",
};

function toStep(step: StepView, mark: Output["mark"]): string {
  const { kind, tool, callId, outcome } = step;
  const what = [kind, ...(tool === undefined ? [] : [toOneLine(tool, 64)]), ...(callId === undefined ? [] : [callId])];
  const facts = [...timesOf(step), ...reasonsOf(step)];
  const told = facts.length === 0 ? "" : `: ${facts.join(", ")}`;
  return `${what.join(" ")} ${mark(outcomeMarks[outcome], outcome)}${told}`;
}

function timesOf({ attempt, queueWaitMs, performMs, deliveries }: StepView): string[] {
  return [
    ...(attempt > 1 ? [`attempt ${attempt}`] : []),
    ...(queueWaitMs === undefined ? [] : [`waited ${toDuration(queueWaitMs)}`]),
    ...(performMs === undefined ? [] : [`took ${toDuration(performMs)}`]),
    ...(deliveries === undefined ? [] : [`delivered ${deliveries} times`]),
  ];
}

function reasonsOf({ by, reason, childId, error, nextAt, endedAt }: StepView): string[] {
  const isTriedAgain = typeof nextAt === "number" && endedAt !== undefined;
  return [
    ...(by === undefined ? [] : [`by ${toOneLine(by, 80)}`]),
    ...(childId === undefined ? [] : [`run ${childId}`]),
    ...(reason === undefined ? [] : [toOneLine(reason, 300)]),
    ...(error ? [toOneLine(error.message, 300)] : []),
    ...(isTriedAgain ? [`again after ${toDuration(nextAt - endedAt)}`] : []),
  ];
}
