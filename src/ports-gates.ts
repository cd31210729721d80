import type { BreakerState } from "./core/breaker.ts";
import type { RateTerms } from "./core/fleet-limits.ts";

/** A limit to pass, over the whole fleet. */
export type Gate = {
  /** The same for all that share the limit. */
  key: string;
  rate?: RateTerms | undefined;
  /** So many inside at once. */
  concurrency?: number | undefined;
};

export type EnterRequest = {
  /** Who wants in, the same each time it comes back: its place is kept under this name. */
  holder: string;
  /** This one coming. What was held under an earlier one is taken over. */
  token: string;
  /** How long a place inside lasts unless it is renewed. */
  leaseMs: number;
  gates: Gate[];
};

/** Somebody whose turn has come at the gate: a place is kept for them for a few seconds. */
export type Called = { key: string; holder: string };

export type EnterResult = { called: Called[] } & (
  | { entered: true }
  /**
   * Nothing was entered. `until`: when to come back, epoch ms: the place in time given to this holder, or, in the line
   * for a place inside, when to look again if nobody called. `gate`: the index of the gate that it waits at.
   */
  | { entered: false; reason: "rate_limit" | "concurrency_limit"; gate: number; until: number }
);

/** What is known of a key beside its limits. `pausedUntil`: epoch ms. */
export type GateState = { breaker?: BreakerState | undefined; pausedUntil?: number | undefined };

/**
 * How busy a gate is. `inside`: calls that hold one of its places; 0 where nothing limits how many there are. `waiting`:
 * those in line for a place, and those that were given a place in time.
 */
export type GateOccupancy = { inside: number; waiting: number };

/** Limits that hold over all workers. Times are Redis's; what nobody comes back for expires by itself. */
export interface FleetGates {
  /**
   * How long before its place in time a parked step should be back, to wait for the rest where it is: queues are late,
   * and a rate that nobody comes in time for is lost. 0 where steps come back to the millisecond.
   */
  readonly headStartMs: number;
  /**
   * All gates or none. Whoever must wait for a rate gets a place in time, first come first served; whoever must wait
   * for a place inside joins that gate's line. Coming back early costs neither.
   */
  enter(request: EnterRequest): Promise<EnterResult>;
  /** Keeps the place inside for `leaseMs` more; does nothing if another token has taken it over. */
  renew(key: string, who: { holder: string; token: string }, leaseMs: number): Promise<void>;
  /** Gives the place inside back, if it is still held with this token. @returns whose turn has come */
  leave(key: string, who: { holder: string; token: string }): Promise<Called[]>;
  /** Gives up waiting: the place in time, in the line, or the one kept. Who is inside stays. @returns whose turn has come */
  giveUp(key: string, holder: string): Promise<Called[]>;
  /** Whether a place inside is kept for, or held by, this holder. */
  isCalled(key: string, holder: string): Promise<boolean>;
  /** In the order of the keys. */
  states(keys: string[]): Promise<GateState[]>;
  /** For people; in the order of the keys. */
  occupancy(keys: string[]): Promise<GateOccupancy[]>;
  /** Nobody is to use this key for so long; a longer pause stays. @returns until when, epoch ms */
  pause(key: string, ms: number): Promise<number>;
  /**
   * Replaces a breaker's state if it still has this version (0: there is none). `next`: undefined is closed.
   * @returns whether it was replaced
   */
  swapBreaker(key: string, version: number, next: BreakerState | undefined): Promise<boolean>;
}
