import fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  afterCall,
  afterProbe,
  type BreakerState,
  breakerVerdict,
  type CallOutcome,
  claimProbe,
} from "../../src/core/breaker.ts";

const policy = { failures: 3, openMs: 1_000 };

function play(outcomes: CallOutcome[], at = 0): BreakerState | undefined {
  return outcomes.reduce<BreakerState | undefined>(
    (state, outcome) => afterCall(state, outcome, policy, at),
    undefined,
  );
}

/** Open since 0 for `openMs`, and its probe begun. */
function probing(openMs?: number): BreakerState {
  const state = { version: 3, failures: 3, openUntil: 1_000, openMs };
  const claimed = claimProbe(state, { token: "p", until: 5_000 }, 1_000);
  if (!claimed) throw new Error("not claimed");
  return claimed;
}

describe("a closed breaker", () => {
  test("opens after so many failures in a row, for its time", () => {
    const state = play(["failed", "failed", "failed"]);
    expect(state).toEqual({ version: 3, failures: 3, openUntil: 1_000, openMs: 1_000 });
    expect(breakerVerdict(state, 999)).toEqual({ type: "open", until: 1_000 });
    expect(breakerVerdict(state, 1_000)).toEqual({ type: "half_open" });
  });

  test("a success begins the count anew, and what teaches nothing changes nothing", () => {
    const state = play(["failed", "failed", "ok", "failed", "void", "failed"]);
    expect(state).toEqual({ version: 2, failures: 2 });
    expect(breakerVerdict(state, 0)).toEqual({ type: "closed" });
    expect(breakerVerdict(undefined, 0)).toEqual({ type: "closed" });
    expect(play(["failed", "ok"])).toBeUndefined();
  });
});

describe("an open breaker", () => {
  test("is not touched by calls that began before", () => {
    const state = play(["failed", "failed", "failed"]);
    for (const outcome of ["ok", "failed", "void"] as const) expect(afterCall(state, outcome, policy, 9)).toBe(state);
  });

  test("lets one probe through after its time, and another if that one does not report back", () => {
    const open = play(["failed", "failed", "failed"]);
    expect(claimProbe(open, { token: "p", until: 5_000 }, 999)).toBeNull();
    expect(claimProbe(undefined, { token: "p", until: 5_000 }, 999)).toBeNull();
    const state = probing();
    expect(breakerVerdict(state, 4_999)).toEqual({ type: "open", until: 5_000 });
    expect(claimProbe(state, { token: "q", until: 9_000 }, 4_999)).toBeNull();
    expect(claimProbe(state, { token: "q", until: 9_000 }, 5_000)).toMatchObject({ probe: { token: "q" } });
  });

  test("the probe's success closes it, its failure opens it for twice as long, up to ten minutes", () => {
    const probe = { token: "p", at: 1_500 };
    expect(afterProbe(probing(1_000), { ...probe, outcome: "ok" }, policy)).toBeUndefined();
    const failed = { ...probe, outcome: "failed" as const };
    expect(afterProbe(probing(1_000), failed, policy)).toMatchObject({ openUntil: 3_500, openMs: 2_000, failures: 4 });
    expect(afterProbe(probing(), failed, policy)).toMatchObject({ openMs: 2_000 });
    expect(afterProbe(probing(400_000), failed, policy)).toMatchObject({ openMs: 600_000 });
    expect(afterProbe(probing(900_000), failed, { failures: 1, openMs: 900_000 })).toMatchObject({ openMs: 900_000 });
  });

  test("a probe that teaches nothing leaves the trying to the next; one that was replaced is not heard", () => {
    const state = probing(1_000);
    const after = afterProbe(state, { token: "p", at: 1_500, outcome: "void" }, policy);
    expect(breakerVerdict(after, 1_500)).toEqual({ type: "half_open" });
    expect(afterProbe(state, { token: "old", at: 1_500, outcome: "ok" }, policy)).toBe(state);
    expect(afterProbe(undefined, { token: "p", at: 1_500, outcome: "ok" }, policy)).toBeUndefined();
  });
});

test("every change has a new version, and no success in a row of them opens it", () => {
  const outcome = fc.constantFrom<CallOutcome>("ok", "failed", "void");
  fc.assert(
    fc.property(fc.array(outcome, { maxLength: 30 }), (outcomes) => {
      let state: BreakerState | undefined;
      for (const each of outcomes) {
        const next = afterCall(state, each, policy, 0);
        if (next && next !== state) expect(next.version).toBe((state?.version ?? 0) + 1);
        state = next;
      }
      const opened = outcomes
        .filter((each) => each !== "void")
        .join(" ")
        .includes("failed failed failed");
      expect(state?.openUntil !== undefined).toBe(opened);
    }),
  );
});
