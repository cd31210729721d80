// Catches: a replay that hides what a turn cost or why it went as it did, and content that drives the terminal.
import { describe, expect, inject, test } from "vitest";
import { toReplay } from "../../src/cli/format/replay.ts";
import type { Message } from "../../src/core/message.ts";
import type { TurnView } from "../../src/core/report.ts";
import { noUsage } from "../../src/core/run.ts";
import { testPrefix } from "../support/redis.ts";
import { type CliResult, runDrover, useWorker } from "./run-drover.ts";
import { hasScript, openTerminal } from "./terminal.ts";

const error = { code: "x", message: "it broke" };
const messages: Message[] = [
  { role: "user", content: "the goal" },
  ...Array.from({ length: 8 }, (_, index): Message => ({ role: "user", content: `more ${index}` })),
];
const turn: TurnView = {
  turn: 2,
  startedAt: 1_000,
  endedAt: 4_500,
  input: [{ role: "user", content: "hello\u001b[2J" }],
  steps: [
    {
      kind: "model",
      attempt: 1,
      outcome: "failed",
      error,
      nextAt: 3_000,
      endedAt: 1_000,
      queueWaitMs: 5,
      performMs: 700,
    },
    { kind: "model", attempt: 2, outcome: "ok", endedAt: 3_000, queueWaitMs: 6, performMs: 800, deliveries: 3 },
    { kind: "approval", callId: "call-2-1", tool: "pay", attempt: 1, outcome: "denied", by: "ann", reason: "too dear" },
    { kind: "tool", callId: "call-2-2", tool: "dig", attempt: 1, outcome: "ok", endedAt: 4_000, performMs: 300 },
    { kind: "verify", attempt: 1, outcome: "failed", performMs: 40 },
  ],
  marks: [
    { at: 1, type: "session_queued", behind: "run-0" },
    { at: 1, type: "session_entered" },
    { at: 1, type: "retried", by: "eve" },
    { at: 2, type: "ended", status: "failed", stopReason: "verify_failed", error },
    { at: 2, type: "ended", status: "cancelled", stopReason: "cancelled", by: "ann" },
    { at: 2, type: "ended", status: "completed", stopReason: "answered" },
    { at: 2, type: "rejected", error },
  ],
  request: {
    agent: { name: "a", model: "m", provider: "p", version: "7" },
    ...{ kept: 12, leftOut: [[0, 3]], summarisedUpTo: 3, dropped: ["top_p"], offered: ["dig", "pay"] },
    ...{ instructions: "Do it.", messages, tools: [], request: { temperature: 0 }, output: { name: "o", schema: {} } },
  },
  answer: {
    role: "assistant",
    content: "I pay.",
    refusal: "no",
    toolCalls: [{ callId: "call-2-1", id: "i", name: "pay", arguments: "{}" }],
  },
  finishReason: "stop",
  calls: [
    {
      callId: "call-2-1",
      tool: "pay",
      arguments: "{}",
      result: "Denied",
      outcome: "denied",
      decision: { type: "denied", by: "ann", at: 3 },
    },
    {
      callId: "call-2-2",
      tool: "dig",
      arguments: '{"n":1}',
      result: "x".repeat(500),
      outcome: "ok",
      cutFrom: 900,
      policy: "rule 1",
    },
    { callId: "call-2-3", tool: "dig", arguments: "{}", described: "would dig" },
  ],
  usage: { ...noUsage, inputTokens: 400, outputTokens: 30, costUsd: 0.01 },
};
const plain = { total: 3, full: false, mark: (_: unknown, text: string) => text };

