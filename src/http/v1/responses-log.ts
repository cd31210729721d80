import { DroverError, isOutage } from "../../core/errors.ts";
import { pause } from "../../engine/pause.ts";
import { redactedFeed } from "../redacted-feed.ts";
import type { HttpDeps } from "../types.ts";
import { badField, type V1Error } from "./errors.ts";
import { anchorOf, endsWith, eventOf, pageSize, readLog, toStored, withEvents } from "./event-log.ts";
import { abandon, begin, type Projected, project } from "./project.ts";
import { type Projection, type Subject, startProjection } from "./projection.ts";
import { createThoughtFilter } from "./thoughts.ts";

/** Numbered events of Responses, made by whoever watches them first and kept for the others, on any server. */
export type ResponsesLog = {
  /**
   * A Response's events from a number on, as JSON texts, up to the one that ends it. Once they have expired they are made
   * anew, from the first.
   *
   * @throws DroverError "queue_unavailable" before the first event; later outages are waited out.
   */
  events(of: Subject, from: number, signal: AbortSignal): AsyncGenerator<string>;
  /** How many events there are by now; "expired" if there were some. */
  length(of: Subject): Promise<{ next: number; ended: boolean } | "expired">;
};

/** Events are kept for so long after the end, or after they were last asked for. */
const keptMs = 10 * 60_000;
const lookAgainMs = 500;

/** What one process knows of a log that somebody in it watches. */
type Hub = {
  watchers: number;
  /** How many events there are, as far as is known here; -1 while it isn't. */
  length: number;
  /** The last of them, for watchers that have all others: so many watchers cost one reader. */
  recent: string[];
  state: "open" | "ended" | "expired";
  error: unknown;
  changed: PromiseWithResolvers<void>;
  stop: AbortController;
};

/**
 * How a server follows a log that another one makes: it looks for new events, and goes on by itself when there were none
 * for a while. In ms.
 */
type Following = { lookEveryMs: number; patienceMs: number };
const usualFollowing: Following = { lookEveryMs: 100, patienceMs: 1_000 };

export function createResponsesLog(deps: HttpDeps, following: Following = usualFollowing): ResponsesLog {
  const hubs = new Map<string, Hub>();

  function join(of: Subject): Hub {
    const known = hubs.get(of.id);
    if (known) {
      known.watchers += 1;
      return known;
    }
    const changed = Promise.withResolvers<void>();
    const stop = new AbortController();
    const hub: Hub = { watchers: 1, length: -1, recent: [], state: "open", error: undefined, changed, stop };
    hubs.set(of.id, hub);
    void write({ deps, of, hub, following }).catch((error: unknown) => {
      hub.error = error;
      if (hubs.get(of.id) === hub) hubs.delete(of.id);
      ring(hub);
    });
    return hub;
  }

  function leave(of: Subject, hub: Hub): void {
    hub.watchers -= 1;
    if (hub.watchers > 0) return;
    hub.stop.abort();
    if (hubs.get(of.id) === hub) hubs.delete(of.id);
  }

  return {
    async *events(of, from, signal) {
      const hub = join(of);
      const gone = Promise.withResolvers<void>();
      const onAbort = (): void => gone.resolve();
      signal.addEventListener("abort", onAbort);
      let at = from;
      try {
        while (!signal.aborted) {
          const { changed, state, error } = hub;
          if (error !== undefined) throw error;
          if (state === "expired") return yield* replayFrom(deps, of, { at, signal });
          const page = hub.length > at ? await readPage(deps, of.id, { hub, from: at, signal }) : [];
          for (const stored of page) yield eventOf(stored);
          at += page.length;
          if (endsWith(page) || (page.length === 0 && state !== "open")) return;
          if (page.length === 0) await Promise.race([changed.promise, gone.promise]);
        }
      } finally {
        signal.removeEventListener("abort", onAbort);
        leave(of, hub);
      }
    },
    async length(of) {
      const log = await readBegun(deps, of);
      return log === "expired" ? log : { next: log.next, ended: log.phase === "ended" };
    },
  };
}

function ring(hub: Hub): void {
  hub.changed.resolve();
  hub.changed = Promise.withResolvers();
}

/** So many are kept at hand. */
const mostRecent = 200;

function remember(hub: Hub, stored: string[], length: number): void {
  hub.recent = [...hub.recent, ...stored].slice(-mostRecent);
  hub.length = length;
}

type Place = { hub: Hub; from: number; signal: AbortSignal };

async function readPage({ responses, logger }: HttpDeps, id: string, { hub, from, signal }: Place): Promise<string[]> {
  const atHand = hub.recent.length - (hub.length - from);
  if (atHand >= 0) return hub.recent.slice(atHand);
  for (;;) {
    try {
      return await responses.read(id, from, pageSize);
    } catch (error) {
      if (!isOutage(error) || signal.aborted) throw error;
      logger.debug({ responseId: id }, "events of a response could not be read yet");
      await pause(lookAgainMs, signal);
    }
  }
}

type Writing = { deps: HttpDeps; of: Subject; hub: Hub; following: Following };

