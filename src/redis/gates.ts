import { z } from "zod";
import { type BreakerState, breakerStateSchema } from "../core/breaker.ts";
import type { Called, EnterRequest, EnterResult, FleetGates, Gate, GateState } from "../ports-gates.ts";
import type { RedisConnection } from "./connection.ts";
import {
  enterScript,
  leaveScript,
  occupancyScript,
  pauseScript,
  renewScript,
  swapBreakerScript,
} from "./gate-scripts.ts";
import type { Keys } from "./keys.ts";
import { runScript } from "./read.ts";

/** How long a place is kept for whoever was called: its step is redelivered within that if its worker dies. */
const callMs = 5_000;
/** How long after its time a place in time is remembered. */
const ticketKeptMs = 60_000;
/** In line for a place inside: the first look again, and the longest wait; both in case nobody calls. */
const firstLookMs = 5_000;
const longestLookMs = 60_000;
/** How long what nobody uses stays. */
const keptMs = 600_000;
const breakerKeptMs = 24 * 3_600_000;

export type RedisGatesOptions = {
  connection: RedisConnection;
  keys: Keys;
  /** Epoch ms to go by in place of Redis's own time; for tests. */
  now?: (() => number) | undefined;
};

const numberSchema = z.coerce.number();
const reasonSchema = z.enum(["entered", "rate_limit", "concurrency_limit"]);

/** Limits over the whole fleet, in Redis. Contract: `FleetGates`. */
export function createRedisGates({ connection, keys, now }: RedisGatesOptions): FleetGates {
  const time = (): string => (now ? String(now()) : "");
  const run = (lua: string, names: string[], args: (string | number)[]): Promise<(string | number)[]> =>
    connection.use((client) => runScript(client, lua, { keys: names, args }));

  async function leave(key: string, holder: string, token: string): Promise<Called[]> {
    return toCalled([key], await run(leaveScript, keys.gate(key).all, [time(), holder, token, callMs]));
  }

  return {
    headStartMs: 100,
    async enter(request) {
      const { gates } = request;
      const args = [time(), request.holder, request.token, request.leaseMs, callMs, ticketKeptMs];
      args.push(firstLookMs, longestLookMs, keptMs, ...gates.flatMap(toArguments));
      const names = gates.flatMap(({ key }) => keys.gate(key).all);
      return toResult(request, await run(enterScript, names, args));
    },
    async renew(key, { holder, token }, leaseMs) {
      await run(renewScript, keys.gate(key).all, [time(), holder, token, leaseMs, keptMs]);
    },
    leave: (key, { holder, token }) => leave(key, holder, token),
    giveUp: (key, holder) => leave(key, holder, ""),
    async isCalled(key, holder) {
      return (await connection.use((client) => client.zscore(keys.gate(key).leases, holder))) !== null;
    },
    async states(of) {
      if (of.length === 0) return [];
      const names = of.flatMap((key) => [keys.gate(key).breaker, keys.gate(key).pause]);
      const values = await connection.use((client) => client.mget(names));
      return of.map((_, index) => toState(values[2 * index] ?? null, values[2 * index + 1] ?? null));
    },
    async occupancy(of) {
      if (of.length === 0) return [];
      const names = of.flatMap((key) => keys.gate(key).all);
      const counts = (await run(occupancyScript, names, [time(), ticketKeptMs])).map(Number);
      return of.map((_, index) => ({ inside: counts[2 * index] ?? 0, waiting: counts[2 * index + 1] ?? 0 }));
    },
    async pause(key, ms) {
      return numberSchema.parse((await run(pauseScript, [keys.gate(key).pause], [time(), ms]))[0]);
    },
    async swapBreaker(key, version, next) {
      const text = next ? `${next.version} ${JSON.stringify(next)}` : "";
      const [swapped] = await run(swapBreakerScript, [keys.gate(key).breaker], [version, text, keptFor(next)]);
      return swapped === 1;
    },
  };
}

function toArguments({ rate, concurrency = 0 }: Gate): number[] {
  if (!rate) return [0, 0, 0, 1, concurrency];
  return [rate.intervalMs, rate.slackMs, rate.placeMs, rate.burst, concurrency];
}

function toResult({ gates }: EnterRequest, [said, index, until, ...rest]: (string | number)[]): EnterResult {
  const reason = reasonSchema.parse(said);
  const called = toCalled(
    gates.map(({ key }) => key),
    rest,
  );
  if (reason === "entered") return { entered: true, called };
  return { entered: false, reason, gate: Number(index) - 1, until: Math.ceil(numberSchema.parse(until)), called };
}

function toCalled(keys: string[], pairs: (string | number)[]): Called[] {
  const called: Called[] = [];
  for (let index = 0; index + 1 < pairs.length; index += 2) {
    called.push({ key: keys[Number(pairs[index]) - 1] ?? "", holder: String(pairs[index + 1]) });
  }
  return called;
}

/** A breaker that cannot be read counts as closed: the next failures are counted anew. */
function toState(breaker: string | null, pause: string | null): GateState {
  return {
    ...(breaker === null ? {} : { breaker: readBreaker(breaker) }),
    ...(pause === null ? {} : { pausedUntil: numberSchema.parse(pause) }),
  };
}

function readBreaker(text: string): BreakerState | undefined {
  const { success, data } = breakerStateSchema.safeParse(parseJson(text.slice(text.indexOf(" ") + 1)));
  return success ? data : undefined;
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return undefined;
  }
}

/** An open breaker is remembered for a day after its time: whoever comes then is the probe. */
function keptFor(state: BreakerState | undefined): number {
  return breakerKeptMs + (state?.openMs ?? 0);
}
