import type { Finding } from "./evidence.ts";

/** What was done and what came of it, counted. The last five are what must be zero, but for `outcome` all of them of runs. */
export type Tally = {
  runs: number;
  kills: number;
  pauses: number;
  /** Graceful stops of workers. */
  stops: number;
  /** Restarts of Redis. */
  restarts: number;
  /** Calls that found Redis away, and connections that were cut. */
  outages: number;
  lostReplies: number;
  redeliveries: number;
  /** Runs that are calls of others. */
  children: number;
  /** Pauses of single runs, and of the whole fleet: those that every worker had heard of, by which it is judged. */
  runPauses: number;
  fleetPauses: number;
  /** Input taken in mid-run. */
  inputs: number;
  /** Failed runs that people let go on. */
  retries: number;
  /** Unknown outcomes that were told, as they must be. */
  unknown: number;
  lost: number;
  duplicated: number;
  stuck: number;
  /** Effects outside of their tool's policy. */
  effects: number;
  /** Runs that ended otherwise than they do undisturbed. */
  outcomes: number;
};

const kinds = {
  lost: "lost",
  duplicated: "duplicated",
  stuck: "stuck",
  effect: "effects",
  outcome: "outcomes",
} as const;

/** Nothing done; of the findings one of each kind is counted per run. */
export function noTally(findings: readonly Finding[] = []): Tally {
  const tally = {
    ...{ runs: 0, kills: 0, pauses: 0, stops: 0, restarts: 0, outages: 0, lostReplies: 0, redeliveries: 0, unknown: 0 },
    ...{ children: 0, runPauses: 0, fleetPauses: 0, inputs: 0, retries: 0 },
    ...{ lost: 0, duplicated: 0, stuck: 0, effects: 0, outcomes: 0 },
  };
  const seen = new Set(findings.map(({ kind, runId }) => `${kind} ${runId}`));
  for (const one of seen) tally[kinds[one.split(" ")[0] as Finding["kind"]]] += 1;
  return tally;
}

/** Adds to the first. */
export function addTally(to: Tally, more: Tally): Tally {
  for (const key of Object.keys(more) as (keyof Tally)[]) to[key] += more[key];
  return to;
}

export function isGreen({ lost, duplicated, stuck, effects, outcomes }: Tally): boolean {
  return lost + duplicated + stuck + effects + outcomes === 0;
}
