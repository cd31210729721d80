// Catches: a call that takes a child's word it should not, or misses one; a run that ends and forgets whom it owes a word.
import { describe, expect, test } from "vitest";
import { childIdOf, nextLookAt } from "../../src/core/child.ts";
import type { FeedEntry, RunEvent } from "../../src/core/event.ts";
import { problemOfStart, runIdSchema } from "../../src/core/new-run.ts";
import { owed } from "../../src/core/owed.ts";
import { stepsOf } from "../../src/core/report-steps.ts";
import { minReader, noUsage, type Run } from "../../src/core/run.ts";
import { waitsForChild } from "../../src/core/transition-children.ts";
import { answered, childPlan, makeWorld, runPlan, step, type World } from "./support.ts";

const parent = { runId: "boss", callId: "call-1-1", depth: 1 };

/** A run whose first call is to be a child, and the child's id. */
function opened(plans = [childPlan]): { world: World; childId: string } {
  const begun = makeWorld();
  const world = step(begun, answered(begun.run, plans));
  return { world, childId: world.run.calls[0]?.child?.runId ?? "" };
}

/** The step that the call owes at the moment. */
const refOf = ({ run }: World): { owedAt: number; index: number } => ({ owedAt: run.calls[0]?.owedAt ?? -1, index: 1 });
const started = (world: World): World => step(world, { type: "child_started", step: refOf(world) });
const ended = (childId: string, revision = 5): RunEvent => ({
  type: "child_ended",
  callId: "call-1-1",
  childId,
  revision,
});
const finished = (world: World, more: object = {}): RunEvent => ({
  type: "child_finished",
  step: refOf(world),
  content: "42",
  outcome: "ok",
  end: { status: "completed", stopReason: "answered" },
  usage: { ...noUsage, inputTokens: 7 },
  ...more,
});

describe("the id of a child", () => {
  test("follows from parent and call, tells parents of one id apart, and fits", () => {
    const { run } = makeWorld();
    const id = childIdOf(run, "call-1-1");
    expect(childIdOf({ ...run }, "call-1-1")).toBe(id);
    expect(id).toMatch(/^run-1\.call-1-1\.[0-9a-z]+$/);
    const others = [
      childIdOf(run, "call-1-2"),
      childIdOf({ ...run, createdAt: run.createdAt + 1 }, "call-1-1"),
      childIdOf({ ...run, inputHash: "other" }, "call-1-1"),
    ];
    expect(new Set([id, ...others]).size).toBe(4);
    const long = childIdOf({ ...run, runId: `${"1".repeat(126)}aé` }, "call-12-104");
    expect(runIdSchema.safeParse(long.replace("é", "e")).success).toBe(true);
    expect(long).toHaveLength(128);
  });
});

test("looks grow apart, between two seconds and ten minutes", () => {
  expect(nextLookAt(1_000, 1_000)).toBe(3_000);
  expect(nextLookAt(0, 40_000)).toBe(50_000);
  expect(nextLookAt(0, 86_400_000)).toBe(87_000_000);
});

