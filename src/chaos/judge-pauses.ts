import type { FeedEntry } from "../core/event.ts";
import type { Evidence, Finding, Frozen, Window } from "./evidence.ts";
import type { Begun } from "./execution.ts";
import type { ModelCall } from "./ledger.ts";

/** Clocks of several processes agree about so well. */
const clockMs = 500;
/**
 * What a worker read before a pause it may begin in it, however late. That it has heard of the pause is taken for granted once
 * it had the leisure for so long: time in which it was frozen, or in which a tool kept its thread, is none.
 */
const hearsWithinMs = 5_000;

/** `entries`: what was committed in it; `whose`: in words; `seqs`: its first entry in the run's feed, and the one that ended it. */
type Pause = Window & { entries: readonly FeedEntry[]; whose: string; seqs?: { from: number; to: number } };
type Beginning = {
  what: string;
  at: number;
  pid: number;
  callId?: string | undefined;
  turn?: number | undefined;
  attempt: number;
  /** The last entry of the run's feed that it knew of. */
  seq?: number | undefined;
};

/**
 * In a pause nothing begins but what was in hand: nothing by a worker that had read of it, not what only the pause's own
 * commits have made possible, and nothing at all once its worker must have heard.
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
      one.type === "begun" ? [{ ...toPlace(one), what: `${one.tool} of ${one.callId}`, callId: one.callId }] : [],
    ),
    ...modelCalls.map((one): Beginning => {
      return { ...toPlace(one), what: `the model call of turn ${one.turn}`, turn: one.turn };
    }),
  ];
}

function toPlace({ at, pid, attempt, seq }: Begun | ModelCall): Pick<Beginning, "at" | "pid" | "attempt" | "seq"> {
  return { at, pid, attempt, seq };
}

/** The pauses of the run itself: from one entry of its feed to another. */
function pausesOf({ feed }: Evidence): Pause[] {
  const pauses: Pause[] = [];
  for (const [index, entry] of feed.entries()) {
    if (entry.type !== "run_paused") continue;
    const length = feed.slice(index).findIndex(({ type }) => type === "run_resumed" || type === "run_ended");
    const over = length < 0 ? undefined : feed[index + length];
    const entries = feed.slice(index + 1, over ? index + length : undefined);
    const endless = Number.POSITIVE_INFINITY;
    const seqs = { from: entry.seq, to: over?.seq ?? endless };
    pauses.push({ from: entry.at, to: over?.at ?? endless, entries, whose: "it", seqs });
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
  const { from, to, entries, seqs } = pause;
  const { seq } = one;
  if (seqs && seq !== undefined && seq >= seqs.from && seq < seqs.to) return `${one.what} began, knowingly,`;
  if (one.at <= from || one.at >= to - clockMs) return undefined;
  const since = entries.find((entry) => makesPossible(entry, one));
  if (since && one.at > since.at) return `${one.what} began, which only a commit of that time made possible,`;
  const mine = frozen.filter(({ pid }) => pid === one.pid);
  return leisureMs({ from, to: one.at }, mine) > hearsWithinMs
    ? `${one.what} began after ${one.at - from} ms`
    : undefined;
}

/** What is left of a span of time without others, which may overlap. */
function leisureMs({ from, to }: Window, others: readonly Window[]): number {
  let left = 0;
  let seen = from;
  for (const other of others.toSorted((a, b) => a.from - b.from)) {
    left += Math.max(0, Math.min(other.from, to) - seen);
    seen = Math.max(seen, other.to);
  }
  return left + Math.max(0, to - seen);
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
