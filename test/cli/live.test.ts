// Catches: a live view that loses text, lets content drive the terminal, or leaves the terminal other than it was.
import { describe, expect, inject, test } from "vitest";
import { createLiveView } from "../../src/cli/format/live.ts";
import type { RunFeedEvent } from "../../src/core/feed.ts";
import { noUsage } from "../../src/core/run.ts";
import { testPrefix } from "../support/redis.ts";
import { startDrover, useWorker } from "./run-drover.ts";
import { hasScript, openTerminal } from "./terminal.ts";

const size = { columns: 40, rows: 10 };
const usage = { ...noUsage, inputTokens: 1_000, outputTokens: 234, costUsd: 0.0123 };
type Bare = RunFeedEvent extends infer E ? (E extends RunFeedEvent ? Omit<E, "seq" | "at" | "id"> : never) : never;
const event = (bare: Bare, at = 1_000): RunFeedEvent => ({ seq: 1, id: "1", at, ...bare }) as RunFeedEvent;
const text = (said: string, turn = 1): RunFeedEvent =>
  event({ type: "text", turn, attempt: 1, execution: "x", text: said });
const view = () =>
  createLiveView(
    (_, told) => told,
    () => [],
  );
const call = { callId: "call-1-1", tool: "pay" };
const answered = event({
  type: "model_answered",
  ...{ turn: 1, attempt: 1, execution: "x", message: 1, usage, finishReason: "stop" },
  calls: ["call-1-1", "call-1-2"],
  manifest: { agentHash: "h", messages: [], tools: [], dropped: [] },
  answer: {
    role: "assistant",
    content: null,
    toolCalls: [
      { callId: "call-1-1", id: "a", name: "pay", arguments: "{}" },
      { callId: "call-1-2", id: "b", name: "dig\u001b[2J", arguments: "{}" },
    ],
  },
});

describe("text as it comes", () => {
  test("is in the block until its line is whole, and stays then", () => {
    const live = view();
    expect(live.push(text("first li"), size)).toEqual([]);
    expect(live.block(size, 1_500).split("\n")[0]).toBe("first li");
    expect(live.push(text("ne\nsecond\nthi"), size)).toEqual(["first line", "second"]);
    expect(live.push(text("rd"), size)).toEqual([]);
    expect(live.block(size, 1_500)).toMatch(/^third\n/);
    expect(live.push(answered, size)[0]).toBe("third");
  });

  test("in a line longer than the screen stays in pieces, cut between words, none of it lost", () => {
    const live = view();
    const words = Array.from({ length: 400 }, (_, index) => `word${index}`).join(" ");
    const kept = live.push(text(words), size);
    const rest = live.block(size, 1_000).split("\n")[0];
    expect([...kept, rest].join(" ")).toBe(words);
    expect(Math.max(...[...kept, rest].map((line) => line?.length ?? 0))).toBeLessThanOrEqual(40 * 7);
    const unbroken = view();
    const pieces = unbroken.push(text("x".repeat(1_000)), size);
    expect([...pieces, unbroken.block(size, 1_000).split("\n")[0]].join("")).toBe("x".repeat(1_000));
  });

  test("cannot drive the terminal, and half a character waits for its other half", () => {
    const live = view();
    expect(live.push(text("a\u001b[2Jb\u009b31m\u202ec\r\n"), size)).toEqual(["a[2Jb31mc"]);
    live.push(text("\ud83d"), size);
    expect(live.block(size, 1_000)).not.toContain("\ud83d");
    live.push(text("\ude00\tend"), size);
    expect(live.block(size, 1_000)).toMatch(/^😀 {4}end\n/);
  });

  test("that was superseded is marked, and the next attempt begins anew", () => {
    const live = view();
    live.push(text("one and"), size);
    const superseded = event({ type: "text_superseded", turn: 1, attempt: 1, execution: "x" });
    expect(live.push(superseded, size)).toEqual(["one and", expect.stringContaining("void")]);
    live.push(text("two"), size);
    expect(live.block(size, 1_000)).toMatch(/^two\n/);
  });
});

