import { expect, test } from "vitest";
import { noLongerOwed, owed } from "../../src/core/owed.ts";
import { answered, askPlan, makeWorld, runPlan, step } from "./support.ts";

test("[G2] what a change made unnecessary is what was owed and is not any more", () => {
  const begun = makeWorld();
  const world = step(begun, answered(begun.run, [askPlan, runPlan]));
  expect(noLongerOwed(begun.run, world.run)).toMatchObject([{ kind: "model", owedAt: 1 }]);
  expect(noLongerOwed(world.run, world.run)).toEqual([]);
  const ended = step(world, { type: "cancel_requested", by: "ann", reason: "r" });
  expect(noLongerOwed(world.run, ended.run)).toEqual(owed(world.run));
  expect(owed(world.run).map(({ kind }) => kind)).toEqual(["tool", "wake"]);
});
