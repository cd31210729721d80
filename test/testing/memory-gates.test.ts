import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { toRateTerms } from "../../src/core/fleet-limits.ts";
import { manualClock } from "../../src/testing/manual-clock.ts";
import { createMemoryGates } from "../../src/testing/memory-gates.ts";
import { gatesContract } from "../contract/gates.contract.ts";

describe("gates in memory keep the contract", () => {
  gatesContract(async () => {
    const clock = manualClock();
    return { gates: createMemoryGates({ clock }), now: clock.now, advance: clock.advance, close: async () => {} };
  });
});

type Load = { max: number; perMs: number; arrivals: number[]; lateness: number[] };

/** Lets all come at their times, each parked until its turn and back some ms late; when each was let in, and how often it came. */
async function simulate({ max, perMs, arrivals, lateness }: Load): Promise<{ entries: number[]; visits: number }> {
  const clock = manualClock();
  const start = clock.now();
  const gates = createMemoryGates({ clock });
  const gate = { key: "g", rate: toRateTerms({ max, perMs }) };
  const due = arrivals.map((at, index) => ({ holder: `h${index}`, at: start + at }));
  const entries: number[] = [];
  let visits = 0;
  while (due.length > 0) {
    due.sort((a, b) => a.at - b.at);
    const next = due.shift();
    if (!next) break;
    clock.advance(next.at - clock.now());
    const result = await gates.enter({ holder: next.holder, token: "t", leaseMs: 1, gates: [gate] });
    if (result.entered) entries.push(clock.now() - start);
    else due.push({ ...next, at: result.until + (lateness[visits % lateness.length] ?? 0) });
    visits += 1;
  }
  return { entries, visits };
}

const load = fc.record({
  max: fc.integer({ min: 1, max: 20 }),
  perMs: fc.integer({ min: 200, max: 5_000 }),
  arrivals: fc.array(fc.integer({ min: 0, max: 3_000 }), { minLength: 1, maxLength: 120 }),
  lateness: fc.array(fc.oneof(fc.integer({ min: 0, max: 15 }), fc.constantFrom(0, 0, 900)), {
    minLength: 1,
    maxLength: 9,
  }),
});

test("never more than max in any window of perMs, whoever comes back late; all are let in", async () => {
  await fc.assert(
    fc.asyncProperty(load, async (given) => {
      const { entries } = await simulate(given);
      expect(entries).toHaveLength(given.arrivals.length);
      entries.forEach((at, index) => {
        expect((entries[index + given.max] ?? Infinity) - at).toBeGreaterThanOrEqual(given.perMs - 1);
      });
    }),
    { numRuns: 300 },
  );
});

test("the rate is used in full by those who wait, and coming back costs one visit", async () => {
  const arrivals = Array.from({ length: 500 }, () => 0);
  for (const lateness of [[0], [3, 9, 1, 14, 6, 0, 18]]) {
    const { entries, visits } = await simulate({ max: 10, perMs: 1_000, arrivals, lateness });
    const perSecond = (entries.length - 1) / ((entries.at(-1) ?? 0) / 1_000);
    expect(perSecond).toBeGreaterThan(9.65);
    expect(perSecond).toBeLessThanOrEqual(10);
    expect(visits).toBeLessThan(2 * arrivals.length * 1.05);
  }
});
