// The cases that people will ask about, each by name. What holds for all sequences is in transition.property.test.ts.
import { describe, expect, test } from "vitest";
import type { CallPlan, RunEvent, StepRef } from "../../src/core/event.ts";
import { owed } from "../../src/core/owed.ts";
import { noUsage, type OpenCall, schemaVersion } from "../../src/core/run.ts";
import { transition } from "../../src/core/transition.ts";
import { answered, askPlan, makeWorld, runPlan, settlePlan, step, type World, writePlan } from "./support.ts";

const error = { code: "x", message: "it broke" };

function open(...plans: CallPlan[]): World {
  const world = makeWorld();
  return step(world, answered(world.run, plans));
}

function call(world: World, position = 1): OpenCall {
  const found = world.run.calls.find((other) => other.position === position);
  if (!found) throw new Error(`call ${position} is not open`);
  return found;
}

const ref = (world: World, position = 1): StepRef => ({ owedAt: call(world, position).owedAt, index: position });
const model = (world: World): StepRef => ({ owedAt: world.run.model?.owedAt ?? -1, index: 0 });
const play = (world: World, ...events: ((world: World) => RunEvent)[]): World =>
  events.reduce((current, event) => step(current, event(current)), world);

const start = (world: World): RunEvent => ({
  type: "tool_started",
  step: ref(world),
  startToken: "s",
  timeoutAt: 1_500,
});
const lose = (world: World): RunEvent => ({ type: "tool_lost", step: ref(world) });
const time = (): RunEvent => ({ type: "time_came" });
const at = (world: World, clock: number): World => ({ ...world, clock: clock - 1 });

describe("a turn", () => {
  test("without calls ends the run", () => {
    const world = makeWorld();
    expect(step(world, answered(world.run, [])).run).toMatchObject({
      status: "completed",
      stopReason: "answered",
      turns: 1,
    });
  });

  test("with calls that cannot be executed owes the next answer at once", () => {
    const world = open(settlePlan, settlePlan);
    expect(world.messages.slice(2)).toMatchObject([{ callId: "call-1-1", outcome: "failed" }, { callId: "call-1-2" }]);
    expect(owed(world.run)).toMatchObject([{ kind: "model", owedAt: world.run.revision }]);
  });

  test("takes input that came meanwhile before the next answer, and goes on for it after a final one", () => {
    const begun = makeWorld();
    const more: RunEvent = { type: "input_received", inputId: "i1", messages: [{ role: "user", content: "and?" }] };
    const world = step(begun, more);
    const again = step(world, answered(world.run, []));
    expect(again.run).toMatchObject({ status: "queued", turns: 1, pendingInput: [] });
    expect(again.messages.at(-1)).toEqual({ role: "user", content: "and?" });
  });
});

test("input that was sent again is taken once", () => {
  const more: RunEvent = { type: "input_received", inputId: "i1", messages: [{ role: "user", content: "and?" }] };
  const once = step(makeWorld(), more);
  expect(once.run.pendingInput.length).toBe(1);
  expect(step(once, more).run).toBe(once.run);
});

