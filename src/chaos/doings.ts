import { type Random, randomFor } from "./random.ts";

/** What a run is started with. */
export function inputOf(runId: string): string {
  return `chaos ${runId}`;
}

/** What people do about one run: told by its id and the seed alone. */
export type Doings = {
  delayMs?: number | undefined;
  session?: string | undefined;
  /** So few turns, or so short a time, that it fails; it is then retried with more. */
  maxTurns?: number | undefined;
  deadlineMs?: number | undefined;
  cancelAfterMs?: number | undefined;
  sendAfterMs?: number | undefined;
  pause?: { afterMs: number; forMs: number } | undefined;
  /** How long a person takes to decide. */
  decideAfterMs: number;
  /** Decisions are given twice, and input is sent twice, by two people at once. */
  twice: boolean;
  /** A run that fails for a reason that a retry mends is retried. */
  retries: boolean;
};

/** @param lively what may change how a run ends too: cancels, input in mid-turn, tight limits, and retries. */
export function doingsOf(seed: number, runId: string, lively: boolean): Doings {
  const random = randomFor(seed, "doings", runId);
  const seldom = <T>(share: number, value: () => T): T | undefined => {
    const chosen = random.chance(share);
    const made = value();
    return chosen ? made : undefined;
  };
  const plain = {
    delayMs: seldom(0.1, () => random.between(10, 3_000)),
    decideAfterMs: random.chance(0.2) ? random.between(500, 5_000) : 0,
    twice: random.chance(0.3),
    session: seldom(0.15, () => `talk-${random.between(1, 40)}`),
    pause: seldom(0.1, () => ({ afterMs: random.between(0, 2_000), forMs: pauseMs(random) })),
    retries: lively,
  };
  if (!lively) return plain;
  return {
    ...plain,
    maxTurns: seldom(0.05, () => 1),
    cancelAfterMs: seldom(0.06, () => random.between(0, 4_000)),
    sendAfterMs: seldom(0.1, () => random.between(0, 3_000)),
    deadlineMs: seldom(0.04, () => random.between(500, 4_000)),
  };
}

/** Mostly short; now and then so long that whoever begins something in it cannot have been at it before. */
export function pauseMs(random: Random): number {
  return random.chance(0.25) ? random.between(6_000, 11_000) : random.between(50, 3_000);
}