describe("a call whose execution is a run", () => {
  test("owes a start, waits, looks, and brings the result", () => {
    const { world, childId } = opened();
    expect(world.run).toMatchObject({ minReader, calls: [{ state: "ready", child: { runId: childId } }] });
    const waiting = started(world);
    expect(waiting.run.calls).toMatchObject([{ state: "child", lookAt: waiting.clock + 2_000 }]);
    expect(waiting.run.status).toBe("waiting");
    expect(owed(waiting.run)).toMatchObject([{ kind: "wake", notBefore: waiting.clock + 2_000 }]);
    const told = step(waiting, ended(childId));
    expect(owed(told.run)).toMatchObject([{ kind: "tool", callId: "call-1-1", owedAt: told.run.revision }]);
    const done = step(told, finished(told));
    expect(done.run).toMatchObject({ calls: [], usage: { inputTokens: 8 } });
    expect(done.messages.at(-1)).toMatchObject({ role: "tool", content: "42", outcome: "ok" });
  });

  test("takes each word on the end once, also before its own start was committed", () => {
    const { world, childId } = opened();
    const early = step(world, ended(childId));
    expect(early.run.calls).toMatchObject([{ state: "ready", child: { lookedFor: 5, since: early.clock } }]);
    expect(step(early, ended(childId)).run).toBe(early.run);
    expect(step(early, ended(childId, 4)).run).toBe(early.run);
    // The start that was under way is superseded.
    expect(step(early, { type: "child_started", step: refOf(world) }).run).toBe(early.run);
    const again = step(early, ended(childId, 9));
    expect(again.run.calls).toMatchObject([{ owedAt: again.run.revision, child: { lookedFor: 9 } }]);
  });

  test("takes no word of others", () => {
    const { world, childId } = opened([childPlan, runPlan]);
    const waiting = started(world);
    const strange: RunEvent[] = [
      ended("other"),
      { ...(ended(childId) as Extract<RunEvent, { type: "child_ended" }>), callId: "call-1-2" },
      { ...(ended(childId) as Extract<RunEvent, { type: "child_ended" }>), callId: "call-9-9" },
      { type: "child_started", step: { owedAt: world.run.revision, index: 2 } },
      { type: "child_goes_on", step: refOf(waiting) },
      { type: "child_lost", step: refOf(waiting) },
      finished(waiting),
    ];
    for (const event of strange) expect(step(waiting, event).run).toBe(waiting.run);
    for (const type of ["child_goes_on", "child_lost"] as const) {
      expect(step(world, { type, step: refOf(world) }).run).toBe(world.run);
    }
    const looking = step(waiting, ended(childId));
    expect(step(looking, { type: "child_started", step: refOf(looking) }).run).toBe(looking.run);
    expect(waitsForChild(looking.run, { callId: "call-1-1", childId })).toBe(true);
    expect(waitsForChild(looking.run, { callId: "call-1-2", childId })).toBe(false);
  });

  test("looks by itself when the time has come, waits on if the child goes on, and starts a lost one anew", () => {
    const { world } = opened();
    const waiting = started(world);
    expect(step(waiting, { type: "time_came" }).run).toBe(waiting.run);
    const due = step({ ...waiting, clock: waiting.clock + 2_000 }, { type: "time_came" });
    expect(due.run.calls).toMatchObject([{ state: "ready", owedAt: due.run.revision }]);
    const on = step(due, { type: "child_goes_on", step: refOf(due) });
    expect(on.run.calls).toMatchObject([{ state: "child", child: { since: waiting.clock } }]);
    const lost = step(due, { type: "child_lost", step: refOf(due) });
    expect(lost.run.calls).toMatchObject([{ state: "ready", child: { lost: 1 } }]);
    expect(lost.run.calls[0]?.child?.since).toBeUndefined();
    const twice = step(started(lost), ended(lost.run.calls[0]?.child?.runId ?? ""));
    expect(step(twice, { type: "child_lost", step: refOf(twice) }).run.calls).toMatchObject([{ child: { lost: 2 } }]);
  });

  test("fails its run if the policy says so, with the result kept and the other children left to end", () => {
    const { world, childId } = opened([childPlan, childPlan, runPlan]);
    const told = step(started(world), ended(childId));
    const fails = { code: "child_failed", message: "it failed" };
    const full = { ref: "", middle: "", chars: 1, head: 0, tail: 0 };
    const failed = step(told, finished(told, { outcome: "failed", content: "no", fails, full }));
    expect(failed.run).toMatchObject({ status: "failed", stopReason: "child_failed", error: fails });
    const second = world.run.calls[1]?.child?.runId;
    expect(failed.run.leftChildren).toEqual({ runIds: [second], owedAt: failed.run.revision });
    expect(owed(failed.run)).toMatchObject([{ kind: "children", owedAt: failed.run.revision }]);
    expect(failed.messages.filter(({ role }) => role === "tool").map((message) => message.content)).toEqual([
      "no",
      expect.stringMatching(/^Not executed/),
      expect.stringMatching(/^Not executed/),
    ]);
    expect(step(failed, { type: "children_ended", owedAt: 1 }).run).toBe(failed.run);
    const over = step(failed, { type: "children_ended", owedAt: failed.run.revision });
    expect(owed(over.run)).toEqual([]);
    // What was left before a retry is still to end.
    const retried = step(failed, { type: "retry_requested", by: "p" });
    expect(owed(retried.run).map(({ kind }) => kind)).toEqual(["children", "model"]);
    const again = step(retried, answered(retried.run, [childPlan]));
    const cancelled = step(again, { type: "cancel_requested", by: "p", reason: "r" });
    expect(cancelled.run.leftChildren?.runIds).toEqual([second, again.run.calls[0]?.child?.runId]);
  });

  test("tells what was not finished, and counts what was reported once", () => {
    const { world, childId } = opened();
    const waiting = started(world);
    const over = step(waiting, { type: "cancel_requested", by: "p", reason: "r" });
    expect(over.messages.at(-1)?.content).toContain(`Not finished by run ${childId}, which is ended too`);
    const counted = { ...waiting, run: { ...waiting.run, lateUsage: [`child ${childId}`] } };
    const told = step(counted, ended(childId));
    expect(step(told, finished(told)).run.usage.inputTokens).toBe(1);
  });
});