describe("a model step", () => {
  const failed =
    (nextAt: number | null) =>
    (world: World): RunEvent => ({
      type: "model_failed",
      step: model(world),
      execution: "x",
      error,
      usage: { ...noUsage, inputTokens: 3 },
      nextAt,
    });

  test("that failed is owed again under another name, and counts its tokens", () => {
    const world = play(makeWorld(), failed(9_000));
    expect(world.run).toMatchObject({
      status: "waiting",
      usage: { inputTokens: 3 },
      model: { attempt: 2, notBefore: 9_000, owedAt: 2 },
    });
  });

  test("that failed for good is retried once under a name, however often it is asked for", () => {
    const retry: RunEvent = { type: "retry_requested", by: "ann", retryId: "one" };
    const fail = (world: World): World => step(world, failed(null)(world));
    const retried = step(fail(makeWorld()), retry);
    expect(retried.run.status).toBe("queued");
    const again = fail(retried);
    expect(again.run.status).toBe("failed");
    expect(step(again, retry).run).toBe(again.run);
    expect(step(again, { ...retry, retryId: "two" }).run.status).toBe("queued");
  });

  test("[G9] that failed for good fails the run, and a retry goes on from there", () => {
    const before = open(runPlan);
    const done: RunEvent = { type: "tool_finished", step: ref(before), content: "42", outcome: "ok" };
    const world = play(before, () => done, failed(null));
    expect(world.run).toMatchObject({ status: "failed", stopReason: "model_error", error });
    const retried = step(world, { type: "retry_requested", by: "ann", limits: { maxTurns: 50, deadlineMs: 900 } });
    expect(retried.run).toMatchObject({
      status: "queued",
      turns: 1,
      retryLimits: { maxTurns: 50 },
      deadlineAt: retried.clock + 900,
    });
    expect(retried.run.stopReason).toBeUndefined();
    expect(retried.messages).toEqual(world.messages);
    expect(owed(retried.run)).toMatchObject([{ kind: "model", owedAt: retried.run.revision }]);
  });

  test("that is held says why and waits under another name", () => {
    const hold = { reason: "unknown_agent" as const, detail: "no worker knows it", count: 1 };
    const world = play(makeWorld(), (w) => ({ type: "step_held", step: model(w), hold, until: 90_000 }));
    expect(world.run).toMatchObject({ status: "waiting", model: { hold, attempt: 1, notBefore: 90_000 } });
  });

  test("that met a limit ends the run with it", () => {
    const world = play(makeWorld(), (w) => ({
      type: "limit_reached",
      step: model(w),
      reason: "max_turns",
      message: "15",
    }));
    expect(world.run).toMatchObject({ status: "failed", stopReason: "max_turns", error: { code: "max_turns" } });
    const late: RunEvent = {
      type: "limit_reached",
      step: { owedAt: 99, index: 0 },
      reason: "max_turns",
      message: "15",
    };
    expect(step(makeWorld(), late).run.revision).toBe(1);
  });

  test("that met its budget of bytes is left alone by readers that do not know such an end", () => {
    const old = makeWorld();
    const begun = { ...old, run: { ...old.run, schemaVersion: 3, minReader: 3 } };
    const limit = { type: "limit_reached" as const, step: model(old), message: "full" };
    expect(step(begun, { ...limit, reason: "byte_budget" }).run).toMatchObject({ minReader: 4, schemaVersion });
    expect(step(begun, { ...limit, reason: "max_turns" }).run).toMatchObject({ minReader: 3, schemaVersion: 3 });
  });

  test("[G8] that crashed is tried again a few times; poison ends its run", () => {
    const crash =
      (count: number, poison = false) =>
      (w: World): RunEvent => ({
        type: "step_crashed",
        step: model(w),
        count,
        error,
        poison,
        nextAt: poison ? null : w.clock + 10,
      });
    expect(play(makeWorld(), crash(1), crash(2)).run).toMatchObject({
      status: "queued",
      model: { crashes: 2, attempt: 1 },
    });
    expect(play(makeWorld(), crash(1), crash(1)).run).toMatchObject({ model: { crashes: 1 } });
    expect(play(makeWorld(), crash(1, true)).run).toMatchObject({ status: "failed", stopReason: "poison", error });
  });

  test("says once that the run began, and takes the stricter deadline", () => {
    const began: RunEvent = { type: "run_began", agentHash: "h", deadlineMs: 500 };
    const world = step(makeWorld({ limits: { deadlineMs: 300 } }), began);
    expect(world.run).toMatchObject({ status: "running", startedAt: 1_001, deadlineAt: 1_300 });
    expect(step(world, began).run).toBe(world.run);
    expect(step(makeWorld(), { type: "run_began", agentHash: "h" }).run.deadlineAt).toBeUndefined();
  });
});

