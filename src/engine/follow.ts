import { DroverError, unknownRun } from "../core/errors.ts";
import type { FeedEntry } from "../core/event.ts";
import {
  type ExpandedEntry,
  type FeedPosition,
  type FeedState,
  feedDelta,
  feedEntry,
  fromFeedId,
  type RunFeedEvent,
  startFeed,
} from "../core/feed.ts";
import { textOf } from "../core/message.ts";
import { isEnded } from "../core/run.ts";
import { transcriptOf } from "../core/session.ts";
import type { LiveDelta, RunStore, Signals } from "../ports.ts";

const pageSize = 200;
/** So many entries are held with their content at a time, and fewer while they are large: each may point at a megabyte. */
const mostAtOnce = 16;
const largePortion = 250_000;
/** Looked at this often even if no signal came: signals are best effort. */
const lookEveryMs = 1_000;

export type FollowOptions = {
  /** Goes on after the event with this `id` or `seq`; default: from the beginning. */
  after?: string | number | undefined;
  signal?: AbortSignal | undefined;
  /** If `after` is in the middle of an execution's text, that text comes again from its beginning. */
  wholeText?: boolean | undefined;
};

/** What a feed is made of; of the signals only that something happened. */
export type FollowDeps = {
  store: Pick<RunStore, "load" | "readFeed" | "readLive" | "readMessages" | "readResults">;
  /** When the run was created that is followed, and whoever has its id now; default: from the first entry of the feed. */
  birth?: { at: number; now(): Promise<number | undefined> } | undefined;
  signals: Pick<Signals, "onRun">;
};
type Store = FollowDeps["store"];

/**
 * A run's feed, from any point, during and after the run: ends with the event that ended it.
 *
 * @throws DroverError "invalid" for an `after` that is no event's id, "not_found" for an unknown run, and for one that
 *   was deleted meanwhile: another that took its id is not followed.
 */
export async function* follow(
  deps: FollowDeps,
  runId: string,
  options: FollowOptions = {},
): AsyncGenerator<RunFeedEvent> {
  const { store, signals } = deps;
  const { signal } = options;
  const position = fromFeedId(options.after ?? 0);
  if (!position) {
    throw new DroverError("invalid", `after: expected the id or seq of an event, got ${JSON.stringify(options.after)}`);
  }
  const birth = deps.birth ?? (await birthOf(store, runId));
  const bell = createBell(signal);
  let unsubscribe: () => void = () => {};
  try {
    unsubscribe = await signals.onRun(runId, bell.ring);
    const reader = await createReader(store, runId, { position, wholeText: options.wholeText });
    while (!signal?.aborted) {
      let count = 0;
      for await (const events of ofOneRun(reader, runId, birth)) {
        count += events.length;
        yield* events;
        if (signal?.aborted) return;
      }
      if (reader.ended()) return;
      if (count === 0) await bell.wait(lookEveryMs);
    }
  } finally {
    unsubscribe();
    bell.close();
  }
}

type Birth = NonNullable<FollowDeps["birth"]>;

/**
 * What there is to read, each portion given out only if the run was still there after it was read: a run is deleted as a
 * whole, and its time of creation with it.
 */
async function* ofOneRun(reader: Reader, runId: string, birth: Birth): AsyncGenerator<RunFeedEvent[]> {
  const check = async (): Promise<void> => {
    if ((await birth.now()) === birth.at) return;
    throw new DroverError("not_found", `Run "${runId}" was deleted while its events were read.`);
  };
  let isQuiet = true;
  for await (const events of reader.read()) {
    if (events.length === 0) continue;
    isQuiet = false;
    await check();
    yield events;
  }
  if (isQuiet && !reader.ended()) await check();
}

/** Tells a run from another one that takes its id after it was deleted. @throws DroverError "not_found" */
export async function birthOf(store: Pick<RunStore, "readFeed">, runId: string): Promise<Birth> {
  const now = async (): Promise<number | undefined> => (await store.readFeed(runId, 0, 1))[0]?.at;
  const at = await now();
  if (at === undefined) throw unknownRun(runId);
  return { at, now };
}

type Bell = { ring: () => void; wait: (ms: number) => Promise<void>; close: () => void };

/** Remembers a ring that came while nobody waited. */
function createBell(signal: AbortSignal | undefined): Bell {
  let rung = false;
  let wake: (() => void) | undefined;
  const ring = (): void => {
    rung = true;
    wake?.();
  };
  signal?.addEventListener("abort", ring, { once: true });
  return {
    ring,
    close: () => signal?.removeEventListener("abort", ring),
    wait: async (ms) => {
      if (!rung) {
        await new Promise<void>((resolve) => {
          const timer = setTimeout(resolve, ms);
          wake = () => {
            clearTimeout(timer);
            resolve();
          };
        });
      }
      rung = false;
      wake = undefined;
    },
  };
}

