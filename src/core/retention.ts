// How long runs are kept once they have ended. Nothing here touches a run that goes on, waits, or still has others to tell.

import { z } from "zod";
import { owed } from "./owed.ts";
import { isEnded, type Run } from "./run.ts";

/** Statuses of runs that have ended. */
export const endedStatuses = ["completed", "failed", "cancelled", "rejected"] as const;
export type EndedStatus = (typeof endedStatuses)[number];

/** How long ended runs are kept, in ms from their end, by status. Undefined or 0: until somebody deletes them. */
export type Retention = { [status in EndedStatus]?: number | undefined };

/** A start that was delivered twice finds its run for at least so long. */
const shortestMs = 1_000;
const longestMs = 100 * 365 * 24 * 3_600_000;

/** How long something is kept, in ms; 0: for ever. */
const keptSchema: z.ZodType<number> = z
  .int()
  .min(0)
  .max(longestMs)
  .refine((ms) => ms === 0 || ms >= shortestMs, { message: `must be 0 (for ever) or at least ${shortestMs} ms` });

export const retentionSchema: z.ZodType<Retention> = z.strictObject({
  completed: keptSchema.optional(),
  failed: keptSchema.optional(),
  cancelled: keptSchema.optional(),
  rejected: keptSchema.optional(),
});

/** The same age for every status. */
export function retentionOfAll(ms: number): Retention {
  return Object.fromEntries(endedStatuses.map((status) => [status, ms]));
}

/** The statuses whose runs go, with their ages in ms. */
export function agesOf(retention: Retention): [EndedStatus, number][] {
  return endedStatuses.flatMap((status): [EndedStatus, number][] => {
    const ms = retention[status];
    return ms ? [[status, ms]] : [];
  });
}

/** Whether a run may go: it ended with that status before `before` (epoch ms), and nobody is still to be told. */
export function mayGo(run: Run, status: EndedStatus, before: number): boolean {
  if (!isEnded(run) || run.status !== status || run.endedAt === undefined) return false;
  return run.endedAt < before && owed(run).length === 0;
}
