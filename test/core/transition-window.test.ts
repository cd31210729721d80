// Catches: a summary that is lost, made twice or put in place of messages that came later.
import { describe, expect, test } from "vitest";
import { noUsage } from "../../src/core/run.ts";
import { answered, makeWorld, runPlan, step, type World } from "./support.ts";

const ref = ({ run }: World): { owedAt: number; index: number } => ({ owedAt: run.model?.owedAt ?? -1, index: 0 });
const wanted = (world: World, upTo: number): World => step(world, { type: "summary_wanted", step: ref(world), upTo });
const usage = { ...noUsage, inputTokens: 10, outputTokens: 2 };
const error = { code: "context_length_exceeded", message: "too long" };

describe("a summary", () => {
  test("is a step of its own with usage of its own, after which the answer is owed", () => {
    const asked = wanted(makeWorld(), 1);
    expect(asked.run.model).toMatchObject({ task: "summary", upTo: 1, attempt: 1 });
    const done = step(asked, { type: "summarised", step: ref(asked), execution: "e", text: "so far", usage });
    expect(done.run).toMatchObject({ summary: { text: "so far", upTo: 1 }, usage: { inputTokens: 10 } });
    expect(done.run.summary?.id).toBe(done.run.eventSeq);
    expect(done.run.model?.task).toBeUndefined();
  });

  test("that failed for now is tried again as a summary", () => {
    const asked = wanted(makeWorld(), 1);
    const again = step(asked, {
      type: "model_failed",
      step: ref(asked),
      execution: "e",
      error,
      usage: noUsage,
      nextAt: 9_000,
    });
    expect(again.run.model).toMatchObject({ task: "summary", upTo: 1, attempt: 2, notBefore: 9_000 });
  });

  test("is not asked for twice, nor for what is condensed already", () => {
    const asked = wanted(makeWorld(), 1);
    expect(wanted(asked, 1).run).toBe(asked.run);
    const done = step(asked, { type: "summarised", step: ref(asked), execution: "e", text: "so far", usage });
    expect(wanted(done, 1).run).toBe(done.run);
    expect(step(done, { type: "summarised", step: ref(done), execution: "e", text: "again", usage }).run).toBe(
      done.run,
    );
    const busy = step(makeWorld(), answered(makeWorld().run, [runPlan]));
    expect(wanted(busy, 1).run).toBe(busy.run);
  });
});

describe("a window that was too long for the server", () => {
  test("is remembered, and the step goes on at once without using up an attempt", () => {
    const world = makeWorld();
    const shrunk = step(world, { type: "window_shrunk", step: ref(world), execution: "e", budgetTokens: 900, error });
    expect(shrunk.run).toMatchObject({ windowBudget: 900, model: { attempt: 1, owedAt: shrunk.run.revision } });
    const wider = step(shrunk, { type: "window_shrunk", step: ref(shrunk), execution: "f", budgetTokens: 900, error });
    expect(wider.run).toBe(shrunk.run);
  });
});
