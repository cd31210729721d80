import { expect, test } from "vitest";
import { owed } from "../../src/core/owed.ts";
import { noUsage } from "../../src/core/run.ts";
import { answered, makeWorld, runPlan, step, type World } from "./support.ts";

const hold = { reason: "rate_limit" as const, detail: "d", count: 1, gate: "tool:t" };
const ref = ({ run }: World): { owedAt: number; index: number } => {
  const [first] = owed(run);
  if (!first) throw new Error("nothing is owed");
  return { owedAt: first.owedAt, index: first.index };
};

test("a held step whose turn has come is owed under the same name, without a wait", () => {
  const begun = makeWorld();
  for (const world of [begun, step(begun, answered(begun.run, [runPlan]))]) {
    const held = step(world, { type: "step_held", step: ref(world), hold, until: 90_000 });
    expect(held.run.status).toBe("waiting");
    const admitted = step(held, { type: "step_admitted", step: ref(held) });
    expect(admitted.run.status).not.toBe("waiting");
    expect(ref(admitted)).toEqual(ref(held));
    expect(owed(admitted.run)[0]?.notBefore).toBeUndefined();
    expect(step(admitted, { type: "step_admitted", step: ref(admitted) }).run).toBe(admitted.run);
  }
});

test("a held step of a run that was paused meanwhile is not let in; once that goes on, it waits as before", () => {
  const begun = makeWorld();
  for (const world of [begun, step(begun, answered(begun.run, [runPlan]))]) {
    const held = step(world, { type: "step_held", step: ref(world), hold, until: 90_000 });
    const paused = step(held, { type: "pause_requested", by: "ann", reason: "r" });
    const admit = { type: "step_admitted" as const, step: ref(held) };
    expect(step(paused, admit).run).toBe(paused.run);
    const resumed = step(paused, { type: "resume_requested", by: "ann" });
    expect(owed(resumed.run)).toEqual(owed(held.run).map((one) => ({ ...one, owedAt: expect.any(Number) })));
    expect(step(resumed, { type: "step_admitted", step: ref(resumed) }).run).not.toBe(resumed.run);
  }
});

test("a step that is held reported back: starts alone before do not count against it", () => {
  const world = makeWorld();
  const alone = step(world, { type: "step_isolated", step: ref(world), count: 1 });
  const held = step(alone, { type: "step_held", step: ref(alone), hold, until: 90_000 });
  expect(held.run.model?.isolatedStarts).toBeUndefined();
});

test("attempts that the provider only refused for a while are told apart from those that failed, and kept apart", () => {
  const error = { code: "rate_limited", message: "429" };
  const fail = (world: World, refused: boolean): World =>
    step(world, {
      type: "model_failed",
      step: ref(world),
      execution: "x",
      error,
      usage: noUsage,
      nextAt: 90_000,
      ...(refused ? { refused } : {}),
    });
  const world = makeWorld();
  expect(fail(world, false).run.model).toMatchObject({ attempt: 2 });
  expect(fail(world, false).run.model).not.toHaveProperty("refused");
  expect(fail(fail(fail(world, true), true), false).run.model).toMatchObject({ attempt: 4, refused: 2 });
});
