import { describe, expect, test } from "vitest";
import { stricter, tightenLimits } from "../../src/core/agent.ts";
import { effectiveLimits, reachedLimit } from "../../src/core/limits.ts";
import { makeWorld } from "./support.ts";

const { run } = makeWorld();
const spent = { inputTokens: 60, outputTokens: 40, cachedTokens: 0 };

describe("limits", () => {
  test.each([
    [undefined, undefined, undefined],
    [3, undefined, 3],
    [undefined, 4, 4],
    [3, 4, 3],
  ])("the stricter of %s and %s is %s", (a, b, expected) => expect(stricter(a, b)).toBe(expected));

  test("a producer's limits can only tighten the agent's", () => {
    expect(tightenLimits({ maxTurns: 10, maxTokens: 5 }, { maxTurns: 20, maxTokens: 3, maxCostUsd: 1 })).toEqual({
      maxTurns: 10,
      maxTokens: 3,
      maxCostUsd: 1,
      deadlineMs: undefined,
      repeats: 2,
      maxReasks: 2,
    });
    expect(tightenLimits({}, {})).toMatchObject({ maxTurns: 15, repeats: 2, maxReasks: 2 });
    expect(tightenLimits({}, { maxTurns: 50, repeats: 9 })).toMatchObject({ maxTurns: 15, repeats: 2 });
  });

  test("a retry's limits replace the others, those it leaves out stay", () => {
    const retried = { ...run, limits: { maxTokens: 7 }, retryLimits: { maxTurns: 50, maxTokens: undefined } };
    expect(effectiveLimits({ maxTurns: 10 }, retried)).toMatchObject({ maxTurns: 50, maxTokens: 7 });
    expect(effectiveLimits({ maxTurns: 10 }, run)).toMatchObject({ maxTurns: 10 });
  });

  test.each([
    [{ turns: 3 }, { maxTurns: 3 }, "max_turns", "maxTurns"],
    [{ usage: spent }, { maxTokens: 100 }, "token_budget", "maxTokens"],
    [{ usage: { ...spent, costUsd: 0.5 } }, { maxCostUsd: 0.5 }, "cost_budget", "maxCostUsd"],
    [{ deadlineAt: 1_000 }, {}, "deadline", "deadlineMs"],
  ] as const)("%j stops at %j with %s and says what to raise", (state, limits, reason, field) => {
    const reached = reachedLimit({ ...run, ...state }, limits, 1_000);
    expect(reached?.reason).toBe(reason);
    expect(reached?.message).toContain(field);
  });

  test("goes on below every limit", () => {
    const limits = { maxTurns: 3, maxTokens: 101, maxCostUsd: 0.5 };
    expect(reachedLimit({ ...run, turns: 2, usage: spent, deadlineAt: 1_001 }, limits, 1_000)).toBeNull();
    expect(reachedLimit({ ...run, turns: 2 }, {}, 1_000)).toBeNull();
  });
});
