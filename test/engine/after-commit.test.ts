import { describe, expect, test, vi } from "vitest";
import type { RunEvent } from "../../src/core/event.ts";
import { transition } from "../../src/core/transition.ts";
import { createAfterCommit } from "../../src/engine/after-commit.ts";
import { createGateLine } from "../../src/engine/gate-line.ts";
import type { Logger, Telemetry } from "../../src/ports.ts";
import { createSilentLogger } from "../../src/telemetry/logger.ts";
import {
  createMemoryGates,
  createMemoryRunStore,
  createMemorySignals,
  createMemoryStepQueue,
  manualClock,
} from "../../src/testing/index.ts";
import { answered, askPlan, callerPlan, makeWorld, questionPlan, runPlan, step, type World } from "../core/support.ts";

type Line = { level: string; fields: Record<string, unknown>; message: string };

const gateLine = createGateLine({
  gates: createMemoryGates({ clock: manualClock() }),
  store: createMemoryRunStore(),
  queue: createMemoryStepQueue({ clock: manualClock() }),
  logger: createSilentLogger(),
});

/** What follows from one event's commit. */
function follow(
  world: World,
  event: RunEvent,
  at: number = world.clock + 1,
): { lines: Line[]; calls: string[]; announced: string[] } {
  const lines: Line[] = [];
  const calls: string[] = [];
  const announced: string[] = [];
  const line = (level: string) => (fields: Record<string, unknown>, message: string) =>
    void lines.push({ level, fields, message });
  const logger: Logger = { debug: line("debug"), info: line("info"), warn: line("warn"), error: line("error") };
  const telemetry = {
    recordEnd: (run) => void calls.push(`end ${run.status}`),
    recordApproval: (_run, { callId, decision, by, from, askedAt, decidedAt }) =>
      void calls.push(`${callId} ${from ? `from ${from} ` : ""}${decision} by ${by} after ${decidedAt - askedAt}`),
  } as Telemetry;
  const signals = { ...createMemorySignals(), announce: async (runId: string) => void announced.push(runId) };
  const change = transition(world.run, event, { at, token: "next" });
  if (!change) throw new Error("the event does not apply");
  createAfterCommit({ telemetry, logger, signals, line: gateLine })(change);
  return { lines, calls, announced };
}

const begun = makeWorld();
const asking = step(begun, answered(begun.run, [askPlan, runPlan]));

describe("after a commit", () => {
  test("each feed entry is a line with run, agent, trace and turn, and without content", () => {
    const { lines } = follow(begun, answered(begun.run, [runPlan]));
    expect(lines).toEqual([
      {
        level: "debug",
        message: "model answered",
        fields: expect.objectContaining({
          runId: "run-1",
          agent: "a",
          traceId: "1".repeat(32),
          turn: 1,
          seq: 2,
          calls: ["call-1-1"],
        }),
      },
    ]);
    expect(JSON.stringify(lines)).not.toContain("text");
  });

  test("of an error and of a denial the code and the person are told, not the words", () => {
    const error = { code: "boom", message: "canary" };
    const ready = { owedAt: asking.run.calls[1]?.owedAt ?? 0, index: 2 };
    const failed = follow(asking, { type: "tool_failed", step: ready, error, nextAt: 9 });
    expect(failed.lines).toMatchObject([
      { level: "warn", message: "tool failed", fields: { callId: "call-1-2", error: "boom" } },
    ]);
    const denied = follow(asking, { type: "denied", callId: "call-1-1", by: "ann", reason: "canary" });
    expect(denied.lines[0]).toMatchObject({ message: "denied", fields: { by: "ann" } });
    expect(JSON.stringify([failed.lines, denied.lines])).not.toContain("canary");
  });

  test("beginnings and ends are told at info, trouble at warn", () => {
    const level = (event: RunEvent): string | undefined => follow(begun, event).lines.at(-1)?.level;
    const error = { code: "x", message: "x" };
    const usage = { inputTokens: 0, outputTokens: 0, cachedTokens: 0 };
    expect(level({ type: "run_began", agentHash: "h" })).toBe("info");
    expect(level(answered(begun.run, []))).toBe("info");
    expect(
      level({ type: "model_failed", step: { owedAt: 1, index: 0 }, execution: "x", error, usage, nextAt: 9 }),
    ).toBe("warn");
  });

  test("the wait for a person has a span when it is decided, expires or is cut off", () => {
    const { clock } = asking;
    expect(follow(asking, { type: "approved", callId: "call-1-1", by: "ann" }, clock + 7).calls).toEqual([
      "call-1-1 approved by ann after 7",
    ]);
    expect(follow(asking, { type: "denied", callId: "call-1-1", by: "ann", reason: "no" }, clock + 8).calls).toEqual([
      "call-1-1 denied by ann after 8",
    ]);
    expect(follow(asking, { type: "time_came" }, clock + 60).calls).toEqual(["call-1-1 expired by nobody after 60"]);
    expect(follow(asking, { type: "cancel_requested", by: "ann", reason: "r" }, clock + 9).calls).toEqual([
      "call-1-1 cancelled by nobody after 9",
      "end cancelled",
    ]);
    expect(
      follow(asking, { type: "input_received", inputId: "i", messages: [{ role: "user", content: "x" }] }).calls,
    ).toEqual([]);
  });

  test("so has a wait for an answer, which says whose it was to give", () => {
    const waiting = step(begun, answered(begun.run, [questionPlan, callerPlan]));
    const { clock } = waiting;
    const answer: RunEvent = { type: "answered", callId: "call-1-2", by: "app", content: "canary" };
    const { calls, lines } = follow(waiting, answer, clock + 7);
    expect(calls).toEqual(["call-1-2 from caller answered by app after 7"]);
    expect(JSON.stringify(lines)).not.toContain("canary");
    expect(follow(waiting, { type: "denied", callId: "call-1-1", by: "ann", reason: "no" }, clock + 8).calls).toEqual([
      "call-1-1 from person denied by ann after 8",
    ]);
    expect(follow(waiting, { type: "time_came" }, clock + 60).calls).toEqual([
      "call-1-1 from person expired by nobody after 60",
    ]);
  });

  test("a run's end has its root span once, and is announced if other steps may be at work", () => {
    expect(follow(begun, answered(begun.run, []))).toMatchObject({ calls: ["end completed"], announced: [] });
    expect(follow(asking, { type: "cancel_requested", by: "ann", reason: "r" }).announced).toEqual(["run-1"]);
    const ended = step(asking, { type: "cancel_requested", by: "ann", reason: "r" });
    const late: RunEvent = {
      type: "usage_reported",
      execution: "x",
      usage: { inputTokens: 1, outputTokens: 0, cachedTokens: 0 },
    };
    expect(follow(ended, late)).toMatchObject({ calls: [], announced: [] });
  });

  test("an end that cannot be announced is told, and disturbs nothing", async () => {
    const warn = vi.fn<Logger["warn"]>();
    const logger = { debug: () => {}, info: () => {}, warn, error: () => {} };
    const telemetry = { recordEnd: () => {}, recordApproval: () => {} } as unknown as Telemetry;
    const signals = { ...createMemorySignals(), announce: () => Promise.reject(new Error("gone")) };
    const change = transition(
      asking.run,
      { type: "cancel_requested", by: "ann", reason: "r" },
      { at: 2_000, token: "t" },
    );
    if (change) createAfterCommit({ telemetry, logger, signals, line: gateLine })(change);
    await vi.waitFor(() => expect(warn).toHaveBeenCalledWith({ runId: "run-1", error: "gone" }, expect.any(String)));
  });
});
