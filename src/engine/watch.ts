import type { RunFeedEvent } from "../core/feed.ts";
import { type FollowDeps, type FollowOptions, follow } from "./follow.ts";

/** The feeds of runs for many readers. */
export type Watch = { events(runId: string, options?: FollowOptions): AsyncGenerator<RunFeedEvent> };

export function createWatch(deps: FollowDeps): Watch {
  return { events: (runId, options) => follow(deps, runId, options) };
}
