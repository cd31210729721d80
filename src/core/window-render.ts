// Makes the messages of a window. Whatever the transcript, they are what the strictest servers take: system text first,
// then user and assistant in turns, the user first; calls and their results in between (corpus cases 040 to 042).

import type { AssistantMessage, Content, ContentPart, Message, SystemMessage, UserMessage } from "./message.ts";
import { unpackSeries } from "./series.ts";
import type { WindowPlan } from "./window.ts";
import { goalTextOf, reminderTokens } from "./window-plan.ts";
import { isSystem } from "./window-segments.ts";

/** `cutText`: the first so many tokens of a text. `summaryText`: of the plan's summary. */
export type Given = {
  messages: readonly Message[];
  goal: number | undefined;
  summaryText?: string | undefined;
  cutText: (text: string, tokens: number) => string;
};

/** The messages to send, by the plan alone: the same plan over the same transcript gives the same messages. */
export function renderWindow(plan: WindowPlan, given: Given): Message[] {
  // In one pass: a long transcript is gone through every turn.
  const shown: Message[] = [];
  const turns: Turns = { shown: [], spoke: undefined };
  for (const message of select(plan, given)) {
    if (isSystem(message)) shown.push(message);
    else addInTurn(turns, message);
  }
  shown.push(...notesOf(plan, given));
  return shown.concat(turns.shown);
}

function notesOf({ summary, summaryTokens, omitted }: WindowPlan, { summaryText = "", cutText }: Given): Message[] {
  const notes: Message[] = [];
  if (summary !== undefined) {
    const text = summaryTokens === undefined ? summaryText : `${cutText(summaryText, summaryTokens)}…`;
    const content = `Summary of the earlier part of this conversation, which is left out:\n${text}`;
    notes.push({ role: "system", content });
  }
  if (omitted !== undefined) {
    notes.push({ role: "system", content: `[${omitted} earlier messages of this conversation are left out.]` });
  }
  return notes;
}

/** The plan's messages as they are sent, still in the order of the transcript. */
function select(plan: WindowPlan, given: Given): Message[] {
  const { messages, goal, cutText } = given;
  const cuts = new Map(plan.cuts);
  const reminders = new Set(unpackSeries(plan.reminders ?? []));
  const reminder = reminders.size > 0 && goal !== undefined ? reminderOf(goalTextOf(messages, goal), cutText) : "";
  const isPlain = cuts.size === 0 && reminders.size === 0;
  const show = (index: number): Message => {
    const message = messages[index] as Message;
    if (isPlain) return message;
    const tokens = cuts.get(index);
    const cut = tokens === undefined ? message : cutMessage(message, tokens, cutText);
    return reminders.has(index) ? withText(cut, reminder) : cut;
  };
  const shown: Message[] = [];
  let isGoalDue = plan.goal !== undefined;
  for (const [from, to] of plan.messages) {
    for (let index = from; index < to; index++) {
      // The goal goes where it stood: before all that came after it.
      if (isGoalDue && index > (plan.goal as number)) {
        shown.push(show(plan.goal as number));
        isGoalDue = false;
      }
      shown.push(show(index));
    }
  }
  const last = shown.at(-1);
  if (plan.nudge !== undefined && last) shown[shown.length - 1] = withText(last, plan.nudge);
  return shown;
}

/** Without a tokenizer a restated goal is cut by its length. */
const reminderChars = 4 * reminderTokens;

function reminderOf(goal: string, cutText: Given["cutText"]): string {
  const shortened = goal.length > reminderChars ? goal.slice(0, reminderChars).toWellFormed() : goal;
  const text = cutText(shortened, reminderTokens);
  return `Reminder of the task: ${text}${text.length < goal.length ? "…" : ""}`;
}

function cutMessage(message: Message, tokens: number, cutText: Given["cutText"]): Message {
  const content = message.content as string;
  return { ...message, content: `${cutText(content, tokens)}\n[cut here; ${content.length} characters in all]` };
}

function withText<T extends Message>(message: T, text: string): T {
  return { ...message, content: joinContents(message.content, text) };
}

function joinContents(a: Content | null, b: Content | null): Content {
  const [first, second] = [a ?? "", b ?? ""];
  if (isEmpty(first)) return second;
  if (isEmpty(second)) return first;
  if (typeof first === "string" && typeof second === "string") return `${first}\n\n${second}`;
  return [...toParts(first), ...toParts(second)];
}

function toParts(content: Content): ContentPart[] {
  return typeof content === "string" ? [{ type: "text", text: content }] : content;
}

function isEmpty(content: Content): boolean {
  return typeof content === "string" ? content.trim() === "" : content.length === 0;
}

const bridge: Spoken = { role: "assistant", content: "[Interrupted by a new message.]" };
const introduction: Spoken = { role: "user", content: "[The conversation begins with the assistant.]" };

type Spoken = Exclude<Message, SystemMessage>;
/** What is shown so far, and whose word was last, calls and results apart. */
type Turns = { shown: Spoken[]; spoke: "user" | "assistant" | undefined };

/** User and assistant in turns, the user first. Messages that need no change stay the same objects. */
function addInTurn(turns: Turns, message: Spoken): void {
  if (message.role === "tool") turns.shown.push(message);
  else if (message.role === "user") addUser(turns, message);
  else addAnswer(turns, message);
}

function addUser(turns: Turns, message: UserMessage): void {
  if (isEmpty(message.content)) return;
  const { shown, spoke } = turns;
  const last = shown.at(-1);
  if (last?.role === "user") {
    shown[shown.length - 1] = { ...last, content: joinContents(last.content, message.content) };
    return;
  }
  if (spoke === "user") shown.push(bridge);
  shown.push(message);
  turns.spoke = "user";
}

function addAnswer(turns: Turns, message: AssistantMessage): void {
  const makesCalls = message.toolCalls !== undefined && message.toolCalls.length > 0;
  if (!makesCalls && isEmpty(message.content ?? "") && !message.refusal) return;
  const { shown, spoke } = turns;
  const last = shown.at(-1);
  const follows = last?.role === "assistant" && !last.toolCalls?.length;
  if (follows) shown[shown.length - 1] = joinAnswers(last, message);
  else {
    if (spoke === undefined) shown.push(introduction);
    shown.push(message);
  }
  // An answer with calls is no turn of its own: what the user said last still waits for one.
  turns.spoke = makesCalls ? "user" : "assistant";
}

function joinAnswers(a: AssistantMessage, b: AssistantMessage): AssistantMessage {
  const refusal = b.refusal ?? a.refusal;
  return {
    ...a,
    ...b,
    ...(refusal === undefined ? {} : { refusal }),
    content: joinContents(a.content, b.content) || null,
  };
}
