import { describe, expect, test } from "vitest";
import { operatorLimitsSchema, rateText, tightenFleetLimits, toRateTerms } from "../../src/core/fleet-limits.ts";

describe("the stricter of two limits", () => {
  const slow = { max: 1, perMs: 1_000 };
  const fast = { max: 100, perMs: 10_000 };

  test("the rate that lets less through, whichever side it is on", () => {
    expect(tightenFleetLimits({ rate: slow }, { rate: fast }).rate).toEqual(slow);
    expect(tightenFleetLimits({ rate: fast }, { rate: slow }).rate).toEqual(slow);
    expect(tightenFleetLimits({ rate: fast }, {}).rate).toEqual(fast);
    expect(tightenFleetLimits({}, { rate: fast }).rate).toEqual(fast);
    expect(tightenFleetLimits({ rate: fast }, undefined)).toEqual({ rate: fast });
  });

  test("equal rates: the smaller burst", () => {
    const burst = tightenFleetLimits({ rate: { ...slow, burst: 5 } }, { rate: { ...slow, burst: 3 } });
    expect(burst.rate).toEqual({ ...slow, burst: 3 });
    expect(tightenFleetLimits({ rate: slow }, { rate: { ...slow, burst: 3 } }).rate).toEqual({ ...slow, burst: 1 });
    expect(tightenFleetLimits({ rate: { ...slow, burst: 3 } }, { rate: slow }).rate).toEqual({ ...slow, burst: 1 });
  });

  test("the lower concurrency", () => {
    expect(tightenFleetLimits({ concurrency: 5 }, { concurrency: 3 }).concurrency).toBe(3);
    expect(tightenFleetLimits({}, { concurrency: 3 }).concurrency).toBe(3);
  });
});

test("the interval keeps max within any window in spite of the slack, at a cost of 3 % at most", () => {
  for (const rate of [
    { max: 10, perMs: 1_000 },
    { max: 1, perMs: 86_400_000 },
    { max: 1_000, perMs: 1_000 },
  ]) {
    const { intervalMs, slackMs, placeMs, burst } = toRateTerms(rate);
    expect(rate.max * intervalMs - slackMs).toBeCloseTo(rate.perMs, 6);
    expect(placeMs / (rate.perMs / rate.max)).toBeLessThanOrEqual(1.0303);
    expect(burst).toBe(1);
  }
});

test("limits in words", () => {
  expect(rateText({ max: 10, perMs: 1_000 })).toBe("10 calls in 1 s");
  expect(rateText({ max: 1, perMs: 1_500 })).toBe("1 call in 1.5 s");
});

test("what operators may write", () => {
  const fits = { tools: { t: { rate: { max: 1, perMs: 1 }, concurrency: 1 } }, models: { m: {} } };
  expect(operatorLimitsSchema.safeParse(fits).success).toBe(true);
  for (const bad of [{ tool: {} }, { tools: { t: { concurrency: 0 } } }, { tools: { t: { rate: { max: 1 } } } }]) {
    expect(operatorLimitsSchema.safeParse(bad).success).toBe(false);
  }
});
