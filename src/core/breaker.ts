// When a tool that keeps failing is switched off and on again, for the whole fleet. Pure: state and outcome in, state out.
//
// B1. Closed: so many failures in a row open it; a success in between begins the count anew.
// B2. Open: nobody calls, and outcomes of calls that began before change nothing.
// B3. After its time one call at a time is let through; its success closes the breaker, its failure opens it for twice
//     as long, up to ten minutes.

import { z } from "zod";
import type { BreakerPolicy } from "./agent.ts";

/**
 * What the fleet knows of one breaker; undefined: closed, without failures.
 * - `version`: one higher with each change, so that a change based on an old state is found out;
 * - `openUntil`: epoch ms; absent while closed;
 * - `openMs`: how long it was opened for last;
 * - `probe`: the token of the one call let through after that, and until when nobody else is (epoch ms).
 */
export type BreakerState = {
  version: number;
  failures: number;
  openUntil?: number | undefined;
  openMs?: number | undefined;
  probe?: { token: string; until: number } | undefined;
};

export const breakerStateSchema: z.ZodType<BreakerState> = z.object({
  version: z.int(),
  failures: z.int(),
  openUntil: z.number().optional(),
  openMs: z.number().optional(),
  probe: z.object({ token: z.string(), until: z.number() }).optional(),
});

/** How a call went. `void`: nothing was learned, since we stopped it or the call itself was wrong. */
export type CallOutcome = "ok" | "failed" | "void";

/** `half_open`: the next call may be the probe. */
export type BreakerVerdict = { type: "closed" } | { type: "open"; until: number } | { type: "half_open" };

export function breakerVerdict(state: BreakerState | undefined, at: number): BreakerVerdict {
  if (state?.openUntil === undefined) return { type: "closed" };
  if (at < state.openUntil) return { type: "open", until: state.openUntil };
  if (state.probe && at < state.probe.until) return { type: "open", until: state.probe.until };
  return { type: "half_open" };
}

const longestOpenMs = 600_000;

/** The state after a call that was no probe; the same object if nothing changes. */
export function afterCall(
  state: BreakerState | undefined,
  outcome: CallOutcome,
  policy: BreakerPolicy,
  at: number,
): BreakerState | undefined {
  if (outcome === "void" || state?.openUntil !== undefined) return state;
  if (outcome === "ok") return undefined;
  const failures = (state?.failures ?? 0) + 1;
  const counted: BreakerState = { version: (state?.version ?? 0) + 1, failures };
  if (failures < policy.failures) return counted;
  return { ...counted, openUntil: at + policy.openMs, openMs: policy.openMs };
}

/** The state once a call is let through as the probe; null if it may not be, or need not. */
export function claimProbe(
  state: BreakerState | undefined,
  probe: { token: string; until: number },
  at: number,
): BreakerState | null {
  if (!state || breakerVerdict(state, at).type !== "half_open") return null;
  return { ...state, version: state.version + 1, probe };
}

/** The state after the probe; the same object if another call has become the probe since. */
export function afterProbe(
  state: BreakerState | undefined,
  { outcome, token, at }: { outcome: CallOutcome; token: string; at: number },
  policy: BreakerPolicy,
): BreakerState | undefined {
  if (state?.probe?.token !== token) return state;
  if (outcome === "ok") return undefined;
  const { probe: _probe, ...rest } = state;
  const next = { ...rest, version: state.version + 1 };
  if (outcome === "void") return next;
  const openMs = Math.min(2 * (state.openMs ?? policy.openMs), Math.max(longestOpenMs, policy.openMs));
  return { ...next, failures: state.failures + 1, openUntil: at + openMs, openMs };
}
