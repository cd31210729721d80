// Catches: two runs of a session at once, a run that nobody ever tells, a stale word that takes a run to its turn twice.
import { describe, expect, test } from "vitest";
import type { RunEvent } from "../../src/core/event.ts";
import type { Message } from "../../src/core/message.ts";
import { startPayloadSchema } from "../../src/core/new-run.ts";
import { dueAt, owed, sessionIndex, wakeIndex } from "../../src/core/owed.ts";
import { goalOf, lineEntryOf, ownParts, sessionTranscript, transcriptOf } from "../../src/core/session.ts";
import { answered, makeWorld, step, type World } from "./support.ts";

const input: Message[] = [{ role: "user", content: "go" }];
const more: Message[] = [{ role: "user", content: "more" }];
const start = (fields: Parameters<typeof makeWorld>[0] = {}): World => makeWorld({ session: "s", ...fields });
const entered = (round: number, messageCount: number, inputAgain: Message[] = []): RunEvent => ({
  type: "session_entered",
  round,
  messageCount,
  inputAgain,
});
const failure = { code: "x", message: "x" };
const cancel: RunEvent = { type: "cancel_requested", by: "ann", reason: "no" };
const retry: RunEvent = { type: "retry_requested", by: "ann" };
const apply = (world: World, ...events: RunEvent[]): World => events.reduce(step, world);

/** As a worker would: the model's answer fails for good. */
function failed(world: World): World {
  const ref = { owedAt: world.run.model?.owedAt ?? 0, index: 0 };
  const usage = { inputTokens: 0, outputTokens: 0, cachedTokens: 0 };
  return step(world, { type: "model_failed", step: ref, execution: "x", error: failure, usage, nextAt: null });
}

function stepsOf({ run }: World): string[] {
  return owed(run).map(({ kind, owedAt, notBefore }) => `${kind} ${owedAt}${notBefore ? ` at ${notBefore}` : ""}`);
}

