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
/** Looked at this often even if no signal came: signals are best effort. */
const lookEveryMs = 1_000;

export type FollowOptions = {
  /** Goes on after the event with this `id` or `seq`; default: from the beginning. */
  after?: string | number | undefined;
  signal?: AbortSignal | undefined;
};

type Deps = { store: RunStore; signals: Signals };

/**
 * A run's feed, from any point, during and after the run: ends with the event that ended it.
 *
 * @throws DroverError "invalid" for an `after` that is no event's id, "not_found" for an unknown run.
 */
export async function* follow(deps: Deps, runId: string, options: FollowOptions = {}): AsyncGenerator<RunFeedEvent> {
  const { store, signals } = deps;
  const position = fromFeedId(options.after ?? 0);
  if (!position) {
    throw new DroverError("invalid", `after: expected the id or seq of an event, got ${JSON.stringify(options.after)}`);
  }
  const bell = createBell(options.signal);
  let unsubscribe: () => void = () => {};
  try {
    unsubscribe = await signals.onRun(runId, bell.ring);
    const reader = await createReader(store, runId, position);
    while (!options.signal?.aborted) {
      const { events, ended } = await reader.read();
      yield* events;
      if (ended) return;
      if (events.length === 0) await bell.wait(lookEveryMs);
    }
  } finally {
    unsubscribe();
    bell.close();
  }
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

type Reader = { read(): Promise<{ events: RunFeedEvent[]; ended: boolean }> };

async function createReader(store: RunStore, runId: string, position: FeedPosition): Promise<Reader> {
  const begun = await startState(store, runId, position);
  const { transcript } = begun;
  let { state, ended } = begun;
  let live = "0";
  let held: LiveDelta[] = [];

  /** Gives out live text up to the next turn; text of later turns waits until the entries before it were read. */
  async function drain(winner?: string): Promise<RunFeedEvent[]> {
    const events: RunFeedEvent[] = [];
    for (;;) {
      const page = held.length > 0 ? { deltas: [], next: live } : await store.readLive(runId, live);
      const deltas = [...held, ...page.deltas];
      live = page.next;
      held = [];
      for (const [index, delta] of deltas.entries()) {
        const fed = feedDelta(state, delta, winner);
        if (!fed) {
          held = deltas.slice(index);
          return events;
        }
        state = fed.state;
        events.push(...fed.events);
      }
      if (deltas.length === 0) return events;
    }
  }

  async function read(): Promise<{ events: RunFeedEvent[]; ended: boolean }> {
    const entries = await store.readFeed(runId, state.seq, pageSize);
    if (entries.length === 0) return { events: await drain(), ended };
    const events: RunFeedEvent[] = [];
    for (const entry of await expand(store, { runId, transcript }, entries)) {
      // Text was published before the commit of its answer.
      if (entry.type === "model_answered") events.push(...(await drain(entry.execution)));
      if (entry.type === "model_failed") events.push(...(await drain()));
      const fed = feedEntry(state, entry, textOf);
      state = fed.state;
      events.push(...fed.events);
      ended = entry.type === "run_ended" || entry.type === "run_rejected" || (ended && entry.type === "usage_reported");
    }
    if (!ended && entries.at(-1)?.type === "usage_reported") ended = await hasEndedAt(store, runId, state.seq);
    return { events, ended: ended && entries.length < pageSize };
  }

  return { read };
}

/** Usage may come after the end, and a reader may go on from the end. */
async function hasEndedAt(store: RunStore, runId: string, seq: number): Promise<boolean> {
  const run = await store.load(runId);
  return run === null || (isEnded(run) && run.eventSeq <= seq);
}

/** `transcript`: the name of the one that entries point into. */
type Start = { state: FeedState; ended: boolean; transcript: string };

async function startState(store: RunStore, runId: string, position: FeedPosition): Promise<Start> {
  const run = await store.load(runId);
  if (!run) throw unknownRun(runId);
  const [next] = await store.readFeed(runId, position.seq, 1);
  const transcript = transcriptOf(run);
  if (!next) return { state: startFeed(position, run.turns), ended: isEnded(run), transcript };
  const turn = next.type === "model_answered" ? next.turn - 1 : next.turn;
  return { state: startFeed(position, turn), ended: false, transcript };
}

/** Puts the content in that entries point at; the feed itself repeats none. */
async function expand(store: RunStore, of: Source, entries: FeedEntry[]): Promise<ExpandedEntry[]> {
  return Promise.all(entries.map((entry) => expandOne(store, of, entry)));
}

type Source = { runId: string; transcript: string };

async function expandOne(store: RunStore, { runId, transcript }: Source, entry: FeedEntry): Promise<ExpandedEntry> {
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