test("a start that does not fit is said in words", () => {
  expect(problemOfStart({ agent: "a", input: "go" })).toBeUndefined();
  expect(problemOfStart({ agent: "", input: "go" })).toMatch(/^agent: /);
  expect(problemOfStart(7)).toMatch(/^input: /);
});

test("the step of a call tells of its child from its start to its end, lost ones apart", () => {
  const { world, childId } = opened();
  const at = { seq: 1, turn: 1 };
  const named = { callId: "call-1-1", tool: "tool", childId };
  const begun: FeedEntry[] = [{ ...at, at: 10, type: "child_started", ...named, agent: "helper" }];
  const lost: FeedEntry[] = [...begun, { ...at, at: 20, type: "child_lost", ...named }];
  const steps = stepsOf({ turn: 1, entries: begun }, started(world).run);
  expect(steps).toMatchObject([{ kind: "tool", outcome: "open", startedAt: 10, childId }]);
  // A look is no step of its own.
  expect(stepsOf({ turn: 1, entries: begun }, step(started(world), ended(childId)).run)).toHaveLength(1);
  const again = stepsOf({ turn: 1, entries: lost }, world.run);
  expect(again.map(({ outcome }) => outcome)).toEqual(["lost", "open"]);
});

describe("a run that is a child", () => {
  const ofChild = (): Run => {
    const begun = makeWorld({ parent });
    return step(begun, { type: "cancel_requested", by: "p", reason: "r" }).run;
  };

  test("owes its parent a word once it has ended, until it was given", () => {
    const begun = makeWorld({ parent });
    expect(begun.run.minReader).toBe(minReader);
    expect(owed(begun.run)).toMatchObject([{ kind: "model" }]);
    const over = step(begun, { type: "cancel_requested", by: "p", reason: "r" });
    const { revision } = over.run;
    expect(owed(over.run)).toMatchObject([{ kind: "notify", owedAt: revision }]);
    expect(step(over, { type: "parent_told", owedAt: 1 }).run).toBe(over.run);
    const told = step(over, { type: "parent_told", owedAt: revision });
    expect(owed(told.run)).toEqual([]);
    expect(step(told, { type: "parent_told", owedAt: revision }).run).toBe(told.run);
  });

  test("is retried by its parent so often and no more, and owes a word again after that", () => {
    const begun = makeWorld({ parent });
    const model = { owedAt: 1, index: 0 };
    const error = { code: "x", message: "x" };
    const fail: RunEvent = { type: "model_failed", step: model, execution: "e", error, usage: noUsage, nextAt: null };
    const failed = step(begun, fail);
    expect(step(failed, { type: "child_retried", retry: 2, by: "run boss" }).run).toBe(failed.run);
    const retried = step(failed, { type: "child_retried", retry: 1, by: "run boss" });
    expect(retried.run).toMatchObject({ status: "queued", parent: { retries: 1 } });
    expect(owed(retried.run)).toMatchObject([{ kind: "model" }]);
    expect(step(retried, { type: "child_retried", retry: 2, by: "run boss" }).run).toBe(retried.run);
    // By hand it goes on whoever waits, and its parent's retries are counted anew.
    const again = step(step(retried, { ...fail, step: { owedAt: retried.run.revision, index: 0 } }), {
      type: "retry_requested",
      by: "ann",
    });
    expect(again.run).toMatchObject({ status: "queued", parent: { retries: undefined } });
    expect(step({ ...begun, run: ofChild() }, { type: "child_retried", retry: 1, by: "run boss" }).run.status).toBe(
      "cancelled",
    );
    const alone = makeWorld();
    expect(step(alone, { type: "child_retried", retry: 1, by: "run boss" }).run).toBe(alone.run);
    expect(step(alone, { type: "parent_told", owedAt: 1 }).run).toBe(alone.run);
  });
});
