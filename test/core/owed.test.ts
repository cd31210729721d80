import { expect, test } from "vitest";
import { holdOf, noLongerOwed, owed, owedStep } from "../../src/core/owed.ts";
import { answered, askPlan, makeWorld, runPlan, step } from "./support.ts";

test("[G2] what a change made unnecessary is what was owed and is not any more", () => {
  const begun = makeWorld();
  const world = step(begun, answered(begun.run, [askPlan, runPlan]));
  expect(noLongerOwed(begun.run, owed(world.run))).toMatchObject([{ kind: "model", owedAt: 1 }]);
  expect(noLongerOwed(world.run, owed(world.run))).toEqual([]);
  const ended = step(world, { type: "cancel_requested", by: "ann", reason: "r" });
  expect(noLongerOwed(world.run, owed(ended.run))).toEqual(owed(world.run));
  expect(owed(world.run).map(({ kind }) => kind)).toEqual(["tool", "wake"]);
});

test("a step is found by its name while the run owes it", () => {
  const begun = makeWorld();
  expect(owedStep(begun.run, { owedAt: 1, index: 0 })).toMatchObject({ kind: "model" });
  expect(owedStep(begun.run, { owedAt: 2, index: 0 })).toBeUndefined();
});

test("why a step is held is asked of the model step, or of the call that is ready", () => {
  const hold = { reason: "rate_limit" as const, detail: "its turn", count: 1 };
  const begun = makeWorld();
  expect(holdOf(begun.run, {})).toBeUndefined();
  const held = step(begun, { type: "step_held", step: { owedAt: 1, index: 0 }, hold, until: 9_000 });
  expect(holdOf(held.run, {})).toEqual(hold);
  const world = step(begun, answered(begun.run, [askPlan, runPlan]));
  const { owedAt } = world.run.calls[1] ?? { owedAt: 0 };
  const waiting = step(world, { type: "step_held", step: { owedAt, index: 2 }, hold, until: 9_000 });
  expect(holdOf(waiting.run, { callId: "call-1-2" })).toEqual(hold);
  expect(holdOf(waiting.run, { callId: "call-1-1" })).toBeUndefined(); // it waits for a person
  expect(holdOf(waiting.run, { callId: "call-9-9" })).toBeUndefined();
});