describe("a run of a session", () => {
  test("is made with its input waiting, in line, and owes a look at the line", () => {
    const { run } = start();
    expect(run).toMatchObject({ status: "queued", pendingInput: input, messageCount: 0, baseMessage: 0 });
    expect(run.model).toBeUndefined();
    expect(lineEntryOf(run)).toEqual({ runId: "run-1", round: 1 });
    expect(owed(run)).toEqual([
      { runId: "run-1", kind: "session", owedAt: 1, index: sessionIndex, notBefore: undefined, priority: undefined },
    ]);
    expect(goalOf(run)).toBeUndefined();
    expect(transcriptOf(run)).toBe(sessionTranscript("s"));
  });

  test("one outside sessions has its transcript to itself, as one that an older version made", () => {
    expect(makeWorld().run).toMatchObject({ messageCount: 1, inputCount: 1, pendingInput: [] });
    expect(transcriptOf(makeWorld().run)).toBe("run-1");
    expect(transcriptOf({ ...makeWorld().run, session: "s" })).toBe("run-1");
    expect(goalOf(makeWorld().run)).toBe(0);
    expect(ownParts(makeWorld().run)).toEqual([[0, 1]]);
    expect(lineEntryOf(makeWorld().run)).toBeUndefined();
  });

  test("enters the transcript where it ends, with what has come in meanwhile", () => {
    const world = apply(start(), { type: "input_received", inputId: "i", messages: more }, entered(1, 7));
    expect(world.run).toMatchObject({ status: "queued", baseMessage: 7, messageCount: 9, inputCount: 2 });
    expect(world.run).toMatchObject({ pendingInput: [], repeatsFrom: 7, model: { owedAt: 3 } });
    expect(goalOf(world.run)).toBe(8);
    expect(ownParts(world.run)).toEqual([[7, 9]]);
    expect(stepsOf(world)).toEqual(["model 3"]);
  });

  test("queued behind another it owes nothing, and its turn still comes", () => {
    const queued = step(start(), { type: "session_queued", round: 1, behind: "run-0" });
    expect(queued.run).toMatchObject({ status: "queued", place: { state: "queued" } });
    expect(stepsOf(queued)).toEqual([]);
    expect(lineEntryOf(queued.run)).toEqual({ runId: "run-1", round: 1 });
    expect(step(queued, { type: "session_queued", round: 1, behind: "run-0" }).run).toBe(queued.run);
    expect(stepsOf(step(queued, entered(1, 2)))).toEqual(["model 3"]);
  });

  test("is told once, and a late word changes nothing", () => {
    const active = step(start(), entered(1, 0));
    expect(step(active, entered(1, 5)).run).toBe(active.run);
    expect(step(active, { type: "session_queued", round: 1, behind: "run-0" }).run).toBe(active.run);
    expect(step(active, { type: "session_joined", round: 1 }).run).toBe(active.run);
    expect(step(active, { type: "session_passed", round: 1 }).run).toBe(active.run);
    const outside = makeWorld();
    expect(step(outside, entered(1, 0)).run).toBe(outside.run);
  });

  test("ended it owes the hand-over, and nothing once it was passed on", () => {
    const active = step(start(), entered(1, 0));
    const done = step(active, answered(active.run, []));
    expect(done.run).toMatchObject({ status: "completed", place: { state: "leaving", round: 1, owedAt: 3 } });
    expect(lineEntryOf(done.run)).toBeUndefined();
    expect(stepsOf(done)).toEqual(["session 3"]);
    const passed = step(done, { type: "session_passed", round: 1 });
    expect(passed.run).toMatchObject({ status: "completed", revision: 4 });
    expect(passed.run.place).toBeUndefined();
    expect(stepsOf(passed)).toEqual([]);
    expect(step(passed, { type: "session_passed", round: 1 }).run).toBe(passed.run);
  });

  test("leaves the line when it is cancelled before its turn", () => {
    const cancelled = apply(start(), { type: "session_queued", round: 1, behind: "run-0" }, cancel);
    expect(cancelled.run).toMatchObject({ status: "cancelled", place: { state: "leaving" }, messageCount: 0 });
    expect(step(cancelled, entered(1, 4)).run).toBe(cancelled.run);
  });

  test("its deadline counts while it waits", () => {
    const world = step(start({ limits: { deadlineMs: 50 } }), { type: "session_queued", round: 1, behind: "run-0" });
    expect(dueAt(start({ limits: { deadlineMs: 50 } }).run)).toBeUndefined();
    expect(dueAt(world.run)).toBe(1_050);
    expect(owed(world.run)).toMatchObject([{ kind: "wake", index: wakeIndex, notBefore: 1_050 }]);
    const late = step({ ...world, clock: 2_000 }, { type: "time_came" });
    expect(late.run).toMatchObject({ status: "failed", stopReason: "deadline", place: { state: "leaving" } });
  });

  test("one that is delayed joins the line when its time has come", () => {
    const world = start({ delayMs: 500 });
    expect(lineEntryOf(world.run)).toBeUndefined();
    expect(stepsOf(world)).toEqual(["session 1 at 1500"]);
    expect(step(world, { type: "session_queued", round: 1, behind: "run-0" }).run).toBe(world.run);
    const joined = step(world, { type: "session_joined", round: 1 });
    expect(lineEntryOf(joined.run)).toEqual({ runId: "run-1", round: 2 });
    expect(stepsOf(joined)).toEqual(["session 2"]);
    expect(step(joined, { type: "session_joined", round: 1 }).run).toBe(joined.run);
    const short = start({ delayMs: 500, limits: { deadlineMs: 20 } });
    expect(stepsOf(short)).toEqual(["session 1 at 1020"]);
  });
});

test("interrupting needs a session to interrupt", () => {
  const start = { agent: "a", input: "go" };
  expect(startPayloadSchema.safeParse({ ...start, session: "s" }).success).toBe(true);
  expect(startPayloadSchema.safeParse({ ...start, session: "s", whenBusy: "inject" }).success).toBe(true);
  expect(startPayloadSchema.safeParse({ ...start, session: "s", whenBusy: "now" }).success).toBe(false);
  const { error } = startPayloadSchema.safeParse({ ...start, whenBusy: "inject" });
  expect(error?.issues).toMatchObject([
    { path: ["session"], message: expect.stringContaining("since whenBusy is given") },
  ]);
});

