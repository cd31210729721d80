import { type Message, textOf } from "./message.ts";
import { packSeries } from "./series.ts";
import { longestSummary } from "./summary.ts";
import type { Summary, WindowPlan, WindowSettings } from "./window.ts";
import { placeCuts } from "./window-cuts.ts";
import { isFromUser, isSystem, type Segment, toSegments } from "./window-segments.ts";

/**
 * - `goal`: transcript index of what the run was asked to do; undefined if nobody asked;
 * - `fixedTokens`: what the request takes beside its messages: instructions, tools, room for the answer;
 * - `countMessage`, `count`: called only if there is a budget;
 * - `summary`: of the messages before its `upTo`;
 * - `nudge`: told to the model after the last result;
 * - `memo`: takes what the next turn of the same transcript can go on from.
 */
export type WindowInput = {
  messages: readonly Message[];
  goal: number | undefined;
  settings: WindowSettings;
  fixedTokens: number;
  countMessage: (message: Message) => number;
  count: (text: string) => number;
  summary?: Summary | undefined;
  nudge?: string | undefined;
  memo?: { reminders?: Reminders } | undefined;
};

/**
 * - `window`: what to send, and how many tokens the whole request takes;
 * - `summarise`: the messages from the summary's end to `upTo` are to be condensed first;
 * - `too_small`: nothing that could be sent fits; `smallestTokens` is the smallest budget that would.
 */
export type PlannedWindow =
  | { type: "window"; plan: WindowPlan; tokens: number }
  | { type: "summarise"; upTo: number }
  | { type: "too_small"; smallestTokens: number };

/** Room for what rendering adds: introductions, notes on what is left out or cut, and the marks around them. */
const renderOverhead = 100;
/** Tokens that a restated goal takes at most, its introduction included. */
export const reminderTokens = 200;
const reminderOverhead = 15;
/** What is said between a turn without an answer and a user's next words. */
const bridgeTokens = 15;
/** After a summary the turns that stay take at most this share of the budget, so that the next one is some turns away. */
const keptShare = 0.5;
/** The share of the budget that the messages to be condensed at a time may take: the summary needs room too. */
const condensedShare = 0.7;

/**
 * Decides what of a transcript is sent (features H15, H16).
 *
 * While everything fits everything is sent: the prefix stays as it was, for the caches of providers. After that at most
 * the last `lastTurns` turns are sent in full, with the goal, and with a summary of the part before or a note on it.
 * What a call brought stays with it. Where the last turn alone is too long its texts are cut, the longest first.
 */
export function planWindow(input: WindowInput): PlannedWindow {
  const { messages, settings, summary } = input;
  const { budgetTokens } = settings;
  const base = summary?.upTo ?? 0;
  const reminders = toReminders(input);
  if (budgetTokens === undefined) {
    return { type: "window", plan: toPlan(input, base, reminders), tokens: 0 };
  }
  const costs = createCosts(input, reminders);
  if (costs.from(base) <= budgetTokens) {
    return { type: "window", plan: toPlan(input, base, reminders), tokens: costs.from(base) };
  }
  const segments = toSegments(messages, base);
  const room = budgetTokens - costs.beside;
  const allowed = settings.summarise ? costs.beside + room * keptShare : budgetTokens;
  const start = startOf(segments, settings.lastTurns, (from) => costs.from(from) <= allowed) ?? base;
  if (settings.summarise && start > base)
    return { type: "summarise", upTo: toCondense(input, segments, start, budgetTokens * condensedShare) };
  const plan = toPlan(input, start, reminders);
  const tokens = costs.from(start);
  if (tokens <= budgetTokens) return { type: "window", plan, tokens };
  const cut = placeCuts({ ...input, plan, over: tokens - budgetTokens });
  if (cut.type === "too_long")
    return { type: "too_small", smallestTokens: smallestBudget(input, tokens - cut.mostSaved) };
  return { type: "window", plan: { ...plan, cuts: cut.cuts }, tokens: tokens - cut.saved };
}

/** Where the last turns begin that may be sent in full: as many as fit, at least the last one. */
function startOf(segments: Segment[], most: number, fits: (from: number) => boolean): number | undefined {
  let start = segments.at(-1)?.from;
  for (let count = 2; count <= Math.min(most, segments.length); count++) {
    const { from } = segments[segments.length - count] as Segment;
    if (!fits(from)) break;
    start = from;
  }
  return start;
}

/** How far to condense at a time: towards `start`, in pieces that fit the budget themselves. */
function toCondense({ messages, countMessage }: WindowInput, segments: Segment[], start: number, most: number): number {
  let tokens = 0;
  let upTo = 0;
  for (const { from, to } of segments) {
    if (from >= start) break;
    for (let index = from; index < to; index++) tokens += countMessage(messages[index] as Message);
    if (upTo > 0 && tokens > most) break;
    upTo = to;
  }
  return upTo;
}

function toPlan(input: WindowInput, start: number, reminders: number[]): WindowPlan {
  const { messages, goal, summary, nudge } = input;
  const summaryTokens = mostOfSummary(input);
  const before: [number, number][] = [];
  for (let index = 0; index < start; index++) {
    if (isSystem(messages[index] as Message)) before.push([index, index + 1]);
  }
  const base = summary?.upTo ?? 0;
  const omitted = start - base - before.filter(([index]) => index >= base).length;
  const placed = reminders.filter((index) => index >= start);
  return {
    messages: joined([...before, [start, messages.length]]),
    ...(goal !== undefined && goal < start ? { goal } : {}),
    ...(summary ? { summary: summary.id } : {}),
    ...(summaryTokens === undefined ? {} : { summaryTokens }),
    ...(omitted > 0 ? { omitted } : {}),
    ...(placed.length > 0 ? { reminders: packSeries(placed) } : {}),
    ...(nudge === undefined ? {} : { nudge }),
  };
}