describe("a call that may not run again", () => {
  test("[G4] whose worker was lost is given up only after its time, and the model is told", () => {
    const world = play(open(writePlan), start, lose);
    expect(owed(world.run)).toMatchObject([{ kind: "wake", notBefore: 1_500 }]);
    expect(play(at(world, 1_499), time).run.calls).toMatchObject([{ state: "lost" }]);
    const told = play(at(world, 1_500), time);
    expect(told.messages.at(-1)).toMatchObject({
      role: "tool",
      outcome: "unknown",
      content: expect.stringContaining("not run again"),
    });
  });

  test("[G4] still takes the result of whoever started it, and of nobody else", () => {
    const world = play(open(writePlan), start, lose);
    const finished =
      (startToken?: string) =>
      (w: World): RunEvent => ({
        type: "tool_finished",
        step: ref(w),
        ...(startToken ? { startToken } : {}),
        content: "done",
        outcome: "ok",
      });
    expect(play(world, finished("other"), finished()).run.calls).toMatchObject([{ state: "lost" }]);
    expect(play(world, finished("s")).messages.at(-1)).toMatchObject({ content: "done", outcome: "ok" });
  });

  test("[G4] takes no result from whoever started a call of which the record knows nothing", () => {
    const finished: RunEvent = {
      type: "tool_finished",
      step: { owedAt: 2, index: 1 },
      startToken: "s",
      content: "done",
      outcome: "ok",
    };
    expect(step(open(writePlan), finished).run.calls).toMatchObject([{ state: "ready" }]);
  });

  test("[G4] of an irreversible tool is put to a person, who may let it run again or not", () => {
    const asked = play(open({ ...askPlan, type: "run" }), start, (w) => ({
      type: "tool_unknown",
      step: ref(w),
      startToken: "s",
      error,
    }));
    expect(asked.run).toMatchObject({ status: "waiting", calls: [{ state: "asking" }] });
    expect(owed(asked.run)).toEqual([]);
    const again = step(asked, { type: "approved", callId: "call-1-1", by: "ann" });
    expect(again.run.calls).toMatchObject([{ state: "ready", attempt: 2 }]);
    const left = step(asked, { type: "denied", callId: "call-1-1", by: "ann", reason: "it did happen" });
    expect(left.messages.at(-1)).toMatchObject({
      outcome: "unknown",
      content: expect.stringContaining("it did happen"),
    });
  });

  test("keeps its queue through approval, an unknown outcome and another attempt", () => {
    const asked = open({ ...askPlan, queue: "browser" });
    const approved = step(asked, { type: "approved", callId: "call-1-1", by: "ann" });
    expect(owed(approved.run)).toMatchObject([{ kind: "tool", queue: "browser" }]);
    const unknown = play(approved, start, (w) => ({ type: "tool_unknown", step: ref(w), startToken: "s", error }));
    const again = step(unknown, { type: "approved", callId: "call-1-1", by: "ann" });
    expect(owed(again.run)).toMatchObject([{ kind: "tool", queue: "browser" }]);
  });

  test("that crashed after its start keeps its step, so that it is found lost", () => {
    const world = play(open(writePlan), start, (w) => ({
      type: "step_crashed",
      step: ref(w),
      count: 1,
      error,
      poison: false,
      nextAt: 5_000,
    }));
    expect(world.run.calls).toMatchObject([{ state: "started", crashes: 1 }]);
    expect(owed(world.run)).toMatchObject([{ kind: "tool", ...ref(world) }]);
  });
});

describe("an approval", () => {
  test("[G5] waits without owing anything, or only its expiry", () => {
    const { approvalExpiresMs: _, ...endless } = askPlan;
    expect(owed(open(endless).run)).toEqual([]);
    const world = open(askPlan);
    expect(world.run.status).toBe("waiting");
    expect(owed(world.run)).toMatchObject([{ kind: "wake", notBefore: world.clock + 50 }]);
    const expired = play(at(world, world.clock + 50), time);
    expect(expired.messages.at(-1)).toMatchObject({
      outcome: "denied",
      content: expect.stringContaining("nobody approved"),
    });
  });

  test("that is denied feeds its reason to the model; a second decision does not apply", () => {
    const denied: RunEvent = { type: "denied", callId: "call-1-1", by: "ann", reason: "too much" };
    const world = step(open(askPlan, runPlan), denied);
    expect(world.results.get("call-1-1")).toMatchObject({
      outcome: "denied",
      content: expect.stringContaining("too much"),
    });
    expect(step(world, { type: "approved", callId: "call-1-1", by: "bob" }).run).toBe(world.run);
    expect(step(world, { type: "approved", callId: "nope", by: "bob" }).run).toBe(world.run);
  });

  test("does not outlive the run's deadline", () => {
    const begun = makeWorld({ limits: { deadlineMs: 40 } });
    const world = step(begun, answered(begun.run, [askPlan]));
    expect(owed(world.run)).toMatchObject([{ kind: "wake", notBefore: 1_040 }]);
    expect(play(at(world, 1_039), time).run.status).toBe("waiting");
    const ended = play(at(world, 1_040), time);
    expect(ended.run).toMatchObject({ status: "failed", stopReason: "deadline" });
    expect(ended.messages.at(-1)).toMatchObject({ outcome: "cancelled" });
  });
});

