import fc from "fast-check";
import { expect, test } from "vitest";
import { installationFor, redisWaitMs, stepsPerSecond } from "../../bench/capacity-model.ts";

const demand = { workerUs: 400, redisUs: 200 };

test("the part that can do least bounds the rate", () => {
  const bound = (workers: number, slots: number, masters: number, latencyMs: number) =>
    stepsPerSecond({ workers, slots, masters }, demand, latencyMs);
  expect(bound(1, 10, 1, 95)).toEqual({ perSecond: 200, bound: "slots" });
  expect(bound(1, 1_000, 1, 95)).toEqual({ perSecond: 2_500, bound: "workers" });
  expect(bound(9, 1_000, 1, 95)).toEqual({ perSecond: 5_000, bound: "redis" });
  expect(bound(9, 1_000, 3, 95)).toEqual({ perSecond: 15_000, bound: "redis" });
  expect(stepsPerSecond({ workers: 9, slots: 1_000, masters: 3, cores: 3 }, demand, 95)).toEqual({
    perSecond: 5_000,
    bound: "cores",
  });
});

test("an installation that is made for so many runs carries them, and one worker or server fewer does not", () => {
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 1_000_000 }), fc.integer({ min: 1, max: 60_000 }), (runs, latencyMs) => {
      const busy = 0.7;
      const { perSecond, workers, masters, slots } = installationFor(runs, demand, latencyMs, busy);
      const rate = (more: object): number =>
        stepsPerSecond({ workers, slots, masters, ...more }, demand, latencyMs, busy).perSecond;
      expect(rate({})).toBeGreaterThanOrEqual(perSecond * 0.999_999);
      if (workers > 1) expect(rate({ workers: workers - 1 })).toBeLessThan(perSecond);
      if (masters > 1) expect(rate({ masters: masters - 1 })).toBeLessThan(perSecond);
    }),
  );
});

test("a server that is nearly always busy lets everybody wait", () => {
  expect(redisWaitMs(demand, 0.5)).toBeCloseTo(0.1);
  expect(redisWaitMs(demand, 0.95)).toBeCloseTo(1.9);
});