type Reader = {
  /** What there is now, in portions. */
  read(): AsyncGenerator<RunFeedEvent[]>;
  /** Whether all that was read up to the run's end. */
  ended(): boolean;
};

type Place = { position: FeedPosition; wholeText?: boolean | undefined };

async function createReader(store: Store, runId: string, place: Place): Promise<Reader> {
  const begun = await startState(store, runId, place);
  const { transcript } = begun;
  let { state, ended } = begun;
  let complete = ended;
  let live = "0";
  let held: LiveDelta[] = [];
  let portion = mostAtOnce;

  /** Gives out live text up to the next turn; text of later turns waits until the entries before it were read. */
  async function* drain(winner?: string): AsyncGenerator<RunFeedEvent[]> {
    for (;;) {
      const page = held.length > 0 ? { deltas: [], next: live } : await store.readLive(runId, live);
      const deltas = [...held, ...page.deltas];
      live = page.next;
      held = [];
      const events: RunFeedEvent[] = [];
      for (const [index, delta] of deltas.entries()) {
        const fed = feedDelta(state, delta, winner);
        if (!fed) {
          held = deltas.slice(index);
          yield events;
          return;
        }
        state = fed.state;
        events.push(...fed.events);
      }
      yield events;
      if (deltas.length === 0) return;
    }
  }

  async function* give(entry: ExpandedEntry): AsyncGenerator<RunFeedEvent[]> {
    // Text was published before the commit of its answer.
    if (entry.type === "model_answered") yield* drain(entry.execution);
    if (entry.type === "model_failed") yield* drain();
    const fed = feedEntry(state, entry, textOf);
    state = fed.state;
    ended = entry.type === "run_ended" || entry.type === "run_rejected" || (ended && entry.type === "usage_reported");
    yield fed.events;
  }

  async function* read(): AsyncGenerator<RunFeedEvent[]> {
    const entries = await store.readFeed(runId, state.seq, pageSize);
    complete = false;
    if (entries.length === 0) yield* drain();
    for (let rest = entries; rest.length > 0; ) {
      const expanded = await expand(store, { runId, transcript }, rest.slice(0, portion));
      rest = rest.slice(portion);
      portion = expanded.some(isLarge) ? 1 : Math.min(mostAtOnce, portion * 2);
      for (const entry of expanded) yield* give(entry);
    }
    if (!ended && entries.at(-1)?.type === "usage_reported") ended = await hasEndedAt(store, runId, state.seq);
    complete = ended && entries.length < pageSize;
  }

  return { read, ended: () => complete };
}

/** Usage may come after the end, and a reader may go on from the end. */
async function hasEndedAt(store: Store, runId: string, seq: number): Promise<boolean> {
  const run = await store.load(runId);
  return run === null || (isEnded(run) && run.eventSeq <= seq);
}

/** `transcript`: the name of the one that entries point into. */
type Start = { state: FeedState; ended: boolean; transcript: string };

async function startState(store: Store, runId: string, { position, wholeText }: Place): Promise<Start> {
  const run = await store.load(runId);
  if (!run) throw unknownRun(runId);
  const [next] = await store.readFeed(runId, position.seq, 1);
  const transcript = transcriptOf(run);
  if (!next) return { state: startFeed(position, run.turns, wholeText), ended: isEnded(run), transcript };
  const turn = next.type === "model_answered" ? next.turn - 1 : next.turn;
  return { state: startFeed(position, turn, wholeText), ended: false, transcript };
}

function isLarge({ answer, content = [] }: ExpandedEntry): boolean {
  const said = [...content, ...(answer ? [answer] : [])].map((message) => textOf(message.content).length);
  return said.reduce((sum, length) => sum + length, 0) > largePortion / mostAtOnce;
}

/** Puts the content in that entries point at; the feed itself repeats none. */
async function expand(store: Store, of: Source, entries: FeedEntry[]): Promise<ExpandedEntry[]> {
  return Promise.all(entries.map((entry) => expandOne(store, of, entry)));
}

type Source = { runId: string; transcript: string };

async function expandOne(store: Store, { runId, transcript }: Source, entry: FeedEntry): Promise<ExpandedEntry> {
  switch (entry.type) {
    case "run_created":
    case "messages_appended":
      return { ...entry, content: await store.readMessages(transcript, ...entry.messages) };
    case "model_answered": {
      const [answer] = await store.readMessages(transcript, entry.message, entry.message + 1);
      return { ...entry, answer };
    }
    case "tool_finished": {
      const [settled] = await store.readMessages(transcript, entry.message, entry.message + 1);
      if (settled) return { ...entry, answer: settled };
      // It waits for the other calls of its turn, or has just been moved.
      const early = (await store.readResults(runId))[entry.callId];
      return { ...entry, answer: early ?? (await store.readMessages(transcript, entry.message, entry.message + 1))[0] };
    }
    default:
      return entry;
  }
}
