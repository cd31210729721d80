import { describe, expect, test } from "vitest";
import { stricter, tightenLimits } from "../../src/core/agent.ts";
import type { RunEvent } from "../../src/core/event.ts";
import { effectiveLimits, problemOfSize, reachedLimit } from "../../src/core/limits.ts";
import { answered, makeWorld, runPlan, step } from "./support.ts";

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
      maxBytes: 67_108_864,
      maxMessageBytes: 16_777_216,
    });
    const bytes = { maxBytes: 5_000, maxMessageBytes: 2_000 };
    expect(tightenLimits(bytes, { maxBytes: 9_000, maxMessageBytes: 1_500 })).toMatchObject({
      maxBytes: 5_000,
      maxMessageBytes: 1_500,
    });
    expect(tightenLimits({}, { maxBytes: 1e9 })).toMatchObject({ maxBytes: 67_108_864 });
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
    [{ bytes: 5_000 }, { maxBytes: 5_000 }, "byte_budget", "maxBytes"],
  ] as const)("%j stops at %j with %s and says what to raise", (state, limits, reason, field) => {
    const reached = reachedLimit({ ...run, ...state }, limits, 1_000);
    expect(reached?.reason).toBe(reason);
    expect(reached?.message).toContain(field);
  });

  test("goes on below every limit", () => {
    const limits = { maxTurns: 3, maxTokens: 101, maxCostUsd: 0.5 };
    expect(reachedLimit({ ...run, turns: 2, usage: spent, deadlineAt: 1_001 }, limits, 1_000)).toBeNull();
    expect(reachedLimit({ ...run, turns: 2 }, {}, 1_000)).toBeNull();
    expect(reachedLimit({ ...run, bytes: 4_999 }, { maxBytes: 5_000 }, 1_000)).toBeNull();
    // A record of an older version.
    expect(reachedLimit({ ...run, bytes: undefined }, { maxBytes: 5_000 }, 1_000)).toBeNull();
  });

  test("input that is too large is told by field, size and limit", () => {
    const messages = ["a", "b".repeat(2_000)].map((content) => ({ role: "user" as const, content }));
    expect(problemOfSize(messages, {}, { field: "input" })).toBeUndefined();
    expect(problemOfSize(messages, { maxBytes: 3_000, maxMessageBytes: 2_100 }, { field: "input" })).toBeUndefined();
    expect(problemOfSize(messages, { maxMessageBytes: 2_099 }, { field: "input" })).toBe(
      "input[1] is 2100 bytes, the limit of a message (maxMessageBytes) is 2099",
    );
    expect(problemOfSize(messages.slice(1), { maxMessageBytes: 2_099 }, { field: "input" })).toMatch(/^input is 2100/);
    expect(problemOfSize(messages, { maxBytes: 2_200 }, { field: "input" })).toBe(
      "input is 2201 bytes, the limit of a run (maxBytes) is 2200",
    );
    expect(problemOfSize(messages, { maxBytes: 3_000 }, { field: "input", held: 800 })).toBe(
      "input is 2201 bytes and the run holds 800, the limit of a run (maxBytes) is 3000",
    );
  });

  test("what a run keeps is counted once: input, answers, results, what was cut out of them, and its feed", () => {
    let world = makeWorld();
    const grown = (next: typeof world): number => (next.run.bytes ?? 0) - (world.run.bytes ?? 0);
    expect(world.run.bytes).toBeGreaterThan(300);
    const answer = answered(world.run, [runPlan, runPlan]);
    const after = step(world, answer);
    expect(grown(after)).toBeGreaterThan(300);
    world = after;
    const big = "x".repeat(10_000);
    const [first, second] = world.run.calls;
    const finish = (call: typeof first, content: string, bytes?: number): RunEvent => ({
      type: "tool_finished",
      step: { owedAt: call?.owedAt ?? 0, index: call?.position ?? 0 },
      content,
      outcome: "ok",
      ...(bytes === undefined
        ? {}
        : { full: { name: "n", runId: "r", ref: "a", chars: bytes, bytes, head: 1, tail: 1 } }),
    });
    const one = step(world, finish(first, big));
    expect(grown(one)).toBe(10_000 + 100 + 250);
    world = one;
    // The last one appends both, which are counted already.
    const both = step(world, finish(second, "y", 50_000));
    expect(grown(both)).toBe(1 + 50_000 + 100 + 2 * 250);
    world = both;
    const input = { role: "user" as const, content: big };
    const sent = step(world, { type: "input_received", inputId: "i", messages: [input] });
    expect(grown(sent)).toBe(10_000 + 100 + 250);
    const older = step(
      { ...world, run: { ...world.run, bytes: undefined } },
      { type: "input_received", inputId: "j", messages: [input] },
    );
    expect(older.run.bytes).toBe(10_350);
  });
});
