import type { RunFeedEvent } from "../../core/feed.ts";
import { addUsage, noUsage, type Usage } from "../../core/run.ts";
import type { Output } from "../output.ts";
import { toEventLine } from "./event.ts";
import { count, toDuration, toOneLine, toPrintable } from "./text.ts";

/** Of the terminal, in characters. */
export type Size = { columns: number; rows: number };

/** What is shown of a run's feed: lines that stay, and below them a block that is drawn anew. */
export type LiveView = {
  /** @returns the lines that stay from here on */
  push(event: RunFeedEvent, size: Size): string[];
  /** The text that is not a whole line yet, and the line that tells how far the run is. `now`: epoch ms. */
  block(size: Size, now: number): string;
};

type Asked = { tool: string; waits: boolean };
type State = {
  /** Text of the answer that arrives, of its last line. */
  text: string;
  turn: number;
  doing: string;
  calls: Map<string, Asked>;
  usage: Usage;
  startedAt: number | undefined;
};

/** @param more lines that follow an event's own, such as the commands that decide a call. */
export function createLiveView(mark: Output["mark"], more: (event: RunFeedEvent) => string[]): LiveView {
  const state: State = {
    text: "",
    turn: 0,
    doing: "queued",
    calls: new Map(),
    usage: noUsage,
    startedAt: undefined,
  };
  return {
    push(event, size) {
      state.startedAt ??= event.at;
      if (event.type === "text") return takeText(state, event, size);
      const open = state.text === "" ? [] : [shownText(state.text)];
      state.text = "";
      if (event.type === "text_superseded") return [...open, toVoidLine(mark)];
      progress(state, event);
      const line = toEventLine(event, mark);
      return [...open, ...(line === undefined ? [] : [line]), ...more(event)];
    },
    block(size, now) {
      const line = toProgressLine(state, now);
      const last = mark("dim", toOneLine(line, Math.max(1, size.columns - 1)));
      return state.text === "" ? last : `${shownText(state.text)}\n${last}`;
    },
  };
}

export function toVoidLine(mark: Output["mark"]): string {
  return mark("dim", "(the text above is void: its attempt did not finish)");
}

// A tab would be drawn wider than it is counted.
const shownText = (text: string): string => toPrintable(text).replaceAll("\t", "    ").toWellFormed();

/** Whole lines stay. So does most of a line that has become longer than the screen. */
function takeText(state: State, { text, turn }: { text: string; turn: number }, { columns, rows }: Size): string[] {
  state.turn = turn;
  state.doing = "the model answers";
  const lines = (state.text + text).split("\n");
  state.text = lines.pop() ?? "";
  const most = columns * Math.max(1, rows - 3);
  while (state.text.length > most) {
    const cut = state.text.lastIndexOf(" ", most);
    const at = cut > 0 ? cut : most;
    lines.push(state.text.slice(0, at));
    state.text = state.text.slice(cut > 0 ? at + 1 : at);
  }
  return lines.map(shownText);
}

type Committed = Exclude<RunFeedEvent, { type: "text" | "text_superseded" }>;

function progress(state: State, event: Committed): void {
  state.turn = event.turn;
  if ("usage" in event && event.usage) state.usage = addUsage(state.usage, event.usage);
  moveCalls(state, event);
  state.doing = doingAfter(event) ?? state.doing;
}

function moveCalls(state: State, event: Committed): void {
  switch (event.type) {
    case "model_answered": {
      const calls = event.answer?.role === "assistant" ? (event.answer.toolCalls ?? []) : [];
      state.calls = new Map(calls.map(({ callId, name }) => [callId, { tool: name, waits: false }]));
      return;
    }
    case "approval_asked":
    case "answer_asked":
      state.calls.set(event.callId, { tool: event.tool, waits: true });
      return;
    case "approved":
      state.calls.set(event.callId, { tool: event.tool, waits: false });
      return;
    case "tool_finished":
      state.calls.delete(event.callId);
      return;
    case "run_ended":
      state.calls.clear();
      return;
    default:
  }
}

/** What the run does from here on; undefined if the event changes nothing about it. */
function doingAfter(event: Committed): string | undefined {
  switch (event.type) {
    case "run_began":
    case "messages_appended":
    case "summarised":
    case "window_shrunk":
      return "the model is asked";
    case "model_answered":
      return "the answer is looked at";
    case "model_failed":
    case "verify_failed":
      return event.nextAt === null ? undefined : "waits for the next attempt";
    case "step_held":
      return "held back";
    case "session_queued":
      return "waits for its turn in its session";
    case "run_paused":
      return "paused";
    case "run_resumed":
      return "goes on";
    case "run_ended":
      return event.status;
    default:
      return undefined;
  }
}

function toProgressLine({ turn, doing, calls, usage, startedAt }: State, now: number): string {
  const tokens = usage.inputTokens + usage.outputTokens;
  const parts = [
    `turn ${Math.max(1, turn)}`,
    calls.size === 0 ? doing : describeCalls([...calls.values()]),
    ...(tokens === 0 ? [] : [count(tokens, "token")]),
    ...(usage.costUsd === undefined ? [] : [`$${usage.costUsd.toFixed(4)}`]),
    ...(startedAt === undefined ? [] : [toDuration(Math.max(0, now - startedAt))]),
  ];
  return parts.join(" | ");
}

function describeCalls(calls: Asked[]): string {
  const waiting = calls.filter(({ waits }) => waits);
  const names = (some: Asked[]): string => [...new Set(some.map(({ tool }) => toOneLine(tool, 40)))].join(", ");
  if (waiting.length === calls.length) return `waits for a person: ${names(waiting)}`;
  const running = `${count(calls.length - waiting.length, "call")} open: ${names(calls.filter(({ waits }) => !waits))}`;
  return waiting.length === 0 ? running : `${running}; ${waiting.length} wait for a person`;
}