describe("the progress line", () => {
  const wide = { columns: 200, rows: 10 };
  const line = (live: ReturnType<typeof view>, now = 1_000): string => live.block(wide, now).split("\n").at(-1) ?? "";

  test("tells turn, what is going on, tokens, cost and time", () => {
    const live = view();
    live.push(event({ type: "run_created", turn: 0, messages: [0, 1] }), wide);
    expect(line(live)).toBe("turn 1 | queued | 0 ms");
    live.push(event({ type: "run_began", turn: 0, agentHash: "h" }), wide);
    expect(line(live, 3_500)).toBe("turn 1 | the model is asked | 2.5 s");
    live.push(text("so"), wide);
    expect(line(live)).toContain("the model answers");
    live.push(answered, wide);
    expect(line(live, 61_000)).toBe("turn 1 | 2 calls open: pay, dig[2J | 1234 tokens | $0.0123 | 1 min");
    live.push(event({ type: "approval_asked", turn: 1, ...call, why: "policy" }), wide);
    expect(line(live)).toContain("1 call open: dig[2J; 1 wait for a person");
    const finished = { type: "tool_finished" as const, turn: 1, tool: "dig", attempt: 1, outcome: "ok" as const };
    live.push(event({ ...finished, callId: "call-1-2", message: 2 }), wide);
    expect(line(live)).toContain("waits for a person: pay");
    live.push(event({ type: "approved", turn: 1, ...call, by: "ann" }), wide);
    expect(line(live)).toContain("1 call open: pay");
    live.push(event({ ...finished, callId: "call-1-1", message: 3 }), wide);
    live.push(event({ type: "messages_appended", turn: 1, messages: [2, 4] }), wide);
    expect(line(live)).toContain("| the model is asked |");
    live.push(event({ type: "run_ended", turn: 1, status: "completed", stopReason: "answered" }), wide);
    expect(line(live)).toContain("| completed |");
  });

  test.each<[string, Bare]>([
    [
      "waits for the next attempt",
      { type: "model_failed", turn: 0, attempt: 1, execution: "x", error: { code: "x", message: "x" }, nextAt: 9 },
    ],
    ["held back", { type: "step_held", turn: 0, reason: "rate_limit", detail: "slow", count: 1, until: 9 }],
    ["waits for its turn in its session", { type: "session_queued", turn: 0, behind: "other" }],
    ["waits for a person: pay", { type: "answer_asked", turn: 1, ...call, from: "person" }],
  ])("says: %s", (words, bare) => {
    const live = view();
    live.push(event(bare), wide);
    expect(line(live)).toContain(`| ${words} |`);
  });

  test("never is wider than the terminal", () => {
    const live = view();
    live.push(answered, size);
    for (const columns of [1, 2, 10, 39]) {
      expect(live.block({ columns, rows: 10 }, 1_000).length).toBeLessThanOrEqual(Math.max(1, columns - 1));
    }
  });
});

const env = { REDIS_URL: inject("redisUrl"), DROVER_PREFIX: testPrefix() };
describe.skipIf(!hasScript)("on a terminal", () => {
  // A run that sleeps is handed back at once when the worker stops.
  useWorker({ ...env, DROVER_STOP_GRACE_MS: "0" });

  test("the progress line is drawn in place and gone at the end", async () => {
    const terminal = openTerminal(["start", "adder", "x", "--id", "pty-1", "--watch"], env);
    expect(await terminal.ended).toBe(0);
    const output = terminal.output();
    expect(output).toMatch(/turn 2 \| completed \| \d+ tokens/);
    expect(output).toContain("The sums are 3 and 7.\r\n");
    // Erased, and the cursor is shown again after it was hidden.
    expect(output.lastIndexOf("\u001b[2K")).toBeGreaterThan(output.lastIndexOf("turn 2 |"));
    expect(output.lastIndexOf("\u001b[?25h")).toBeGreaterThan(output.lastIndexOf("\u001b[?25l"));
  });

  test("Ctrl-C restores the terminal, leaves the run and says how to end it", async () => {
    const started = startDrover(["start", "sleeper", "x", "--id", "pty-2"], { env });
    await started.ended;
    const terminal = openTerminal(["watch", "pty-2"], { ...env, NO_COLOR: "1" });
    await terminal.until(/turn 1 \| the model is asked/);
    terminal.type("\u0003");
    expect(await terminal.ended).toBe(130);
    const output = terminal.output();
    expect(output).toMatch(/the run goes on \(.*watch pty-2; to end it: .*cancel pty-2\)/s);
    expect(output.lastIndexOf("\u001b[?25h")).toBeGreaterThan(output.lastIndexOf("\u001b[?25l"));
    for (const style of ["[1m", "[2m", "[3"]) expect(output).not.toContain(`\u001b${style}`);
    const shown = startDrover(["show", "pty-2", "--json"], { env });
    expect(JSON.parse((await shown.ended).stdout)).toMatchObject({ status: "running" });
  });

  test("a dumb one gets plain lines", async () => {
    const terminal = openTerminal(["start", "adder", "x", "--id", "pty-3", "--watch"], {
      ...env,
      TERM: "dumb",
      NO_COLOR: "1",
    });
    expect(await terminal.ended).toBe(0);
    expect(terminal.output()).not.toContain("\u001b");
    expect(terminal.output()).toContain("The sums are 3 and 7.");
  });
});
