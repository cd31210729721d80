// Catches: a run that ends before its answer was checked, is asked again for ever, or loses what the model was told.
import { describe, expect, test } from "vitest";
import type { AnswerNext, RunEvent } from "../../src/core/event.ts";
import { owed } from "../../src/core/owed.ts";
import { answered, makeWorld, step, type World } from "./support.ts";

const begun = (): World => step(makeWorld(), { type: "run_began", agentHash: "h" });
function answer(world: World, next?: AnswerNext): World {
  return step(world, answered(world.run, [], { ...(next ? { next } : {}) } as Partial<RunEvent>));
}
const ref = ({ run }: World): { owedAt: number; index: number } => ({ owedAt: run.model?.owedAt ?? -1, index: 0 });
const verified = (world: World): World => step(world, { type: "answer_verified", step: ref(world) });
const refused = (world: World, max: number): World =>
  step(world, { type: "answer_refused", step: ref(world), feedback: "too short", max });
const more = (world: World): World =>
  step(world, { type: "input_received", inputId: "i", messages: [{ role: "user", content: "more" }] });

describe("an answer that must be verified", () => {
  test("owes the check as a step of its own, and completes the run once it stands", () => {
    const asked = answer(begun(), { type: "verify" });
    expect(asked.run).toMatchObject({ status: "running", model: { task: "verify", attempt: 1 } });
    expect(owed(asked.run)).toMatchObject([{ kind: "verify", index: 0 }]);
    expect(verified(asked).run).toMatchObject({ status: "completed", stopReason: "answered" });
  });

  test("is told to the model when it does not stand, so often and no more; a retry goes on from there", () => {
    const once = refused(answer(begun(), { type: "verify" }), 1);
    expect(once.run).toMatchObject({ status: "running", verifications: 1, model: { attempt: 1 } });
    expect(once.messages.at(-1)).toEqual({ role: "user", content: "too short", origin: "run" });
    const twice = refused(answer(once, { type: "verify" }), 1);
    expect(twice.run).toMatchObject({ status: "failed", stopReason: "verify_failed" });
    expect(twice.run.error?.message).toContain("too short");
    expect(twice.messages.at(-1)).toMatchObject({ content: "too short" });
    const again = step(twice, { type: "retry_requested", by: "p" });
    expect(again.run).toMatchObject({ status: "running", model: { attempt: 1 } });
    expect(again.run.verifications).toBeUndefined();
  });

  test("gives way to input that came meanwhile", () => {
    expect(answer(more(begun()), { type: "verify" }).run.model?.task).toBeUndefined();
    const late = verified(more(answer(begun(), { type: "verify" })));
    expect(late.run).toMatchObject({ status: "running", model: { attempt: 1 } });
    expect(late.messages.at(-1)).toMatchObject({ content: "more" });
  });

  test("whose check fails is checked again, and fails the run when no attempt is left", () => {
    const asked = answer(begun(), { type: "verify" });
    const error = { code: "timeout", message: "the check was too slow" };
    const later = step(asked, { type: "verify_failed", step: ref(asked), error, nextAt: 5_000 });
    expect(later.run.model).toMatchObject({ task: "verify", attempt: 2, notBefore: 5_000 });
    const over = step(later, { type: "verify_failed", step: ref(later), error, nextAt: null });
    expect(over.run).toMatchObject({ status: "failed", stopReason: "verify_failed", error: { code: "timeout" } });
  });

  test("is checked first by a retry, where the check did not come to an end", () => {
    const asked = answer(begun(), { type: "verify" });
    const error = { code: "threw", message: "no database" };
    const failed = (world: World): World =>
      step(world, { type: "verify_failed", step: ref(world), error, nextAt: null });
    const retry = (world: World): World => step(world, { type: "retry_requested", by: "p" });
    const again = retry(failed(asked));
    expect(again.run).toMatchObject({ status: "running", model: { task: "verify", attempt: 1 } });
    expect(again.run.unchecked).toBeUndefined();
    expect(verified(again).run).toMatchObject({ status: "completed" });
    expect(retry(failed(more(asked))).run.model?.task).toBeUndefined();
    const shared = { session: "s", baseMessage: 0, place: { state: "active" as const, round: 1, owedAt: 1 } };
    const inSession = { ...asked, run: { ...asked.run, ...shared } };
    expect(retry(failed(inSession)).run).toMatchObject({
      place: { state: "joined" },
      pendingInput: [{ role: "user", origin: "run" }],
    });
    expect(retry(failed(more(inSession))).run.pendingInput).toMatchObject([{ content: "more" }]);
  });

  test("takes no other event for its step, and its events fit no other step", () => {
    const asked = answer(begun(), { type: "verify" });
    const error = { code: "x", message: "x" };
    const usage = { inputTokens: 0, outputTokens: 0, cachedTokens: 0 };
    expect(answer(asked).run).toBe(asked.run);
    expect(
      step(asked, { type: "model_failed", step: ref(asked), execution: "e", error, usage, nextAt: null }).run,
    ).toBe(asked.run);
    const fresh = begun();
    expect(verified(fresh).run).toBe(fresh.run);
  });
});

describe("an answer that does not fit the output", () => {
  const reask: AnswerNext = { type: "reask", feedback: "not JSON", max: 1 };

  test("is asked for again so often, then fails the run", () => {
    const once = answer(begun(), reask);
    expect(once.run).toMatchObject({ status: "running", reasks: 1 });
    expect(once.messages.at(-1)).toMatchObject({ role: "user", content: "not JSON" });
    expect(answer(once, reask).run).toMatchObject({ status: "failed", stopReason: "bad_output" });
    expect(answer(once).run).toMatchObject({ status: "completed" });
  });

  test("fails the run at once where it may not be asked for again", () => {
    expect(answer(begun(), { ...reask, max: 0 }).run).toMatchObject({ status: "failed", stopReason: "bad_output" });
  });
});
