import { describe, expect, test } from "vitest";
import { deriveSpanId, isRootReserved, parseTraceparent, reserveTrace, stepSpanId } from "../../src/telemetry/ids.ts";

describe("span ids of steps", () => {
  test("are the same in every process, pinned", () => {
    expect(stepSpanId("order-42", { kind: "model", turn: 3, attempt: 1, owedAt: 9 })).toBe("edc73c558fb02d96");
    expect(stepSpanId("order-42", { kind: "tool", turn: 3, attempt: 2, callId: "call-3-1", owedAt: 9 })).toBe(
      "4aa1726b9df26618",
    );
  });

  test("differ whenever the step differs", () => {
    const steps = [
      { kind: "model", turn: 1, attempt: 1, owedAt: 1 },
      { kind: "model", turn: 1, attempt: 2, owedAt: 1 },
      { kind: "model", turn: 2, attempt: 1, owedAt: 1 },
      { kind: "model", turn: 1, attempt: 1, owedAt: 5 },
      { kind: "tool", turn: 1, attempt: 1, callId: "call-1-1", owedAt: 1 },
      { kind: "tool", turn: 1, attempt: 1, callId: "call-1-2", owedAt: 1 },
    ] as const;
    const ids = ["run-a", "run-b"].flatMap((runId) => steps.map((step) => stepSpanId(runId, step)));
    expect(new Set(ids).size).toBe(steps.length * 2);
    for (const id of ids) expect(id).toMatch(/^[0-9a-f]{16}$/);
  });

  test("parts do not run into each other", () => {
    expect(deriveSpanId("a", "b-1")).not.toBe(deriveSpanId("a-b", "1"));
    expect(deriveSpanId("a", 1)).not.toBe(deriveSpanId("a", "1"));
  });
});

describe("the ids of a run", () => {
  test("without a parent: a random trace, a reserved root, sampled", () => {
    const [first, second] = [reserveTrace("run-a", undefined), reserveTrace("run-a", undefined)];
    expect(first).toEqual({
      traceId: expect.stringMatching(/^[0-9a-f]{32}$/),
      rootSpanId: expect.any(String),
      flags: 1,
    });
    expect(second.traceId).not.toBe(first.traceId);
    expect(second.rootSpanId).not.toBe(first.rootSpanId);
    expect(isRootReserved({ runId: "run-a", trace: first })).toBe(true);
    expect(isRootReserved({ runId: "run-b", trace: first })).toBe(false);
  });

  test("under a parent: its trace and its sampling decision", () => {
    const parent = { traceId: "a".repeat(32), spanId: "b".repeat(16), traceFlags: 0 };
    expect(reserveTrace("run-a", parent)).toMatchObject({
      traceId: parent.traceId,
      parentSpanId: parent.spanId,
      flags: 0,
    });
  });
});

describe("traceparent", () => {
  const [traceId, spanId] = ["0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"];

  test.each([
    [`00-${traceId}-${spanId}-01`, 1],
    [`00-${traceId}-${spanId}-00`, 0],
    [`00-${traceId}-${spanId}-03`, 1],
    [`cc-${traceId}-${spanId}-01-of-the-future`, 1],
  ])("%s is read", (traceparent, traceFlags) => {
    expect(parseTraceparent(traceparent)).toEqual({ traceId, spanId, traceFlags, isRemote: true });
  });

  test.each([
    undefined,
    "",
    "nonsense",
    `ff-${traceId}-${spanId}-01`,
    `00-${traceId}-${spanId}-01-more`,
    `00-${"0".repeat(32)}-${spanId}-01`,
    `00-${traceId}-${"0".repeat(16)}-01`,
    `00-${traceId.toUpperCase()}-${spanId}-01`,
  ])("%s is not one", (traceparent) => {
    expect(parseTraceparent(traceparent)).toBeUndefined();
  });
});
