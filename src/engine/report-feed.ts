import type { FeedEntry } from "../core/event.ts";
import { splitTurns, type TurnEntries, withNext } from "../core/report-split.ts";
import type { Run } from "../core/run.ts";
import type { RunStore } from "../ports.ts";

type Feed = Pick<RunStore, "readFeed">;

/** A feed of so many entries is read as a whole; in a longer one the turns asked for are looked up. */
const shortFeed = 500;
const pageSize = 500;

/**
 * What was committed of the turns `from` to `to`, as of the head `run`, and how many turns there are. It reads what lies
 * between, and of the rest only the last turn.
 */
export async function readTurnEntries(
  store: Feed,
  run: Run,
  { from, to }: { from: number; to: number },
): Promise<{ turns: TurnEntries[]; total: number }> {
  const { turns: answered } = run;
  if (run.eventSeq <= shortFeed || (from === 1 && to >= answered)) {
    const all = withNext(splitTurns(await readBetween(store, run, 0, Number.POSITIVE_INFINITY)), run);
    return pick(all, all, { from, to });
  }
  const readFrom = async (turn: number, upTo: number): Promise<TurnEntries[]> =>
    splitTurns(await readBetween(store, run, turn === 0 ? 0 : await findTurn(store, run, turn), upTo));
  // What came before an answer in its turn bears the number of the turn before.
  const begin = Math.min(from - 1, answered);
  if (to >= answered || begin === answered) {
    const rest = withNext(await readFrom(begin, Number.POSITIVE_INFINITY), run);
    return pick(rest, rest, { from, to });
  }
  const [asked, last] = await Promise.all([readFrom(begin, to), readFrom(answered, Number.POSITIVE_INFINITY)]);
  return pick(asked, withNext(last, run), { from, to });
}

function pick(
  turns: TurnEntries[],
  last: TurnEntries[],
  { from, to }: { from: number; to: number },
): { turns: TurnEntries[]; total: number } {
  return { turns: turns.filter(({ turn }) => turn >= from && turn <= to), total: last.at(-1)?.turn ?? 0 };
}

/** Entries after `seq` as far as the head knows, up to the last that bears a number of at most `turn`. */
async function readBetween(store: Feed, { runId, eventSeq }: Run, seq: number, turn: number): Promise<FeedEntry[]> {
  const entries: FeedEntry[] = [];
  for (let after = seq; after < eventSeq; ) {
    const page = await store.readFeed(runId, after, pageSize);
    const wanted = page.filter((entry) => entry.seq <= eventSeq && entry.turn <= turn);
    entries.push(...wanted);
    if (page.length === 0 || wanted.length < page.length) break;
    after = page.at(-1)?.seq ?? eventSeq;
  }
  return entries;
}

/** The number after which the entries of a turn begin, with its answer. Turns only grow along a feed: halving finds it. */
async function findTurn(store: Feed, { runId, eventSeq }: Run, turn: number): Promise<number> {
  let low = 0;
  let high = eventSeq;
  while (low < high) {
    const middle = Math.floor((low + high) / 2);
    const [entry] = await store.readFeed(runId, middle, 1);
    if (entry && entry.turn < turn) low = entry.seq;
    else high = middle;
  }
  return low;
}
