import type { EndedStatus } from "./core/retention.ts";
import type { Run } from "./core/run.ts";

/** What one look at ended runs did. `kept`: runs that were looked at and stay for now; the next look goes on after them. */
export type Removal = { removed: string[]; kept: number };

/** `offset`: where to begin, default 0. `spare`: a run for which it says true stays, whatever its age. */
export type RemovalOptions = {
  offset?: number | undefined;
  spare?: ((run: Run) => Promise<boolean>) | undefined;
};

/** How runs that ended long ago are found and removed, a page at a time. Part of `RunStore`. */
export interface RetentionStore {
  /**
   * Removes runs that ended with this status before `before` (epoch ms), those that ended first first, as `remove` does;
   * one that changed meanwhile or still has others to tell stays. Looks at no more than `limit`.
   */
  removeEnded(status: EndedStatus, before: number, limit: number, options?: RemovalOptions): Promise<Removal>;
  /**
   * Drops the transcripts of sessions that have had no run since before `before`; looks at no more than `limit`.
   *
   * @returns how many it looked at: fewer than `limit` are all there were
   */
  removeIdleSessions(before: number, limit: number): Promise<number>;
  /** When the run that is kept longest ended, epoch ms; undefined if none of that status is kept. */
  oldestEnd(status: EndedStatus): Promise<number | undefined>;
  /** When the oldest run that is kept was created, whatever its status, epoch ms; undefined if there is none. */
  oldestCreation(): Promise<number | undefined>;
  /**
   * Drops agent definitions that were put last before `before` (epoch ms); looks at no more than `limit`.
   *
   * @returns how many went
   */
  removeDefinitions(before: number, limit: number): Promise<number>;
}
