import type { FeedEntry } from "../core/event.ts";
import type { Evidence, Finding, Frozen, Window } from "./evidence.ts";

/** Clocks of several processes agree about so well. */
const clockMs = 500;
/** A worker that read a run before it was paused begins its step within this time, unless it is frozen meanwhile. */
const inHandMs = 5_000;

/** `entries`: what was committed in it; `whose`: in words. */
type Pause = Window & { entries: readonly FeedEntry[]; whose: string };
type Beginning = {
  what: string;
  at: number;
  pid: number;
  callId?: string | undefined;
  turn?: number | undefined;
  attempt: number;
};

/**
 * In a pause nothing begins but what was in hand: not what only the pause's own commits have made possible, and
 * nothing at all once whatever was in hand must have been begun.
 */
export function judgePauses(evidence: Evidence): Finding[] {
  const { runId, frozen = [] } = evidence;
  const beginnings = beginningsOf(evidence);
  return [...pausesOf(evidence), ...fleetPausesOf(evidence)].flatMap((pause) => {
    const problems = [
      ...problemsOfCommits(pause),
      ...beginnings.flatMap((one) => problemOfBeginning(pause, one, frozen) ?? []),
    ];
    return problems.map(
      (text): Finding => ({ kind: "effect", runId, message: `${text} while ${pause.whose} was paused` }),
    );
  });
}

function beginningsOf({ executions, modelCalls = [] }: Evidence): Beginning[] {
  return [
    ...executions.flatMap((one): Beginning[] =>
      one.type === "begun"
        ? [{ what: `${one.tool} of ${one.callId}`, at: one.at, pid: one.pid, callId: one.callId, attempt: one.attempt }]
        : [],
    ),
    ...modelCalls.map(({ turn, attempt, at, pid }): Beginning => {
      return { what: `the model call of turn ${turn}`, at, pid, turn, attempt };
    }),
  ];
}

/** The pauses of the run itself: from one entry of its feed to another. */
function pausesOf({ feed }: Evidence): Pause[] {
  const pauses: Pause[] = [];
  for (const [index, entry] of feed.entries()) {
    if (entry.type !== "run_paused") continue;
    const length = feed.slice(index).findIndex(({ type }) => type === "run_resumed" || type === "run_ended");
    const over = length < 0 ? undefined : feed[index + length];
    const entries = feed.slice(index + 1, over ? index + length : undefined);
    pauses.push({ from: entry.at, to: over?.at ?? Number.POSITIVE_INFINITY, entries, whose: "it" });
  }
  return pauses;
}

/** By the clock. */
function fleetPausesOf({ feed, fleetPauses = [] }: Evidence): Pause[] {
  return fleetPauses.map(({ from, to }) => {
    const entries = feed.filter(({ at }) => at > from + clockMs && at < to - clockMs);
    return { from, to, entries, whose: "the fleet" };
  });
}

function problemsOfCommits({ entries, whose }: Pause): string[] {
  const answers = entries.filter(({ type }) => type === "model_answered").length;
  const starts = entries.flatMap((entry) => (entry.type === "tool_started" ? [entry.callId] : []));
  return [
    ...(answers > 1 ? [`${answers} turns were answered`] : []),
    ...(whose === "it" ? starts.map((callId) => `the start of ${callId} was committed`) : []),
  ];
}

function problemOfBeginning(pause: Pause, one: Beginning, frozen: readonly Frozen[]): string | undefined {
  const { from, to, entries } = pause;
  if (one.at <= from || one.at >= to - clockMs) return undefined;
  const since = entries.find((entry) => makesPossible(entry, one));
  if (since && one.at > since.at) return `${one.what} began, which only a commit of that time made possible,`;
  const mine = frozen.filter(({ pid, from: frozenAt }) => pid === one.pid && frozenAt < one.at);
  const free = Math.max(from, ...mine.map((each) => each.to));
  return one.at > free + inHandMs ? `${one.what} began after ${one.at - from} ms` : undefined;
}

/** Without that entry it could not have begun: the answer with the call, the last result before the turn, a failed attempt. */
function makesPossible(entry: FeedEntry, { callId, turn = 0, attempt }: Beginning): boolean {
  switch (entry.type) {
    case "model_answered":
      return callId === undefined ? turn > entry.turn : entry.calls.includes(callId);
    case "model_failed":
      return callId === undefined && turn === entry.turn + 1 && attempt > entry.attempt && entry.task === undefined;
    case "tool_finished":
      return callId === undefined && turn > entry.turn;
    case "tool_failed":
      return entry.callId === callId && attempt > entry.attempt;
    case "approved":
      return entry.callId === callId;
    default:
      return false;
  }
}
