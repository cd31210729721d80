import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { toRateTerms } from "../../src/core/fleet-limits.ts";
import type { EnterResult, FleetGates, Gate } from "../../src/ports.ts";

export type GatesHarness = {
  gates: FleetGates;
  /** The time the gates go by, epoch ms. */
  now(): number;
  advance(ms: number): void;
  close(): Promise<void>;
};

/** What the gates of a fleet must do, whatever they are made of. */
export function gatesContract(makeHarness: () => Promise<GatesHarness>): void {
  let harness: GatesHarness;
  let tokens = 0;
  beforeEach(async () => {
    harness = await makeHarness();
  });
  afterEach(() => harness.close());

  const tenASecond: Gate = { key: "tool:ten", rate: toRateTerms({ max: 10, perMs: 1_000 }) };
  const twoAtOnce: Gate = { key: "tool:two", concurrency: 2 };

  function enter(holder: string, gates: Gate[] = [tenASecond], token?: string): Promise<EnterResult> {
    tokens += 1;
    return harness.gates.enter({ holder, token: token ?? `t${tokens}`, leaseMs: 10_000, gates });
  }
  async function untilOf(holder: string, gates?: Gate[]): Promise<number> {
    const result = await enter(holder, gates);
    if (result.entered) throw new Error(`${holder} was let in`);
    return result.until;
  }
  const insideAs = async (holder: string, token: string): Promise<EnterResult> => enter(holder, [twoAtOnce], token);

  describe("occupancy", () => {
    const occupancy = async (...gates: Gate[]) => harness.gates.occupancy(gates.map(({ key }) => key));

    test("counts who is inside and who waits, gate by gate", async () => {
      expect(await harness.gates.occupancy([])).toEqual([]);
      expect(await occupancy(twoAtOnce, tenASecond)).toEqual([
        { inside: 0, waiting: 0 },
        { inside: 0, waiting: 0 },
      ]);
      for (const holder of ["a", "b", "c", "d", "e"]) await insideAs(holder, `t-${holder}`);
      for (const holder of ["a", "b", "c"]) await enter(holder);
      expect(await occupancy(tenASecond, twoAtOnce)).toEqual([
        { inside: 0, waiting: 2 },
        { inside: 2, waiting: 3 },
      ]);
      // A place is kept for the first in line, who is neither inside nor in line until it comes.
      await harness.gates.leave("tool:two", { holder: "a", token: "t-a" });
      expect(await occupancy(twoAtOnce)).toEqual([{ inside: 1, waiting: 2 }]);
      await insideAs("c", "t-c2");
      expect(await occupancy(twoAtOnce)).toEqual([{ inside: 2, waiting: 2 }]);
    });

    test("forgets who went without a word", async () => {
      for (const holder of ["a", "b", "c"]) await insideAs(holder, `t-${holder}`);
      for (const holder of ["a", "b"]) await enter(holder);
      harness.advance(10_001);
      expect(await occupancy(twoAtOnce)).toEqual([{ inside: 0, waiting: 1 }]);
      harness.advance(60_000);
      expect(await occupancy(tenASecond)).toEqual([{ inside: 0, waiting: 0 }]);
    });
  });

  describe("rates", () => {
    test("the first enters, the next get places in time in the order they came, evenly spaced", async () => {
      const start = harness.now();
      expect(await enter("a")).toEqual({ entered: true, called: [] });
      const places = [await untilOf("b"), await untilOf("c"), await untilOf("d")].map((until) => until - start);
      expect(places[0]).toBeGreaterThanOrEqual(100);
      expect(places[2]).toBeLessThanOrEqual(3 * 104);
      expect((places[1] ?? 0) - (places[0] ?? 0)).toBeGreaterThanOrEqual(99);
    });

    test("coming back early changes nothing, coming back in time lets in, and the place is used up", async () => {
      await enter("a");
      const [b, c] = [await untilOf("b"), await untilOf("c")];
      expect(await enter("b")).toMatchObject({ entered: false, reason: "rate_limit", gate: 0, until: b });
      harness.advance(b - harness.now());
      expect(await enter("b")).toMatchObject({ entered: true });
      harness.advance(c - harness.now());
      expect(await enter("c")).toMatchObject({ entered: true });
      expect(await enter("c")).toMatchObject({ entered: false, reason: "rate_limit" });
    });

    test("those who come late, all at once, are spread again without a storm", async () => {
      await enter("h0");
      for (let count = 1; count <= 20; count += 1) await untilOf(`h${count}`);
      harness.advance(30_000);
      const places = new Set<number>();
      expect(await enter("h1")).toMatchObject({ entered: true });
      for (let count = 2; count <= 20; count += 1) places.add(await untilOf(`h${count}`));
      expect(places.size).toBe(19);
      const sorted = [...places].sort((x, y) => x - y);
      expect((sorted.at(-1) ?? 0) - harness.now()).toBeLessThan(19 * 104);
      for (let count = 2; count <= 20; count += 1) {
        harness.advance((sorted[count - 2] ?? 0) - harness.now());
        expect(await enter(`h${count}`)).toMatchObject({ entered: true });
      }
    });

    test("a burst goes at once, then the rate holds", async () => {
      const burst: Gate = { key: "tool:burst", rate: toRateTerms({ max: 10, perMs: 1_000, burst: 5 }) };
      for (let count = 0; count < 5; count += 1)
        expect(await enter(`h${count}`, [burst])).toMatchObject({ entered: true });
      const until = await untilOf("late", [burst]);
      expect(until - harness.now()).toBeGreaterThan(80);
      harness.advance(60_000);
      for (let count = 0; count < 5; count += 1)
        expect(await enter(`i${count}`, [burst])).toMatchObject({ entered: true });
    });

    test("giving up frees the places at the end; a place that nobody comes back for holds up no one", async () => {
      const start = harness.now();
      await enter("a");
      for (const holder of ["b", "c", "d", "e"]) await untilOf(holder);
      for (const holder of ["c", "d", "e"]) expect(await harness.gates.giveUp(tenASecond.key, holder)).toEqual([]);
      const next = await untilOf("f");
      expect(next - start).toBeLessThan(2 * 104);
      harness.advance(next - harness.now());
      expect(await enter("f")).toMatchObject({ entered: true }); // "b" never came
    });

    test("gates with other keys are apart", async () => {
      await enter("a");
      expect(await enter("b", [{ ...tenASecond, key: "tool:other" }])).toMatchObject({ entered: true });
    });
  });

  describe("places inside", () => {
    test("so many are let in, the next stand in line, and whoever leaves calls the first of it", async () => {
      await insideAs("a", "ta");
      await insideAs("b", "tb");
      for (const holder of ["c", "d"]) {
        expect(await enter(holder, [twoAtOnce])).toMatchObject({
          entered: false,
          reason: "concurrency_limit",
          gate: 0,
        });
      }
      expect(await harness.gates.isCalled(twoAtOnce.key, "c")).toBe(false);
      expect(await harness.gates.leave(twoAtOnce.key, { holder: "a", token: "ta" })).toEqual([
        { key: twoAtOnce.key, holder: "c" },
      ]);
      expect(await harness.gates.isCalled(twoAtOnce.key, "c")).toBe(true);
      expect(await enter("e", [twoAtOnce])).toMatchObject({ entered: false }); // the place is kept for c
      expect(await enter("d", [twoAtOnce])).toMatchObject({ entered: false });
      expect(await enter("c", [twoAtOnce])).toMatchObject({ entered: true });
    });

    test("looking again does not cost the place in line", async () => {
      await insideAs("a", "ta");
      await insideAs("b", "tb");
      for (const holder of ["c", "d", "c", "c"]) await untilOf(holder, [twoAtOnce]);
      expect(await harness.gates.leave(twoAtOnce.key, { holder: "b", token: "tb" })).toMatchObject([{ holder: "c" }]);
    });

    test("a place whose holder is gone is free once its lease is over, and the line moves", async () => {
      await insideAs("a", "ta");
      await insideAs("b", "tb");
      await untilOf("c", [twoAtOnce]);
      await untilOf("d", [twoAtOnce]);
      harness.advance(9_000);
      await harness.gates.renew(twoAtOnce.key, { holder: "b", token: "tb" }, 10_000);
      harness.advance(1_500);
      const result = await enter("d", [twoAtOnce]);
      expect(result).toMatchObject({ entered: false, called: [{ holder: "c" }] });
      harness.advance(5_001); // c was woken and died on its way
      expect(await enter("d", [twoAtOnce])).toMatchObject({ entered: true });
    });

    test("a redelivered step takes its own place over; the one it replaces neither frees nor renews it", async () => {
      await insideAs("a", "first");
      await insideAs("b", "tb");
      expect(await insideAs("a", "second")).toMatchObject({ entered: true });
      expect(await harness.gates.leave(twoAtOnce.key, { holder: "a", token: "first" })).toEqual([]);
      await harness.gates.renew(twoAtOnce.key, { holder: "a", token: "first" }, 60_000);
      expect(await enter("c", [twoAtOnce])).toMatchObject({ entered: false });
      expect(await harness.gates.leave(twoAtOnce.key, { holder: "a", token: "second" })).toMatchObject([
        { holder: "c" },
      ]);
    });

    test("giving up leaves the line and frees a place that was kept, but puts nobody out who is inside", async () => {
      await insideAs("a", "ta");
      await insideAs("b", "tb");
      for (const holder of ["c", "d", "e"]) await untilOf(holder, [twoAtOnce]);
      expect(await harness.gates.giveUp(twoAtOnce.key, "d")).toEqual([]);
      expect(await harness.gates.giveUp(twoAtOnce.key, "a")).toEqual([]);
      expect(await harness.gates.leave(twoAtOnce.key, { holder: "a", token: "ta" })).toMatchObject([{ holder: "c" }]);
      expect(await harness.gates.giveUp(twoAtOnce.key, "c")).toMatchObject([{ holder: "e" }]);
    });

    test("a renewal after the lease was lost takes the place again: it counts who is really inside", async () => {
      await insideAs("a", "ta");
      harness.advance(11_000);
      await insideAs("b", "tb");
      await harness.gates.renew(twoAtOnce.key, { holder: "a", token: "ta" }, 10_000);
      expect(await enter("c", [twoAtOnce])).toMatchObject({ entered: false });
    });

    test("the first in line look again within seconds, those behind less often", async () => {
      await insideAs("a", "ta");
      await insideAs("b", "tb");
      const waits: number[] = [];
      for (let count = 0; count < 300; count += 1)
        waits.push((await untilOf(`w${count}`, [twoAtOnce])) - harness.now());
      expect(waits[0]).toBe(5_000);
      expect(waits.at(-1)).toBe(60_000);
    });
  });

  test("a rate and places inside: whoever waits for its time keeps its place inside; all gates or none", async () => {
    const both: Gate = { key: "tool:both", rate: toRateTerms({ max: 1, perMs: 1_000 }), concurrency: 2 };
    expect(await enter("a", [both], "ta")).toMatchObject({ entered: true });
    const until = await untilOf("b", [both]);
    expect(await enter("c", [both])).toMatchObject({ entered: false, reason: "concurrency_limit" });
    harness.advance(until - harness.now());
    expect(await enter("b", [both])).toMatchObject({ entered: true });

    expect(await enter("x", [tenASecond])).toMatchObject({ entered: true });
    expect(await enter("y", [twoAtOnce, tenASecond])).toMatchObject({ entered: false, reason: "rate_limit", gate: 1 });
    await enter("z", [twoAtOnce]);
    expect(await enter("w", [tenASecond, twoAtOnce])).toMatchObject({ reason: "concurrency_limit", gate: 1 });
  });

  describe("pauses and breakers", () => {
    test("a pause holds until it is over; a shorter one does not end a longer one", async () => {
      const until = await harness.gates.pause("model:m", 5_000);
      expect(until - harness.now()).toBe(5_000);
      expect(await harness.gates.pause("model:m", 1_000)).toBe(until);
      expect(await harness.gates.states(["model:other", "model:m"])).toEqual([{}, { pausedUntil: until }]);
    });

    test("a breaker changes only if it is what it was thought to be", async () => {
      const { gates } = harness;
      const first = { version: 1, failures: 1 };
      expect(await gates.swapBreaker("tool:t", 0, first)).toBe(true);
      expect(await gates.swapBreaker("tool:t", 0, first)).toBe(false);
      const open = { version: 2, failures: 2, openUntil: 5, openMs: 5, probe: { token: "p", until: 9 } };
      expect(await gates.swapBreaker("tool:t", 1, open)).toBe(true);
      expect(await gates.states(["tool:t"])).toEqual([{ breaker: open }]);
      expect(await gates.swapBreaker("tool:t", 2, undefined)).toBe(true);
      expect(await gates.states(["tool:t", "tool:u"])).toEqual([{}, {}]);
      expect(await gates.states([])).toEqual([]);
    });
  });
}