test("a call that was started is nobody's to hold", () => {
  const world = play(open(writePlan), start);
  const hold = { reason: "unknown_tool" as const, detail: "d", count: 1 };
  expect(step(world, { type: "step_held", step: ref(world), hold, until: 9_000 }).run).toBe(world.run);
});

test("[G1] a crash or a start alone of a step that keeps its name is counted once", () => {
  const begun = play(open(writePlan), start);
  const crash: RunEvent = { type: "step_crashed", step: ref(begun), count: 1, error, poison: false, nextAt: 5_000 };
  const crashed = step(begun, crash);
  expect(crashed.run.calls).toMatchObject([{ crashes: 1 }]);
  expect(step(crashed, crash).run).toBe(crashed.run);
  const alone: RunEvent = { type: "step_isolated", step: ref(begun), count: 1 };
  const isolated = step(begun, alone);
  expect(isolated.run.calls).toMatchObject([{ isolatedStarts: 1 }]);
  expect(step(isolated, alone).run).toBe(isolated.run);
});

test("[G7] a rejected record takes no event", () => {
  const { run } = makeWorld();
  const rejected = { ...run, status: "rejected" as const };
  expect(transition(rejected, { type: "retry_requested", by: "ann" }, { at: 2_000, token: "t" })).toBeNull();
});

describe("the end of a run", () => {
  test("[G3] settles what is open: not executed, or unknown if it had begun", () => {
    const world = play(open(writePlan, runPlan, askPlan), start, (w) => ({
      type: "tool_finished",
      step: ref(w, 2),
      content: "early",
      outcome: "ok",
    }));
    const ended = step(world, { type: "cancel_requested", by: "ann", reason: "changed my mind" });
    expect(ended.run).toMatchObject({
      status: "cancelled",
      stopReason: "cancelled",
      error: { message: "changed my mind" },
    });
    expect(ended.messages.slice(2)).toMatchObject([
      { outcome: "unknown" },
      { content: "early", outcome: "ok" },
      { outcome: "cancelled" },
    ]);
    expect(ended.results.size).toBe(0);
    expect(owed(ended.run)).toEqual([]);
  });

  test.each(["lost", "asking"])("[G3] [G4] leaves a call unknown that is %s", (state) => {
    const begun = play(open({ ...askPlan, type: "run" }), start);
    const unknown: RunEvent = { type: "tool_unknown", step: ref(begun), startToken: "s", error };
    const world = step(begun, state === "lost" ? lose(begun) : unknown);
    expect(world.run.calls).toMatchObject([{ state }]);
    const ended = step(world, { type: "cancel_requested", by: "ann", reason: "r" });
    expect(ended.messages.at(-1)).toMatchObject({ role: "tool", outcome: "unknown" });
  });

  test("still counts tokens that were spent, once per execution", () => {
    const ended = step(makeWorld(), { type: "cancel_requested", by: "ann", reason: "r" });
    const late: RunEvent = { type: "usage_reported", execution: "x9", usage: { ...noUsage, outputTokens: 7 } };
    const once = step(ended, late);
    expect(once.run).toMatchObject({ status: "cancelled", usage: { outputTokens: 7 } });
    expect(step(once, late).run).toBe(once.run);
    expect(step(once, { type: "retry_requested", by: "ann" }).run).toBe(once.run);
  });
});
