import type { Series } from "./series.ts";

/**
 * How an agent's history is shown to its model.
 * - `budgetTokens`: of a whole request, room for the answer included; undefined: everything is sent;
 * - `lastTurns`: sent in full once the budget is passed, default 6;
 * - `remindEvery`: turns between restatements of the goal, default 3; 0: never;
 * - `summarise`: whether the part before is condensed, default true.
 */
export type WindowSettings = {
  budgetTokens?: number | undefined;
  lastTurns: number;
  remindEvery: number;
  summarise: boolean;
};

/** What of a transcript is sent: plain data, from which the very same messages can be rendered again (invariant 6). */
export type WindowPlan = {
  /** Half-open ranges of transcript indexes, ascending. */
  messages: [number, number][];
  /** Index of the goal if it is restated from outside the ranges. */
  goal?: number | undefined;
  /** Id of the summary that stands for what is left out. */
  summary?: number | undefined;
  /** The summary is sent cut to so many tokens. */
  summaryTokens?: number | undefined;
  /** How many messages are left out without a summary. */
  omitted?: number | undefined;
  /** Indexes of messages whose sent form carries the restated goal. */
  reminders?: Series | undefined;
  /** Messages whose text is sent cut to so many tokens. */
  cuts?: [index: number, tokens: number][] | undefined;
  /** Text added to the last message sent. */
  nudge?: string | undefined;
};

/** Stands for the messages before `upTo` in what is sent. `id`: sequence number of its feed entry. */
export type Summary = { id: number; text: string; upTo: number };
