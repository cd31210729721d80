import type { Message } from "./message.ts";
import type { WindowPlan } from "./window.ts";
import { isSystem } from "./window-segments.ts";

/** However little room there is, so much of a text is sent. */
const leastKept = 100;
/** What the note on a cut takes. */
const noteTokens = 20;

export type CutInput = {
  messages: readonly Message[];
  goal: number | undefined;
  plan: WindowPlan;
  /** How many tokens must go. */
  over: number;
  count: (text: string) => number;
};

/** The texts to cut, each to so many tokens, and what that saves; or the most that could be saved if that is too little. */
export type Cuts =
  | { type: "cuts"; cuts: [index: number, tokens: number][]; saved: number }
  | { type: "too_long"; mostSaved: number };

type Text = { index: number; tokens: number };

/** Cuts the longest texts of a window to one length, so that it fits. The goal is left whole as long as possible. */
export function placeCuts({ messages, goal, plan, over, count }: CutInput): Cuts {
  const texts = [...indexesOf(plan)].flatMap((index) => {
    const message = messages[index] as Message;
    if (isSystem(message) || typeof message.content !== "string") return [];
    return [{ index, tokens: count(message.content) }];
  });
  const others = texts.filter(({ index }) => index !== goal);
  const chosen = savedAt(others, leastKept) >= over ? others : texts;
  const mostSaved = savedAt(chosen, leastKept);
  if (mostSaved < over) return { type: "too_long", mostSaved };
  const level = levelFor(chosen, over);
  const cuts = chosen.filter(({ tokens }) => saving(tokens, level) > 0);
  return { type: "cuts", cuts: cuts.map(({ index }) => [index, level]), saved: savedAt(chosen, level) };
}

function indexesOf(plan: WindowPlan): Set<number> {
  const indexes = new Set<number>(plan.goal === undefined ? [] : [plan.goal]);
  for (const [from, to] of plan.messages) for (let index = from; index < to; index++) indexes.add(index);
  return indexes;
}

function saving(tokens: number, level: number): number {
  return Math.max(0, tokens - level - noteTokens);
}

function savedAt(texts: Text[], level: number): number {
  return texts.reduce((sum, { tokens }) => sum + saving(tokens, level), 0);
}

/** The greatest length that saves enough. */
function levelFor(texts: Text[], over: number): number {
  let low = leastKept;
  let high = Math.max(leastKept, ...texts.map(({ tokens }) => tokens));
  while (low < high) {
    const middle = Math.ceil((low + high) / 2);
    if (savedAt(texts, middle) >= over) low = middle;
    else high = middle - 1;
  }
  return low;
}
