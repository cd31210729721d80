import fc from "fast-check";
import { describe, expect, inject, test } from "vitest";
import { toRateTerms } from "../../src/core/fleet-limits.ts";
import type { FleetGates, Gate } from "../../src/ports.ts";
import { connect } from "../../src/redis/connection.ts";
import { createRedisGates } from "../../src/redis/gates.ts";
import { createKeys } from "../../src/redis/keys.ts";
import { createMemoryGates } from "../../src/testing/memory-gates.ts";
import { gatesContract } from "../contract/gates.contract.ts";
import { cliOf, deletePrefix, testPrefix } from "../support/redis.ts";

const url = inject("redisUrl");

function setUp(now?: () => number): { gates: FleetGates; prefix: string; close(): Promise<void> } {
  const prefix = testPrefix();
  const connection = connect(url, { role: "worker" });
  return {
    gates: createRedisGates({ connection, keys: createKeys(prefix), now }),
    prefix,
    async close() {
      await connection.close();
      await deletePrefix(url, prefix);
    },
  };
}

describe("gates in Redis keep the contract", () => {
  gatesContract(async () => {
    let at = Date.now();
    const { gates, close } = setUp(() => at);
    return {
      gates,
      close,
      now: () => at,
      advance: (ms) => {
        at += ms;
      },
    };
  });
});

test("times are Redis's own, and everything expires by itself", async () => {
  const { gates, prefix, close } = setUp();
  const gate: Gate = { key: "tool:x", rate: toRateTerms({ max: 1, perMs: 1_000 }), concurrency: 2 };
  const [seconds] = (await cliOf(url)("TIME")) as [string];
  await gates.enter({ holder: "a", token: "t", leaseMs: 1_000, gates: [gate] });
  const waits = await gates.enter({ holder: "b", token: "t", leaseMs: 1_000, gates: [gate] });
  await gates.enter({ holder: "c", token: "t", leaseMs: 1_000, gates: [gate] });
  await gates.renew(gate.key, { holder: "a", token: "t" }, 1_000);
  if (waits.entered) throw new Error("let in");
  expect(waits.until - Number(seconds) * 1_000).toBeGreaterThanOrEqual(1_000);
  expect(waits.until - Number(seconds) * 1_000).toBeLessThan(5_000);
  await gates.pause(gate.key, 1_000);
  await gates.swapBreaker(gate.key, 0, { version: 1, failures: 1 });
  const keys = (await cliOf(url)("KEYS", `${prefix.replace(/[[\]]/g, "\\$&")}*`)) as string[];
  expect(keys.map((key) => key.slice(`${prefix}:r:gate:tool:x`.length)).sort()).toEqual([
    "",
    ":breaker",
    ":leases",
    ":line",
    ":pause",
    ":tickets",
  ]);
  for (const key of keys) expect(await cliOf(url)("PTTL", key)).toBeGreaterThan(0);
  await close();
});

test("a breaker that cannot be read counts as closed", async () => {
  const { gates, prefix, close } = setUp();
  await cliOf(url)("SET", `${prefix}:r:gate:tool:x:breaker`, "1 {]");
  expect(await gates.states(["tool:x"])).toEqual([{ breaker: undefined }]);
  await close();
});

type Move = { at: number; holder: number; action: "enter" | "leave" | "giveUp" | "renew"; gate: number };

test("whatever happens, Redis and the memory twin decide alike", async () => {
  const made: Gate[] = [
    { key: "r", rate: toRateTerms({ max: 3, perMs: 5_000 }) },
    { key: "c", concurrency: 2 },
    { key: "b", rate: toRateTerms({ max: 5, perMs: 3_000, burst: 3 }), concurrency: 3 },
  ];
  const move = fc.record<Move>({
    at: fc.oneof(
      { weight: 15, arbitrary: fc.integer({ min: 0, max: 600 }) },
      { weight: 1, arbitrary: fc.constantFrom(5_001, 11_000, 70_000) },
    ),
    holder: fc.integer({ min: 0, max: 6 }),
    action: fc.constantFrom("enter", "enter", "enter", "leave", "giveUp", "renew"),
    gate: fc.integer({ min: 0, max: 2 }),
  });
  await fc.assert(
    fc.asyncProperty(fc.array(move, { minLength: 20, maxLength: 80 }), async (moves) => {
      let at = 1_800_000_000_000;
      const real = setUp(() => at);
      const twin = createMemoryGates({ clock: { now: () => at } });
      try {
        for (const { at: ms, holder, action, gate } of moves) {
          at += ms;
          const { key } = made[gate] as Gate;
          const who = { holder: `h${holder}`, token: `t${holder}` };
          const act = (gates: FleetGates): Promise<unknown> => {
            if (action === "enter") return gates.enter({ ...who, leaseMs: 500, gates: [made[gate] as Gate] });
            if (action === "leave") return gates.leave(key, who);
            if (action === "renew") return gates.renew(key, who, 500);
            return gates.giveUp(key, who.holder);
          };
          expect(await act(real.gates)).toEqual(await act(twin));
        }
      } finally {
        await real.close();
      }
    }),
    { numRuns: 60 },
  );
});