test("a run takes the summary of one before it, once, if it goes further than its own", () => {
  const active = step(start(), entered(1, 9));
  const owedAt = active.run.model?.owedAt ?? 0;
  const taken = (upTo: number, at: number): RunEvent => {
    return { type: "summary_taken", step: { owedAt: at, index: 0 }, upTo, text: "so far" };
  };
  const { run } = step(active, taken(6, owedAt));
  expect(run).toMatchObject({ summary: { id: run.eventSeq, upTo: 6, text: "so far" }, model: { owedAt: 3 } });
  const again = { ...active, run };
  expect(step(again, taken(8, owedAt)).run).toBe(run);
  expect(step(again, taken(6, 3)).run).toBe(run);
  const wanted = step(again, { type: "summary_wanted", step: { owedAt: 3, index: 0 }, upTo: 7 });
  expect(step(wanted, taken(8, wanted.run.model?.owedAt ?? 0)).run).toBe(wanted.run);
});

test("a run whose input cannot enter ends with the reason, keeps the input, and hands over; late it changes nothing", () => {
  const refused: RunEvent = { type: "session_refused", round: 1, error: { code: "too_large", message: "no room" } };
  const world = step(start(), refused);
  expect(world.run).toMatchObject({ status: "failed", error: { code: "too_large" }, pendingInput: input });
  expect(world.run.place).toMatchObject({ state: "leaving", round: 1 });
  const active = step(start(), entered(1, 4));
  expect(step(active, refused).run).toBe(active.run);
  const retried = step(world, retry);
  const { run } = step(retried, entered(retried.run.place?.round ?? 0, 3));
  expect(run).toMatchObject({ pendingInput: [], messageCount: 4, inputCount: 1 });
});

describe("a retried run of a session", () => {
  const first = failed(step(start(), entered(1, 4)));
  const again = step(first, retry);

  test("joins anew, behind the others", () => {
    expect(again.run).toMatchObject({ status: "queued", place: { state: "joined", round: 4, owedAt: 4 } });
    expect(again.run.model).toBeUndefined();
    expect(step(again, entered(1, 5)).run).toBe(again.run);
    expect(step(again, { type: "session_passed", round: 1 }).run).toBe(again.run);
  });

  test("goes on where it was if nobody has spoken since", () => {
    const { run } = step(again, entered(4, 5));
    expect(run).toMatchObject({ status: "queued", baseMessage: 4, messageCount: 5, inputCount: 1 });
    expect(run.earlierParts).toBeUndefined();
    expect(run.model).toBeDefined();
  });

  test("goes on at the transcript's end, with its input said again, if others have spoken", () => {
    const world = step(again, entered(4, 9, input));
    expect(world.run).toMatchObject({ baseMessage: 9, messageCount: 10, earlierParts: [[4, 5]], repeatsFrom: 9 });
    expect(ownParts(world.run)).toEqual([
      [4, 5],
      [9, 10],
    ]);
    expect(goalOf(world.run)).toBe(9);
    const third = apply(failed(world), retry);
    const last = step(third, entered(third.run.place?.round ?? 0, 20, input));
    expect(ownParts(last.run)).toEqual([
      [4, 5],
      [9, 10],
      [20, 21],
    ]);
  });

  test("one that failed before its turn begins with its first", () => {
    const late = step({ ...start({ limits: { deadlineMs: 10 } }), clock: 5_000 }, { type: "time_came" });
    const world = step(late, retry);
    const { run } = step(world, entered(world.run.place?.round ?? 0, 3));
    expect(run).toMatchObject({ baseMessage: 3, messageCount: 4, inputCount: 1, pendingInput: [] });
    expect(run.earlierParts).toBeUndefined();
  });
});
