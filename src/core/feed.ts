// Makes one numbered feed of a run out of what was committed and of the text that is still arriving.
//
// F1. Whatever a reader was given, the texts of a turn that are not superseded join to that turn's answer.
// F2. A reader that goes on from the id of the last thing it got loses nothing and gets nothing twice, even when the
//     live text is gone by then: the id says how much of which execution's text it has.

import type { FeedEntry } from "./event.ts";
import type { Content, Message } from "./message.ts";

/** A feed entry with the content it points at. */
export type ExpandedEntry = FeedEntry & {
  /** Input or results that entered the transcript with this entry. */
  content?: Message[] | undefined;
  /** The assistant's message (`model_answered`), or the call's result (`tool_finished`). */
  answer?: Message | undefined;
};

export type TextEvent =
  | { type: "text"; turn: number; attempt: number; execution: string; text: string }
  /** All text of that execution is void: its attempt failed, or its worker was lost. */
  | { type: "text_superseded"; turn: number; attempt: number; execution: string };

/** `id` goes on from here when given as `after`; `seq` is the number of the last committed entry. */
export type RunFeedEvent = (ExpandedEntry | (TextEvent & { seq: number; at: number })) & { id: string };

/**
 * What a reader has had: a committed entry, and so many characters of one execution's text after it; none if that text
 * is void.
 */
export type FeedPosition = { seq: number; execution?: string | undefined; length: number };

/** The feed's beginning. */
export const feedStart: FeedPosition = { seq: 0, length: 0 };

export function toFeedId({ seq, execution, length }: FeedPosition): string {
  return execution === undefined ? String(seq) : `${seq}.${execution}.${length}`;
}

/** Reads a position from an event's id or `seq`; null if it is neither. */
export function fromFeedId(id: string | number): FeedPosition | null {
  const match = /^(\d{1,15})(?:\.([A-Za-z0-9]+)\.(\d{1,15}))?$/.exec(String(id));
  if (!match) return null;
  const [, seq, execution, length] = match;
  return { seq: Number(seq), execution, length: Number(length ?? 0) };
}

/** A piece of live text as it is stored. Executions of a turn order by when they began. */
export type FeedDelta = { turn: number; attempt: number; execution: string; text: string };

/** Text of an execution that was given out and not yet confirmed. `known`: as much of it as was read from the live text. */
type OpenText = { turn: number; attempt: number; execution: string; length: number; known: string };

export type FeedState = {
  seq: number;
  at: number;
  /** Turns answered by what was given out. */
  turns: number;
  open: OpenText | undefined;
  /** Characters of `open`'s execution that the live text repeats and the reader has already. */
  skip: number;
  /** The execution of the next turn that began last, of those seen. Text of earlier ones, and of itself unless it is open, is void. */
  newest: string | undefined;
};

/** @param wholeText the reader has had some of that execution's text, and is given all of it again. */
export function startFeed(position: FeedPosition, turns: number, wholeText: boolean = false): FeedState {
  const { seq, execution, length } = position;
  const had = wholeText ? 0 : length;
  const isOpen = execution !== undefined && length > 0;
  const open = isOpen ? { turn: turns + 1, attempt: 1, execution, length: had, known: "" } : undefined;
  return { seq, at: 0, turns, open, skip: had, newest: execution };
}

export type Fed = { state: FeedState; events: RunFeedEvent[] };

/**
 * Takes one piece of live text.
 *
 * @param winner the execution whose answer is known to have been committed: nobody needs the text of others any more.
 * @returns null if it belongs to a later turn than the next one: entries that lie between must be read first.
 */
export function feedDelta(state: FeedState, delta: FeedDelta, winner?: string): Fed | null {
  const { turn, attempt, execution } = delta;
  if (turn > state.turns + 1) return null;
  if (turn <= state.turns || isPassed(state, execution, winner)) return { state, events: [] };
  const events: RunFeedEvent[] = [];
  let { open, skip } = state;
  if (open && open.execution !== execution) {
    events.push(supersede(state, open));
    open = undefined;
    skip = 0;
  }
  open ??= { turn, attempt, execution, length: 0, known: "" };
  const fresh = delta.text.slice(skip);
  skip = Math.max(0, skip - delta.text.length);
  open = { ...open, turn, attempt, length: open.length + fresh.length, known: open.known + delta.text };
  if (fresh !== "") events.push(textEvent(state, open, fresh));
  return { state: { ...state, open, skip, newest: execution }, events };
}

/** Whether an execution's text is void: another one's answer was committed, or another one began later (a frozen worker goes on). */
function isPassed({ newest, open }: FeedState, execution: string, winner: string | undefined): boolean {
  if (winner !== undefined && execution !== winner) return true;
  if (newest === undefined || execution > newest) return false;
  return execution < newest || open?.execution !== execution;
}

/** Takes one committed entry, after all live text that was published before it. */
export function feedEntry(state: FeedState, entry: ExpandedEntry, textOf: (content: Content | null) => string): Fed {
  const { seq, at } = entry;
  if (entry.type === "model_answered") {
    const text = entry.answer?.role === "assistant" ? textOf(entry.answer.content) : "";
    const events = [...confirm(state, entry, text), { ...entry, id: toFeedId({ seq, length: 0 }) }];
    return { state: { seq, at, turns: entry.turn, open: undefined, skip: 0, newest: undefined }, events };
  }
  const { open } = state;
  const isOver = open && isVoid(entry, open);
  const next = { ...state, seq, at, ...(isOver ? { open: undefined, skip: 0 } : {}) };
  return { state: next, events: [...(isOver ? [supersede(state, open)] : []), { ...entry, id: idOf(next) }] };
}

/** Where a reader is that has had everything up to this state. */
function idOf({ seq, open, newest }: FeedState): string {
  return toFeedId({ seq, execution: open?.execution ?? newest, length: open?.length ?? 0 });
}

/** What is missing of an answer's text. What was given out and does not begin it is superseded. */
function confirm(
  state: FeedState,
  answer: { turn: number; attempt: number; execution: string },
  text: string,
): RunFeedEvent[] {
  const { turn, attempt, execution } = answer;
  const { open } = state;
  const begun = open && open.execution === execution && text.startsWith(open.known);
  const rest = text.slice(begun ? open.length : 0);
  return [
    ...(open && !begun ? [supersede(state, open)] : []),
    ...(rest === "" ? [] : [textEvent(state, { turn, attempt, execution, length: text.length }, rest)]),
  ];
}

function isVoid(entry: ExpandedEntry, open: OpenText): boolean {
  if (entry.type === "model_failed") return entry.execution === open.execution;
  return entry.type === "run_ended" || (entry.type === "step_crashed" && entry.callId === undefined);
}

function textEvent(state: FeedState, open: Omit<OpenText, "known">, text: string): RunFeedEvent {
  const { turn, attempt, execution, length } = open;
  const { seq, at } = state;
  return { type: "text", id: toFeedId({ seq, execution, length }), seq, at, turn, attempt, execution, text };
}

function supersede(state: FeedState, { turn, attempt, execution }: OpenText): RunFeedEvent {
  const { seq, at } = state;
  return { type: "text_superseded", id: toFeedId({ seq, execution, length: 0 }), seq, at, turn, attempt, execution };
}
