import type { BreakerPolicy } from "../core/agent.ts";
import {
  afterCall,
  afterProbe,
  type BreakerState,
  breakerVerdict,
  type CallOutcome,
  claimProbe,
} from "../core/breaker.ts";
import type { Clock, FleetGates, GateState, Logger, Telemetry } from "../ports.ts";
import { createInTurn } from "./in-turn.ts";
import { quietly } from "./quietly.ts";

/** How old what this process knows may be: so long after a breaker opened elsewhere, calls still go out here. */
const refreshMs = 500;
/** Keys that no step asked for this long are not read any more. */
const forgottenMs = 60_000;
/** A change to a breaker is tried so often against others that change it too. */
const maxTries = 20;

/** Breakers and pauses as this process knows them: for all steps together one read in `refreshMs`. */
export type GateStates = {
  get(key: string): Promise<GateState>;
  /** The same without a read; undefined if one is due. */
  fresh(key: string): GateState | undefined;
  /** Tells how a call went. Never rejects: a report that is lost is one failure less. */
  report(key: string, call: { outcome: CallOutcome; policy: BreakerPolicy; probe?: string | undefined }): Promise<void>;
  /** Makes this call the one that tries a tool again. @returns false if another one does */
  claim(key: string, token: string, forMs: number): Promise<boolean>;
  /** Nobody is to use this key for so long. Never rejects. */
  pause(key: string, ms: number): Promise<void>;
};

type Deps = { gates: FleetGates; clock: Clock; logger: Logger; telemetry: Pick<Telemetry, "count"> };
type Known = { state: GateState; readAt: number; usedAt: number };

export function createGateStates(deps: Deps): GateStates {
  const { gates, clock, logger } = deps;
  const cache = createCache(deps);
  const change = createChanger(deps, cache);

  const share = (key: string, work: () => Promise<unknown>): Promise<void> =>
    quietly(logger, { gate: key }, "what was learned of a limit could not be shared", work);

  return {
    get: cache.get,
    fresh: cache.fresh,
    async report(key, { outcome, policy, probe }) {
      if (probe !== undefined) {
        await share(key, () => change(key, (state, at) => afterProbe(state, { outcome, token: probe, at }, policy)));
        return;
      }
      const seen = cache.peek(key).breaker;
      if (outcome === "void" || seen?.openUntil !== undefined || (outcome === "ok" && !seen)) return;
      await share(key, () => change(key, (state, at) => afterCall(state, outcome, policy, at)));
    },
    claim: (key, token, forMs) => change(key, (state, at) => claimProbe(state, { token, until: at + forMs }, at)),
    async pause(key, ms) {
      const known = cache.peek(key);
      cache.learn(key, { ...known, pausedUntil: Math.max(known.pausedUntil ?? 0, clock.now() + ms) });
      await share(key, () => gates.pause(key, ms));
    },
  };
}

type Cache = {
  get(key: string): Promise<GateState>;
  fresh(key: string): GateState | undefined;
  /** What was known last, however old. */
  peek(key: string): GateState;
  learn(key: string, state: GateState, readAt?: number): void;
};

function createCache({ gates, clock }: Deps): Cache {
  const known = new Map<string, Known>();
  const wanted = new Set<string>();
  let reading: Promise<void> | undefined;

  function learn(key: string, state: GateState, readAt: number = clock.now()): void {
    known.set(key, { state, readAt, usedAt: known.get(key)?.usedAt ?? readAt });
  }

  async function read(): Promise<void> {
    const at = clock.now();
    for (const [key, { usedAt }] of known) {
      if (at - usedAt > forgottenMs) known.delete(key);
      else wanted.add(key);
    }
    const keys = [...wanted];
    wanted.clear();
    const states = await gates.states(keys);
    for (const [index, key] of keys.entries()) learn(key, states[index] ?? {}, at);
  }

  function fresh(key: string, at: number = clock.now()): GateState | undefined {
    const entry = known.get(key);
    if (!entry || at - entry.readAt >= refreshMs) return undefined;
    entry.usedAt = at;
    return entry.state;
  }

  return {
    learn,
    fresh: (key) => fresh(key),
    peek: (key) => known.get(key)?.state ?? {},
    async get(key) {
      const at = clock.now();
      for (;;) {
        const state = fresh(key, at);
        if (state) return state;
        wanted.add(key);
        reading ??= read().finally(() => {
          reading = undefined;
        });
        await reading;
      }
    },
  };
}

/** `null`: it is not to be changed. */
type Next = (state: BreakerState | undefined, at: number) => BreakerState | undefined | null;

/** Compares and sets a breaker's state; changes of one breaker queue up within this process. True if it was changed. */
function createChanger(
  { gates, clock, logger, telemetry }: Deps,
  cache: Cache,
): (key: string, next: Next) => Promise<boolean> {
  const inTurn = createInTurn();

  async function run(key: string, next: Next): Promise<boolean> {
    for (let tries = 0; tries < maxTries; tries += 1) {
      const [state = {}] = await gates.states([key]);
      const { breaker } = state;
      const wished = next(breaker, clock.now());
      if (wished === null || wished === breaker) {
        cache.learn(key, state);
        return false;
      }
      if (await gates.swapBreaker(key, breaker?.version ?? 0, wished)) {
        cache.learn(key, { ...state, breaker: wished });
        tellChange({ logger, telemetry }, key, breaker, wished);
        return true;
      }
    }
    return false;
  }

  return (key, next) => inTurn(key, () => run(key, next));
}

function tellChange(
  { logger, telemetry }: Pick<Deps, "logger" | "telemetry">,
  gate: string,
  before: BreakerState | undefined,
  after: BreakerState | undefined,
): void {
  const { openUntil, failures } = after ?? {};
  if (openUntil !== undefined && openUntil !== before?.openUntil) {
    logger.warn({ gate, failures, until: openUntil }, "switched off: it failed too often in a row");
    telemetry.count({ what: "breaker_opened", tool: gate.replace(/^tool:/, "") });
  } else if (before?.openUntil !== undefined && !after) logger.info({ gate }, "switched on again");
}

/** Until when a tool is off; undefined while it may be called, as a probe or at will. */
export function offUntil({ breaker }: GateState, at: number): number | undefined {
  const verdict = breakerVerdict(breaker, at);
  return verdict.type === "open" ? verdict.until : undefined;
}