/** Brings the log to its end, in turn with whoever else does. */
async function write(writing: Writing): Promise<void> {
  const { deps, of, hub } = writing;
  const { signal } = hub.stop;
  let known: Projection | undefined;
  while (!signal.aborted && hub.state === "open") {
    try {
      const log: Projection | "expired" = known ? await readLog(deps.responses, of, known) : await readBegun(deps, of);
      if (log === "expired") hub.state = log;
      else {
        hub.recent = [];
        hub.length = log.next;
        ring(hub);
        known = await toEnd(writing, log);
        if (known.phase === "ended") hub.state = "ended";
      }
      ring(hub);
    } catch (error) {
      // Before anything is known of it, whoever asks is told; after that it is waited out.
      if (!isOutage(error) || hub.length === -1) throw error;
      await pause(lookAgainMs, signal);
    }
  }
}

/** Goes on until the end, or until another server has gone on and is quiet again. @returns what is known by then */
async function toEnd(writing: Writing, log: Projection): Promise<Projection> {
  // Whoever wrote the end may have died before saying how long it is kept.
  if (log.phase === "ended") await writing.deps.responses.expireEvents(writing.of.id, keptMs);
  if (log.phase === "ended") return log;
  const { state, lost } = await goOn(writing, log);
  return lost ? followOthers(writing, state) : state;
}

/** Takes what another server appends, as long as it does: two that go on at once would only hinder each other. */
async function followOthers({ deps, of, hub, following }: Writing, from: Projection): Promise<Projection> {
  const { signal } = hub.stop;
  let state = from;
  for (let quietMs = 0; quietMs < following.patienceMs && !signal.aborted; quietMs += following.lookEveryMs) {
    const page = await deps.responses.read(of.id, state.next, pageSize);
    if (page.length === 0) {
      await pause(following.lookEveryMs, signal);
      continue;
    }
    state = withEvents(state, page);
    remember(hub, page, state.next);
    ring(hub);
    if (endsWith(page)) return state;
    quietMs = 0;
  }
  return state;
}

/** The log with its first events, which are made if nobody has; "expired" if somebody has and they are gone. */
async function readBegun(deps: HttpDeps, of: Subject): Promise<Projection | "expired"> {
  const log = await readLog(deps.responses, of);
  if (log.phase !== "new") return log;
  const { state, events } = begin(log, of);
  if (await deps.responses.append(of.id, 0, toStored(events, state))) return state;
  const others = await readLog(deps.responses, of);
  return others.phase === "new" ? "expired" : others;
}

/** @returns how far the log came; `lost` if another server has appended first. */
async function goOn({ deps, of, hub }: Writing, from: Projection): Promise<{ state: Projection; lost: boolean }> {
  const { responses } = deps;
  const { signal } = hub.stop;
  let state = from;

  async function keep(made: Projected): Promise<boolean> {
    if (made.events.length > 0) {
      const stored = toStored(made.events, made.state);
      if (!(await responses.append(of.id, state.next, stored))) return false;
      remember(hub, stored, made.state.next);
      if (made.state.phase === "ended") await responses.expireEvents(of.id, keptMs);
      ring(hub);
    }
    state = made.state;
    return true;
  }

  for await (const event of feedOf(deps, of, { from: anchorOf(state), signal })) {
    if (!(await keep(project(state, of, event)))) return { state, lost: true };
    if (state.phase === "ended") return { state, lost: false };
  }
  if (signal.aborted) return { state, lost: false };
  return { lost: !(await keep(abandon(state, of, deps.now()))), state };
}

type FeedPlace = { from: string; signal: AbortSignal };

/** What a run's feed tells from a place on, as it may be shown. It ends with its run, and where that was deleted. */
async function* feedOf({ watch, redactor }: HttpDeps, { runId }: Subject, { from, signal }: FeedPlace) {
  const filter = createThoughtFilter();
  const feed = redactedFeed((options) => watch.events(runId, options), redactor, { after: from, signal });
  try {
    for await (const event of feed) yield* filter(event);
  } catch (error) {
    if (!(error instanceof DroverError) || error.code !== "not_found") throw error;
  }
}

/** The events made of the feed without being kept. @throws V1Error for whoever has some of the old ones */
async function* replayFrom(
  deps: HttpDeps,
  of: Subject,
  { at, signal }: { at: number; signal: AbortSignal },
): AsyncGenerator<string> {
  if (at > 0) throw eventsExpired();
  for await (const { events } of projections(deps, of, signal)) yield* events.map((event) => JSON.stringify(event));
}

/** All that becomes of a Response from its beginning to its end, in memory. */
export async function* projections(deps: HttpDeps, of: Subject, signal: AbortSignal): AsyncGenerator<Projected> {
  let made = begin(startProjection(of), of);
  yield made;
  for await (const event of feedOf(deps, of, { from: anchorOf(made.state), signal })) {
    made = project(made.state, of, event);
    yield made;
    if (made.state.phase === "ended") return;
  }
  if (!signal.aborted) yield abandon(made.state, of, deps.now());
}

export function eventsExpired(): V1Error {
  const message =
    "The numbered events of this response are kept for ten minutes after its end, and are gone. Stream it without starting_after, or retrieve it.";
  return badField("starting_after", message, "events_expired");
}
