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

/** How far a transcript that is sent whole has been rendered: what is appended to it later only adds to this. */
export type Rendering = {
  system: SystemMessage[];
  turns: Turns;
  upTo: number;
  /** The transcript's message before `upTo`. Another one there: it is another transcript. */
  last: Message | undefined;
  /** The reminder's text, and which messages carry it. */
  reminder: string;
  reminded: number[];
};

/**
 * The messages to send, by the plan alone: the same plan over the same transcript gives the same messages.
 *
 * @param memo takes what the next turn of the same transcript can go on from, so that a long one is not gone through anew.
 */
export function renderWindow(plan: WindowPlan, given: Given, memo?: { rendering?: Rendering }): Message[] {
  if (memo && isWhole(plan, given)) return renderWhole(plan, given, memo);
  const { system, turns } = addAll(emptyRendering(), select(plan, given));
  return [...system, ...notesOf(plan, given), ...turns.shown];
}

function emptyRendering(): Rendering {
  return { system: [], turns: { shown: [], spoke: undefined }, upTo: 0, last: undefined, reminder: "", reminded: [] };
}

function addAll(rendering: Rendering, messages: Iterable<Message>): Rendering {
  for (const message of messages) {
    if (isSystem(message)) rendering.system.push(message);
    else addInTurn(rendering.turns, message);
  }
  return rendering;
}

/** Whether all of a transcript is sent, with nothing put in but reminders. */
function isWhole({ messages, ...plan }: WindowPlan, given: Given): boolean {
  const [first] = messages;
  if (!first || first[0] > 0 || first[1] < given.messages.length) return false;
  const { goal, summary, omitted, cuts, nudge } = plan;
  return [goal, summary, omitted, cuts, nudge].every((part) => part === undefined);
}

function renderWhole(plan: WindowPlan, given: Given, memo: { rendering?: Rendering }): Message[] {
  const { messages } = given;
  const places = unpackSeries(plan.reminders ?? []);
  const reminder = places.length > 0 ? reminderIn(given) : "";
  const known = memo.rendering;
  const rendering = known && goesOn(known, { messages, places, reminder }) ? known : emptyRendering();
  const { upTo, reminded } = rendering;
  const added = messages.slice(upTo);
  for (const place of places.slice(reminded.length))
    added[place - upTo] = Object.freeze(withText(messages[place] as Message, reminder));
  addAll(rendering, added);
  Object.assign(rendering, { upTo: messages.length, last: messages.at(-1), reminder, reminded: places });
  memo.rendering = rendering;
  return [...rendering.system, ...rendering.turns.shown];
}

/** Whether what was rendered is still the beginning of what is to be sent. */
function goesOn(
  { upTo, last, reminder, reminded }: Rendering,
  now: { messages: readonly Message[]; places: number[]; reminder: string },
): boolean {
  const isSame = upTo <= now.messages.length && now.messages[upTo - 1] === last;
  const isSameText = reminded.length === 0 || reminder === now.reminder;
  const isSamePlaces = reminded.every((place, index) => place === now.places[index]);
  const next = now.places[reminded.length];
  return isSame && isSameText && isSamePlaces && (next === undefined || next >= upTo);
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
  const { messages, cutText } = given;
  const cuts = new Map(plan.cuts);
  const reminders = new Set(unpackSeries(plan.reminders ?? []));
  const reminder = reminders.size > 0 ? reminderIn(given) : "";
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

function reminderIn({ messages, goal, cutText }: Given): string {
  return goal === undefined ? "" : reminderOf(goalTextOf(messages, goal), cutText);
}

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
