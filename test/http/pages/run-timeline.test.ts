import { expect, test } from "vitest";
import type { StepView, TurnView } from "../../../src/core/report.ts";
import { noUsage } from "../../../src/core/run.ts";
import { barOf, scaleOf } from "../../../src/http/pages/run-timeline.ts";

function turn(steps: Partial<StepView>[], endedAt: number | undefined = 1_000): TurnView {
  const whole = steps.map((step): StepView => ({ kind: "model", attempt: 1, outcome: "ok", ...step }));
  return { turn: 1, startedAt: 0, endedAt, steps: whole, marks: [], calls: [], usage: noUsage, input: [] };
}

test("a step's wait in its queue lies before its work", () => {
  const { segments, lanes, lengthMs } = barOf(turn([{ endedAt: 700, performMs: 500, queueWaitMs: 200 }]), 2_000);
  expect(segments).toEqual([
    { kind: "queue", from: 0, to: 200, lane: 0 },
    { kind: "model", from: 200, to: 700, lane: 0 },
  ]);
  expect([lanes, lengthMs]).toEqual([1, 1_000]);
});

test("steps that were under way at once lie in lanes of their own, others share one", () => {
  const tool = { kind: "tool", performMs: 300 } as const;
  const { segments, lanes } = barOf(
    turn([
      { endedAt: 500, performMs: 500 },
      { ...tool, endedAt: 800 },
      { ...tool, endedAt: 850 },
    ]),
    2_000,
  );
  expect(segments.map(({ lane }) => lane)).toEqual([0, 0, 1]);
  expect(lanes).toBe(2);
});

test("what is under way goes on up to now, and what was held took no time", () => {
  const open = barOf(
    turn(
      [
        { outcome: "open", startedAt: 100 },
        { outcome: "held", endedAt: 50 },
      ],
      undefined,
    ),
    900,
  );
  expect(open.segments).toEqual([{ kind: "model", from: 100, to: 900, lane: 0 }]);
});

test("times that do not fit the turn, from another clock, stay within it", () => {
  const { segments } = barOf(turn([{ endedAt: 5_000, performMs: 9_000, queueWaitMs: 10 }]), 9_000);
  expect(segments).toEqual([{ kind: "model", from: 0, to: 1_000, lane: 0 }]);
});

test("a turn that took far longer than most does not flatten the others", () => {
  expect(scaleOf([1_000, 1_200, 900, 2_500, 7_200_000])).toBe(2_500);
  expect(scaleOf([])).toBe(1);
});