describe("a turn", () => {
  test("tells what was asked, what it took and what came back", () => {
    const told = toReplay(turn, plain).join("\n");
    expect(told).toMatch(
      /^turn 2 of 3 \| 1970-.*Z \| 3\.5 s \| its steps: queues 11 ms, model 1\.5 s, tools 300 ms, check 40 ms \| 400 in, 30 out, \$0\.0100$/m,
    );
    for (const line of [
      ...["waited for run run-0 of its session", "retried by eve", "  user: hello[2J"],
      ...["  agent a 7, model m", "  9 of 12 messages kept, 3 left out, a summary of the first 3", "  tools dig, pay"],
      ...["  parameters temperature 0, answers as o", "  not sent, since the server refuses it: top_p"],
      ...["  system: Do it.", "  user: the goal", "  … 3 messages between (--full shows them)", "  user: more 7"],
      ...["  model failed: waited 5 ms, took 700 ms, it broke, again after 2.0 s"],
      ...["  model ok: attempt 2, waited 6 ms, took 800 ms, delivered 3 times"],
      ...["  approval pay call-2-1 denied: by ann, too dear", "  I pay.", "  refused: no"],
      ...[
        "  → pay {} call-2-1 denied (denied by ann)",
        "    Denied",
        '  → dig {"n":1} call-2-2 ok (rule 1; cut from 900 characters)',
      ],
      ...[
        "  → dig {} call-2-3 open (only described: would dig)",
        "failed (verify_failed): it broke",
        "cancelled by ann",
      ],
      ...["completed", "rejected: it broke"],
    ]) {
      expect(told.split("\n")).toContain(line);
    }
    expect(told).not.toContain("\u001b");
    expect(told).not.toContain("x".repeat(200));
  });

  test("has all of it with --full", () => {
    const told = toReplay(turn, { ...plain, full: true }).join("\n");
    expect(told).toContain("x".repeat(500));
    expect(told).toContain("user: more 3");
    expect(told).not.toContain("between");
  });

  test("whose agent's definition is lost says so", () => {
    const told = toReplay({ ...turn, request: undefined }, plain);
    expect(told).toContain("  cannot be told: Redis has lost the definition that its agent had then");
  });

  test("that is open has no end yet", () => {
    const open: TurnView = { turn: 1, startedAt: 0, steps: [], marks: [], calls: [], usage: noUsage, input: [] };
    expect(toReplay(open, plain)).toEqual(["turn 1 of 3 | 1970-01-01T00:00:00.000Z | still open"]);
  });
});

const env = { REDIS_URL: inject("redisUrl"), DROVER_PREFIX: testPrefix() };
const drover = (...args: string[]): Promise<CliResult> => runDrover(args, { env });

describe("replay of a run", () => {
  useWorker(env);

  test("goes turn by turn; one, all as JSON, and none that there is not", async () => {
    await drover("start", "adder", "Add them.", "--id", "replay-1", "--watch");
    const all = await drover("replay", "replay-1");
    expect(all).toMatchObject({ code: 0, stderr: "" });
    expect(all.stdout).toMatch(
      /^turn 1 of 2[^]*user: Add them\.[^]*add call-1-2 ok[^]*\n\nturn 2 of 2[^]*The sums are 3 and 7\.\ncompleted\n$/,
    );
    const second = await drover("replay", "replay-1", "--turn", "2");
    expect(second.stdout).toMatch(/^turn 2 of 2/);
    expect(second.stdout).not.toContain("turn 1");
    const lines = (await drover("replay", "replay-1", "--json")).stdout.trim().split("\n");
    const turns = lines.map((line) => JSON.parse(line) as TurnView);
    expect(turns.map((one) => one.turn)).toEqual([1, 2]);
    expect(turns[1]?.request?.messages?.map(({ role }) => role)).toEqual(["user", "assistant", "tool", "tool"]);
    expect(turns[0]?.steps[0]).toMatchObject({ kind: "model", queueWaitMs: expect.any(Number) as number });
    const none = await drover("replay", "replay-1", "--turn", "3");
    expect(none).toMatchObject({ code: 1, stdout: "", stderr: 'drover: Run "replay-1" has no turn 3: it has 2.\n' });
    expect((await drover("replay", "nobody")).stderr).toMatch(/No run has the id "nobody"/);
  });

  describe.skipIf(!hasScript)("on a terminal", () => {
    test("waits for Enter between turns, and q stops", async () => {
      await drover("start", "adder", "x", "--id", "replay-2", "--watch");
      const terminal = openTerminal(["replay", "replay-2"], env);
      await terminal.until(/Enter: turn 2 of 2, q: stop/);
      expect(terminal.output()).toContain("turn 1 of 2");
      expect(terminal.output()).not.toContain("The sums are");
      terminal.type("\r");
      expect(await terminal.ended).toBe(0);
      expect(terminal.output()).toContain("The sums are 3 and 7.");
      const stopped = openTerminal(["replay", "replay-2"], env);
      await stopped.until(/Enter: turn 2 of 2/);
      stopped.type("q\r");
      expect(await stopped.ended).toBe(0);
      expect(stopped.output()).not.toContain("The sums are");
    });

    test("Ctrl-C ends it, and --all asks for nothing", async () => {
      await drover("start", "adder", "x", "--id", "replay-3", "--watch");
      const interrupted = openTerminal(["replay", "replay-3"], env);
      await interrupted.until(/Enter: turn 2 of 2/);
      interrupted.type("\u0003");
      expect(await interrupted.ended).toBe(130);
      const all = openTerminal(["replay", "replay-3", "--all"], env);
      expect(await all.ended).toBe(0);
      expect(all.output()).toContain("The sums are 3 and 7.");
      expect(all.output()).not.toContain("Enter:");
    });
  });
});
