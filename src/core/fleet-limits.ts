// What holds for one tool or model over the whole fleet, in numbers that a gate can go by.

import { z } from "zod";
import { type FleetLimits, type RateLimit, rateSchema, stricter } from "./agent.ts";

/** What operators add to the limits that tools and models have by themselves, by name; the stricter of both holds. */
export type OperatorLimits = {
  tools?: Record<string, FleetLimits> | undefined;
  /** By the name that is sent to the server. */
  models?: Record<string, FleetLimits> | undefined;
};

const fleetLimitsSchema: z.ZodType<FleetLimits> = z.strictObject({
  rate: rateSchema.optional(),
  concurrency: z.int().min(1).max(1_000_000).optional(),
});
export const operatorLimitsSchema: z.ZodType<OperatorLimits> = z.strictObject({
  tools: z.record(z.string().min(1), fleetLimitsSchema).optional(),
  models: z.record(z.string().min(1), fleetLimitsSchema).optional(),
});

/** The stricter of two limits: the lower concurrency, and of two rates the one that lets less through in the long run. */
export function tightenFleetLimits(a: FleetLimits, b: FleetLimits | undefined): FleetLimits {
  if (!b) return a;
  return { rate: slower(a.rate, b.rate), concurrency: stricter(a.concurrency, b.concurrency) };
}

function slower(a: RateLimit | undefined, b: RateLimit | undefined): RateLimit | undefined {
  if (!a || !b) return a ?? b;
  const difference = a.max / a.perMs - b.max / b.perMs;
  if (difference !== 0) return difference < 0 ? a : b;
  return { ...a, burst: Math.min(a.burst ?? 1, b.burst ?? 1) };
}

/**
 * A rate as a gate keeps it, in ms.
 * - `intervalMs`: between two entries in the long run;
 * - `slackMs`: an entry may be so much early, since a parked step never comes back to the millisecond;
 * - `placeMs`: between two places that are given out. A little longer, so that a gate that fell behind catches up.
 * - `burst`: so many may enter at once.
 */
export type RateTerms = { intervalMs: number; slackMs: number; placeMs: number; burst: number };

const longestSlackMs = 250;

/**
 * The interval is so much longer than `perMs / max` that with a burst of 1 the slack never lets more than `max` into
 * any window of `perMs`. It costs at most 3 % of the rate.
 */
export function toRateTerms({ max, perMs, burst = 1 }: RateLimit): RateTerms {
  const slackMs = Math.min(perMs / 50, longestSlackMs);
  const intervalMs = (perMs + slackMs) / max;
  return { intervalMs, slackMs, placeMs: intervalMs * 1.01, burst };
}

/** A limit in words, to follow "is limited to". */
export function rateText({ max, perMs }: RateLimit): string {
  const seconds = perMs / 1_000;
  return `${max} ${max === 1 ? "call" : "calls"} in ${seconds} s`;
}
