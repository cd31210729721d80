import type { BreakerState } from "../core/breaker.ts";
import type { RateTerms } from "../core/fleet-limits.ts";
import type { Called, Clock, EnterRequest, EnterResult, FleetGates, Gate, GateOccupancy } from "../ports.ts";

const callMs = 5_000;
const ticketKeptMs = 60_000;
const firstLookMs = 5_000;
const longestLookMs = 60_000;

/** `tat`: when the next place begins; `ent`: when the next entry is due; `late`: the next place for whoever comes late. */
type Schedule = { tat: number; ent: number; late: number; tail: number };
type Shelf = Schedule & {
  max: number;
  order: number;
  tickets: Map<string, number>;
  leases: Map<string, number>;
  tokens: Map<string, string>;
  line: Map<string, number>;
};

/** Limits in the memory of this process, with the guarantees of `FleetGates`; the twin of the scripts for Redis. */
export function createMemoryGates({ clock }: { clock: Pick<Clock, "now"> }): FleetGates {
  const shelves = new Map<string, Shelf>();
  const breakers = new Map<string, BreakerState>();
  const pauses = new Map<string, number>();
  const now = (): number => clock.now();

  function shelfOf(key: string): Shelf {
    const known = shelves.get(key) ?? makeShelf();
    shelves.set(key, known);
    return known;
  }

  return {
    headStartMs: 0,
    enter: async (request) => enter(request, shelfOf, now()),
    async renew(key, { holder, token }, leaseMs) {
      const { tokens, leases } = shelfOf(key);
      if ((tokens.get(holder) ?? token) !== token) return;
      tokens.set(holder, token);
      leases.set(holder, now() + leaseMs);
    },
    async leave(key, { holder, token }) {
      const shelf = shelfOf(key);
      if (shelf.tokens.get(holder) === token) dropLease(shelf, holder);
      return move(key, shelf, now());
    },
    async giveUp(key, holder) {
      const shelf = shelfOf(key);
      if (!shelf.tokens.has(holder)) shelf.leases.delete(holder);
      shelf.line.delete(holder);
      if (shelf.tickets.delete(holder)) rollBack(shelf);
      return move(key, shelf, now());
    },
    isCalled: async (key, holder) => shelfOf(key).leases.has(holder),
    states: async (keys) =>
      keys.map((key) => {
        const [breaker, until = 0] = [breakers.get(key), pauses.get(key)];
        return { ...(breaker ? { breaker } : {}), ...(until > now() ? { pausedUntil: until } : {}) };
      }),
    occupancy: async (keys) => keys.map((key) => occupancyOf(shelfOf(key), now())),
    async pause(key, ms) {
      const until = Math.max(Math.ceil(now() + ms), pauses.get(key) ?? 0);
      pauses.set(key, until);
      return until;
    },
    async swapBreaker(key, version, next) {
      if ((breakers.get(key)?.version ?? 0) !== version) return false;
      if (next) breakers.set(key, next);
      else breakers.delete(key);
      return true;
    },
  };
}

function occupancyOf({ leases, tokens, line, tickets }: Shelf, now: number): GateOccupancy {
  const inside = [...leases].filter(([holder, until]) => until > now && tokens.has(holder)).length;
  return { inside, waiting: line.size + [...tickets.values()].filter((at) => at > now - ticketKeptMs).length };
}

function makeShelf(): Shelf {
  return {
    ...{ tat: 0, ent: 0, late: 0, tail: 0, max: 0, order: 0 },
    ...{ tickets: new Map(), leases: new Map(), tokens: new Map(), line: new Map() },
  };
}

function dropLease({ leases, tokens }: Shelf, holder: string): void {
  leases.delete(holder);
  tokens.delete(holder);
}

/** Who waits, first come first. */
function inLine({ line }: Shelf): string[] {
  return [...line].toSorted(([, a], [, b]) => a - b).map(([holder]) => holder);
}

/** Drops who has gone without a word, and keeps a place for whoever is first in line. */
function move(key: string, shelf: Shelf, now: number, except?: string): Called[] {
  for (const [holder, until] of shelf.leases) if (until <= now) dropLease(shelf, holder);
  const called = inLine(shelf).slice(0, Math.max(0, shelf.max - shelf.leases.size));
  for (const holder of called) {
    shelf.line.delete(holder);
    shelf.leases.set(holder, now + callMs);
  }
  return called.filter((holder) => holder !== except).map((holder) => ({ key, holder }));
}

