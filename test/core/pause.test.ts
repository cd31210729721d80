// Catches: a paused run that owes work, forgets some, or is held past what others count on.
import { describe, expect, test } from "vitest";
import { problemsOfPauseAll } from "../../src/core/fleet-pause.ts";
import { owed, owedUnlessPaused } from "../../src/core/owed.ts";
import { minReader } from "../../src/core/run.ts";
import { answered, askPlan, makeWorld, runPlan, step, type World, writePlan } from "./support.ts";

const pause = { type: "pause_requested", by: "ann", reason: "look" } as const;
const resume = { type: "resume_requested", by: "ann" } as const;

describe("a paused run", () => {
  test("owes nothing, and resumed owes what it did", () => {
    const begun = makeWorld();
    const paused = step(begun, pause);
    expect(paused.run).toMatchObject({ status: "paused", minReader, paused: { by: "ann", reason: "look" } });
    expect(owed(paused.run)).toEqual([]);
    expect(owedUnlessPaused(paused.run)).toEqual(owed(begun.run));
    expect(step(paused, pause).run).toBe(paused.run);
    expect(step(begun, resume).run).toBe(begun.run);
    const resumed = step(paused, resume);
    expect(resumed.run.status).toBe("queued");
    expect(owed(resumed.run)).toEqual(owed(begun.run));
  });

  test("takes what a step in hand brings, and waits with what follows", () => {
    const begun = makeWorld();
    const paused = step(begun, pause);
    const after = step(paused, answered(paused.run, [runPlan]));
    expect(after.run).toMatchObject({ status: "paused", turns: 1, calls: [{ state: "ready" }] });
    expect(owed(after.run)).toEqual([]);
    expect(owed(step(after, resume).run)).toMatchObject([{ kind: "tool" }]);
  });

  test("takes no start of a call, from whoever had read it before, until it is resumed", () => {
    const begun = makeWorld();
    const ready = step(begun, answered(begun.run, [writePlan]));
    const [call] = ready.run.calls;
    const ref = { owedAt: call?.owedAt ?? 0, index: 1 };
    const start = { type: "tool_started", step: ref, startToken: "s", timeoutAt: 9_000 } as const;
    const paused = step(ready, pause);
    expect(step(paused, start).run).toBe(paused.run);
    expect(step(step(paused, resume), start).run.calls).toMatchObject([{ state: "started" }]);
    const inHand = step(step(ready, start), pause);
    const finished = step(inHand, { ...start, type: "tool_finished", content: "done", outcome: "ok" });
    expect(finished.run).toMatchObject({ status: "paused", calls: [] });
  });

  test("lets people decide, and ends when it is cancelled", () => {
    const begun = makeWorld();
    const asked = step(step(begun, answered(begun.run, [{ ...askPlan, approvalExpiresMs: 500 }])), pause);
    expect(owed(asked.run)).toMatchObject([{ kind: "wake" }]);
    const approved = step(asked, { type: "approved", callId: "call-1-1", by: "bob" });
    expect(approved.run).toMatchObject({ status: "paused", calls: [{ state: "ready" }] });
    expect(owed(approved.run)).toEqual([]);
    const over = step(approved, { type: "cancel_requested", by: "ann", reason: "r" });
    expect(over.run).toMatchObject({ status: "cancelled" });
    expect(over.run.paused).toBeUndefined();
    expect(step(over, pause).run).toBe(over.run);
  });

  test("keeps its deadline", () => {
    const begun: World = makeWorld({ limits: { deadlineMs: 1_000 } });
    expect(owed(begun.run)).toMatchObject([{ kind: "model" }]);
    const paused = step(begun, pause);
    expect(owed(paused.run)).toMatchObject([{ kind: "wake", notBefore: 2_000 }]);
    const late = step({ ...paused, clock: 2_000 }, { type: "time_came" });
    expect(late.run).toMatchObject({ status: "failed", stopReason: "deadline" });
  });
});

test("what pauses the fleet must fit", () => {
  expect(problemsOfPauseAll({ by: "ann", reason: "r", waitMs: 0 })).toEqual([]);
  expect(problemsOfPauseAll({ by: "" })).toEqual([expect.stringMatching(/^by: /)]);
  expect(problemsOfPauseAll({ wait: 1 } as never)).toEqual([expect.stringMatching(/^options: /)]);
});