function joined(ranges: [number, number][]): [number, number][] {
  const result: [number, number][] = [];
  for (const [from, to] of ranges) {
    const last = result.at(-1);
    if (last && last[1] === from) last[1] = to;
    else result.push([from, to]);
  }
  return result;
}

/** How far the places of reminders were looked for: `turns` since anybody said anything, up to `upTo`. */
export type Reminders = {
  goal: number;
  remindEvery: number;
  upTo: number;
  /** The transcript's message before `upTo`. Another one there: it is another transcript. */
  last: Message | undefined;
  turns: number;
  places: number[];
};

/**
 * The results that carry the restated goal: the last one of every `remindEvery`th turn since anybody said anything. They
 * stay at their places, so that what was sent before stays a prefix of what is sent next.
 */
function toReminders({ messages, goal, settings: { remindEvery }, memo }: WindowInput): number[] {
  if (remindEvery === 0 || goal === undefined) return [];
  const known = memo?.reminders;
  const from = goal + 1;
  const isKnown = known?.goal === goal && known.remindEvery === remindEvery && messages[known.upTo - 1] === known.last;
  const seen = isKnown ? known : { goal, remindEvery, upTo: from, last: messages[goal], turns: 0, places: [] };
  // Whether the last message carries one depends on what follows it.
  const settled = lookThrough(seen, messages, Math.max(messages.length - 1, from));
  if (memo) memo.reminders = settled;
  return lookThrough({ ...settled, places: [...settled.places] }, messages, messages.length).places;
}

/** Goes on to a place further on. Adds to `places`. */
function lookThrough(seen: Reminders, messages: readonly Message[], upTo: number): Reminders {
  const { remindEvery, places } = seen;
  let { turns } = seen;
  for (let index = seen.upTo; index < upTo; index++) {
    const message = messages[index] as Message;
    if (isFromUser(message)) turns = 0;
    else if (message.role === "assistant") turns++;
    else if (message.role === "tool" && turns % remindEvery === 0 && messages[index + 1]?.role !== "tool") {
      places.push(index);
    }
  }
  return { ...seen, turns, upTo, last: messages[upTo - 1] };
}

/** How much of a summary that is longer than its share is sent: it may be of another budget. */
function mostOfSummary({ summary, settings: { budgetTokens }, fixedTokens, count }: WindowInput): number | undefined {
  if (!summary || budgetTokens === undefined) return undefined;
  const most = longestSummary(budgetTokens - fixedTokens);
  return count(summary.text) > most ? most : undefined;
}

/** The smallest budget for what takes `tokens` with the present one: a summary's share grows with the budget. */
function smallestBudget(
  { summary, settings: { budgetTokens = 0 }, fixedTokens, count }: WindowInput,
  tokens: number,
): number {
  const whole = count(summary?.text ?? "");
  const summaryAt = (budget: number): number => Math.min(whole, longestSummary(budget - fixedTokens));
  const beside = tokens - summaryAt(budgetTokens);
  let smallest = tokens;
  while (smallest < beside + summaryAt(smallest)) smallest = beside + summaryAt(smallest);
  return smallest;
}

type Costs = {
  /** Tokens of the request if the transcript is sent from this index on. */
  from(start: number): number;
  /** Tokens of all that is sent whatever the start. */
  beside: number;
};

function createCosts(input: WindowInput, reminders: number[]): Costs {
  const { messages, goal, countMessage, count, summary, nudge, fixedTokens } = input;
  const base = summary?.upTo ?? 0;
  const after = tokensAfter(input, base);
  const system = messages.filter(isSystem).reduce((sum, message) => sum + countMessage(message), 0);
  const asked =
    goal === undefined
      ? { tokens: 0, restated: 0 }
      : { tokens: countMessage(messages[goal] as Message), restated: count(goalTextOf(messages, goal)) };
  const reminder = Math.min(asked.restated, reminderTokens) + reminderOverhead;
  const told = (mostOfSummary(input) ?? count(summary?.text ?? "")) + count(nudge ?? "");
  const beside = fixedTokens + system + told + renderOverhead + asked.tokens;
  return {
    beside,
    from: (start) => {
      const isApart = goal !== undefined && goal < start;
      const reminded = reminders.filter((index) => index >= start).length * reminder;
      return beside - (isApart ? 0 : asked.tokens) + (after[start - base] as number) + reminded;
    },
  };
}

/** Tokens of the messages from `base` + i on, those of system messages apart. */
function tokensAfter({ messages, countMessage }: WindowInput, base: number): number[] {
  const after: number[] = [0];
  for (let index = messages.length - 1; index >= base; index--) {
    const message = messages[index] as Message;
    const isBridged = message.role === "user" && messages[index - 1]?.role === "tool";
    const own = isSystem(message) ? 0 : countMessage(message) + (isBridged ? bridgeTokens : 0);
    after.push((after.at(-1) as number) + own);
  }
  return after.reverse();
}

export function goalTextOf(messages: readonly Message[], goal: number): string {
  return textOf((messages[goal] as Message).content);
}
