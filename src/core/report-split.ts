// Which entries of a run's feed belong to which turn.

import type { FeedEntry } from "./event.ts";
import { isEnded, type Run } from "./run.ts";

type EntryOf<T extends FeedEntry["type"]> = Extract<FeedEntry, { type: T }>;

/**
 * What was committed of one turn.
 * - `startedAt`, `endedAt`: see `TurnView`;
 * - `input`: transcript ranges of what entered before its model call;
 * - `entries`: all others, in order.
 */
export type TurnEntries = {
  turn: number;
  startedAt: number;
  endedAt?: number | undefined;
  answer?: EntryOf<"model_answered"> | undefined;
  input: [number, number][];
  entries: FeedEntry[];
};

/** What the run does: ask for an answer, wait for the calls of the last one, or find out what follows a final one. */
type Phase = "asking" | "calling" | "answered";
type Split = { turns: TurnEntries[]; phase: Phase };

/**
 * The entries turn by turn. A turn that has no answer yet is among them if anything happened in it.
 *
 * @param entries a feed, or a part of one that begins with an answer. What came before that answer in its turn is missing.
 */
export function splitTurns(entries: readonly FeedEntry[]): TurnEntries[] {
  const split: Split = { turns: [], phase: "asking" };
  for (const entry of entries) place(split, entry);
  return split.turns;
}

function place(split: Split, entry: FeedEntry): void {
  switch (entry.type) {
    case "model_answered":
      put(split, entry, entry.turn).answer = entry;
      split.phase = entry.calls.length > 0 ? "calling" : "answered";
      return;
    case "run_created":
      addInput(split, entry, entry.messages);
      return;
    case "messages_appended":
      if (split.phase === "calling") closeTurn(split, entry);
      else addInput(split, entry, entry.messages);
      return;
    case "answer_refused":
      put(split, entry, entry.turn);
      addInput(split, entry, [entry.message, entry.message + 1]);
      return;
    case "session_queued":
    case "session_entered":
      closeTurn(split, entry);
      put(split, entry, entry.turn + 1);
      return;
    case "input_received":
      return;
    default:
      placeOther(split, entry);
  }
}

function placeOther(split: Split, entry: FeedEntry): void {
  const turn = split.phase === "asking" ? entry.turn + 1 : entry.turn;
  switch (entry.type) {
    case "run_retried":
      put(split, entry, turn).endedAt = undefined;
      return;
    case "run_rejected":
      put(split, entry, turn).endedAt = entry.at;
      return;
    case "run_ended":
      put(split, entry, lastTurn(split, turn)).endedAt ??= entry.at;
      return;
    case "usage_reported":
      put(split, entry, lastTurn(split, turn));
      return;
    default:
      put(split, entry, turn);
  }
}

/** What ends a run, or comes late, is told in the last turn of which anything is known. */
function lastTurn({ turns }: Split, turn: number): number {
  return Math.min(turn, turns.at(-1)?.turn ?? turn);
}

/** The next answer is asked for from here on. */
function closeTurn(split: Split, { at }: FeedEntry): void {
  const last = split.turns.at(-1);
  if (last && split.phase !== "asking") last.endedAt ??= at;
  split.phase = "asking";
}

function addInput(split: Split, entry: FeedEntry, range: [number, number]): void {
  closeTurn(split, entry);
  const { input } = open(split, entry, entry.turn + 1);
  if (range[1] > range[0]) input.push(range);
}

function put(split: Split, entry: FeedEntry, turn: number): TurnEntries {
  const group = open(split, entry, turn);
  group.entries.push(entry);
  return group;
}

function open({ turns }: Split, { type, at }: FeedEntry, turn: number): TurnEntries {
  const last = turns.at(-1);
  if (last?.turn === turn) return last;
  const startedAt = type === "run_retried" ? at : (last?.endedAt ?? at);
  const group: TurnEntries = { turn, startedAt, input: [], entries: [] };
  turns.push(group);
  return group;
}

/**
 * The last turns of a run, the one in the making included though nothing of it may be committed yet.
 *
 * @param last what `splitTurns` makes of the feed's end. @param run the head as of the feed's last entry
 */
export function withNext(last: TurnEntries[], run: Run): TurnEntries[] {
  const { turns, model, calls, pendingInput, updatedAt } = run;
  const known = last.at(-1);
  const isBusy = model?.task === "verify" || calls.length > 0;
  if (isEnded(run) || (isBusy && pendingInput.length === 0) || known?.turn === turns + 1) return last;
  const startedAt = known?.endedAt ?? updatedAt;
  return [...last, { turn: turns + 1, startedAt, input: [], entries: [] }];
}