/** Places after the last one that is waited for are free again. */
function rollBack(shelf: Shelf): void {
  if (shelf.tickets.size === 0) Object.assign(shelf, { tat: 0, late: 0 });
  else shelf.tat = Math.max(...shelf.tickets.values()) + shelf.tail;
}

type Entering = { gate: Gate; shelf: Shelf };

function enter(request: EnterRequest, shelfOf: (key: string) => Shelf, now: number): EnterResult {
  const { holder, token, leaseMs } = request;
  const entering = request.gates.map((gate): Entering => ({ gate, shelf: shelfOf(gate.key) }));
  const limited = entering.filter(({ gate }) => gate.concurrency !== undefined);
  const called = limited.flatMap(({ gate, shelf }) => {
    shelf.max = gate.concurrency ?? 0;
    return move(gate.key, shelf, now, holder);
  });
  const full = limited.find(({ shelf }) => !shelf.leases.has(holder) && shelf.leases.size >= shelf.max);
  if (full) return { ...standInLine(full, holder, now), gate: entering.indexOf(full), called };
  const timed = entering.flatMap((one) => (one.gate.rate ? [{ ...one, terms: one.gate.rate }] : []));
  const waiting = timed.filter(({ shelf, terms }) => !isReady(shelf, terms, holder, now));
  if (waiting.length > 0) {
    const places = waiting.map(({ shelf, terms }) => takePlace(shelf, terms, holder, now));
    const until = Math.max(...places);
    for (const { shelf } of limited) {
      shelf.leases.set(holder, until + leaseMs);
      shelf.tokens.delete(holder);
    }
    const gate = entering.findIndex((one) => one.shelf === waiting[places.indexOf(until)]?.shelf);
    return { entered: false, reason: "rate_limit", gate, until: Math.ceil(until), called };
  }
  for (const { shelf, terms } of timed) {
    if (!shelf.tickets.delete(holder)) shelf.tat = Math.max(shelf.tat, now) + terms.placeMs;
    shelf.ent = Math.max(shelf.ent, now) + terms.intervalMs;
  }
  for (const { shelf } of limited) {
    shelf.leases.set(holder, now + leaseMs);
    shelf.tokens.set(holder, token);
  }
  return { entered: true, called };
}

function standInLine(
  { shelf }: Entering,
  holder: string,
  now: number,
): { entered: false; reason: "concurrency_limit"; until: number } {
  if (!shelf.line.has(holder)) {
    shelf.order += 1;
    shelf.line.set(holder, shelf.order);
  }
  const waitMs = Math.min(firstLookMs * (1 + inLine(shelf).indexOf(holder) / 20), longestLookMs);
  return { entered: false, reason: "concurrency_limit", until: Math.ceil(now + waitMs) };
}

function opensAt({ ent }: Shelf, { slackMs, burst, intervalMs }: RateTerms): number {
  return ent - slackMs - (burst - 1) * intervalMs;
}

function isDue({ tickets, tat }: Shelf, { slackMs, burst, placeMs }: RateTerms, holder: string, now: number): boolean {
  const place = tickets.get(holder);
  return place === undefined ? tat - (burst - 1) * placeMs <= now : place - slackMs <= now;
}

function isReady(shelf: Shelf, terms: RateTerms, holder: string, now: number): boolean {
  return isDue(shelf, terms, holder, now) && opensAt(shelf, terms) <= now;
}

/** A place in time: the one it has, the next one, or, if its time has come and the gate is behind, the next that is left. */
function takePlace(shelf: Shelf, terms: RateTerms, holder: string, now: number): number {
  const { tickets } = shelf;
  let place = tickets.get(holder);
  if (isDue(shelf, terms, holder, now)) {
    place = Math.max(shelf.late, opensAt(shelf, terms));
    shelf.late = place + terms.intervalMs;
    shelf.tat = Math.max(shelf.tat, place + terms.placeMs);
  } else if (place === undefined) {
    place = shelf.tat - (terms.burst - 1) * terms.placeMs;
    shelf.tat += terms.placeMs;
  }
  shelf.tail = terms.burst * terms.placeMs;
  for (const [other, at] of tickets) if (at <= now - ticketKeptMs) tickets.delete(other);
  tickets.set(holder, place);
  return place;
}
