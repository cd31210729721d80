// Catches: a step, a mark or a request that is told as something else than it was.
import { describe, expect, test } from "vitest";
import type { AgentDefinition } from "../../src/core/agent.ts";
import type { FeedEntry, Manifest } from "../../src/core/event.ts";
import type { AssistantMessage, Message, ToolMessage } from "../../src/core/message.ts";
import { createRedactor, noRedaction } from "../../src/core/redact.ts";
import type { StepView } from "../../src/core/report.ts";
import { cutsText, goalAt, overviewOf, rangesOf, remindsIn, wholeRequestOf } from "../../src/core/report-request.ts";
import { splitTurns, withNext } from "../../src/core/report-split.ts";
import { stepsOf } from "../../src/core/report-steps.ts";
import { redactShown, toTurnView } from "../../src/core/report-turn.ts";
import { noUsage, type OpenCall, type Run } from "../../src/core/run.ts";
import { makeWorld } from "./support.ts";

type Bare = FeedEntry extends infer E ? (E extends FeedEntry ? Omit<E, "seq" | "at" | "turn"> : never) : never;

/** Entries of one turn, a millisecond apart from 100 on. */
const entries = (turn: number, ...bare: Bare[]): FeedEntry[] =>
  bare.map((entry, index) => ({ seq: index + 1, at: 100 + index, turn, ...entry }) as FeedEntry);
const call = { callId: "call-1-1", tool: "pay" };
const error = { code: "x", message: "it broke" };
const manifest: Manifest = { agentHash: "h", messages: [[0, 1]], tools: [], dropped: [] };
const answered: Bare = {
  type: "model_answered",
  attempt: 1,
  execution: "x",
  message: 1,
  calls: [],
  usage: noUsage,
  finishReason: "stop",
  manifest,
};
const ended: Run = { ...makeWorld().run, model: undefined, status: "completed" };
const live = (fields: Partial<Run>): Run => ({ ...makeWorld().run, model: undefined, turns: 1, ...fields });
const steps = (of: FeedEntry[], run = ended, turn = 1): StepView[] => stepsOf({ turn, entries: of }, run);
const brief = (of: StepView[]): unknown[] => of.map(({ kind, attempt, outcome }) => [kind, attempt, outcome]);

describe("steps", () => {
  test("between turns: attempts, summaries, windows that were too long, checks", () => {
    const told = steps(
      entries(
        0,
        { type: "model_failed", attempt: 1, execution: "x", error, nextAt: 150, ms: [5, 7], deliveries: 2 },
        { type: "window_shrunk", execution: "x", budgetTokens: 900, error },
        { type: "model_failed", task: "summary", attempt: 1, execution: "x", error, nextAt: 160 },
        { type: "summarised", execution: "x", upTo: 3, text: "so far", usage: noUsage },
        { type: "summarised", execution: "", upTo: 4, text: "so far", usage: noUsage },
        { type: "step_held", reason: "rate_limit", detail: "too fast", count: 1, until: 200 },
        { type: "run_retried", by: "eve" },
        { type: "step_crashed", error, nextAt: null },
        { ...answered, ms: [1, 2] } as Bare,
        { type: "verify_failed", attempt: 1, error, nextAt: 300 },
        { type: "step_held", reason: "unknown_agent", detail: "nobody", count: 1, until: 200 },
        { type: "answer_refused", why: "verify", message: 2 },
        { type: "answer_verified" },
      ),
    );
    expect(brief(told)).toEqual([
      ["model", 1, "failed"],
      ["model", 2, "failed"],
      ["summary", 1, "failed"],
      ["summary", 2, "ok"],
      ["summary", 1, "ok"],
      ["model", 2, "held"],
      ["model", 1, "crashed"],
      ["model", 1, "ok"],
      ["verify", 1, "failed"],
      ["verify", 2, "held"],
      ["verify", 2, "failed"],
      ["verify", 2, "ok"],
    ]);
    expect(told[0]).toEqual({
      ...{ kind: "model", attempt: 1, outcome: "failed", error, nextAt: 150, endedAt: 100 },
      ...{ queueWaitMs: 5, performMs: 7, deliveries: 2 },
    });
    expect(told[1]?.reason).toContain("at most 900 tokens");
    expect(told[4]?.reason).toContain("another run of its session");
    expect(told[5]).toMatchObject({ reason: "too fast", nextAt: 200, endedAt: 105 });
    expect(told[10]?.error?.message).toBe("The answer did not pass its check.");
  });

  test("of a call: begun, failed, lost, unknown, decided, begun again", () => {
    const told = steps(
      entries(
        1,
        { type: "approval_asked", ...call, why: "policy", reason: "policy rule 1" },
        { type: "approved", ...call, by: "ann" },
        { type: "tool_started", ...call, attempt: 1 },
        { type: "tool_failed", ...call, attempt: 1, error, nextAt: 150 },
        { type: "step_held", callId: call.callId, reason: "rate_limit", detail: "too fast", count: 1, until: 200 },
        { type: "tool_started", ...call, attempt: 2 },
        { type: "tool_lost", ...call, attempt: 2, until: 400 },
        { type: "approval_asked", ...call, why: "unknown_outcome" },
        { type: "approved", ...call, by: "bob" },
        { type: "tool_started", ...call, attempt: 3 },
        { type: "approval_asked", ...call, why: "unknown_outcome" },
        { type: "denied", ...call, by: "cleo", reason: "it did happen" },
        { type: "tool_finished", ...call, attempt: 3, outcome: "unknown", message: 2 },
      ),
    );
    expect(
      told.map(({ kind, attempt, outcome, startedAt, endedAt }) => [kind, attempt, outcome, startedAt, endedAt]),
    ).toEqual([
      ["approval", 1, "ok", 100, 101],
      ["tool", 1, "failed", 102, 103],
      ["tool", 2, "held", undefined, 104],
      ["tool", 2, "lost", 105, 106],
      ["approval", 2, "ok", 107, 108],
      ["tool", 3, "unknown", 109, 110],
      ["approval", 2, "denied", 110, 111],
    ]);
    expect(told[0]).toMatchObject({ reason: "policy rule 1", by: "ann" });
    expect(told[6]).toMatchObject({ reason: "it did happen", by: "cleo" });
  });

  test.each<[string, Bare[], unknown[]]>([
    [
      "whose start was not committed",
      [{ type: "tool_finished", ...call, attempt: 1, outcome: "ok", message: 2, ms: [3, 4] }],
      [["tool", 1, "ok"]],
    ],
    [
      "that crashed",
      [
        { type: "step_crashed", callId: call.callId, error, nextAt: 110 },
        { type: "tool_finished", ...call, attempt: 1, outcome: "failed", message: 2 },
      ],
      [
        ["tool", 1, "crashed"],
        ["tool", 1, "failed"],
      ],
    ],
    [
      "nobody approved in time",
      [
        { type: "approval_asked", ...call, why: "policy" },
        { type: "approval_expired", ...call },
        { type: "tool_finished", ...call, attempt: 1, outcome: "denied", message: 2 },
      ],
      [["approval", 1, "expired"]],
    ],
    [
      "still waiting when the run was cancelled",
      [
        { type: "approval_asked", ...call, why: "policy" },
        { type: "tool_finished", ...call, attempt: 1, outcome: "cancelled", message: 2 },
      ],
      [["approval", 1, "cancelled"]],
    ],
    [
      "that a person answered",
      [
        { type: "answer_asked", ...call, from: "person" },
        { type: "answered", ...call, by: "ann" },
        { type: "tool_finished", ...call, attempt: 1, outcome: "ok", message: 2 },
      ],
      [["answer", 1, "ok"]],
    ],
    [
      "that its caller did not answer in time",
      [
        { type: "answer_asked", ...call, from: "caller" },
        { type: "answer_expired", ...call, from: "caller" },
        { type: "tool_finished", ...call, attempt: 1, outcome: "failed", message: 2 },
      ],
      [["answer", 1, "expired"]],
    ],
    [
      "decided on before what is known begins",
      [
        { type: "approved", ...call, by: "ann" },
        { type: "tool_described", ...call },
      ],
      [],
    ],
  ])("of a call %s", (_, bare, expected) => {
    expect(brief(steps(entries(1, ...bare)))).toEqual(expected);
  });

  test("that are owed: told from the head", () => {
    const hold = { reason: "rate_limit" as const, detail: "too fast", count: 1 };
    const base = {
      ...{ callId: "call-1-1", toolCallId: "i", turn: 1, position: 1, tool: "pay", effect: "read" as const },
      ...{ repeatable: true, onUnknown: "tell" as const, timeoutMs: 1, attempt: 2, owedAt: 1 },
    };
    const calls: OpenCall[] = [
      { ...base, state: "ready" },
      { ...base, state: "ready", notBefore: 500, hold },
      { ...base, state: "lost", startToken: "s", timeoutAt: 600 },
      { ...base, state: "settled" },
    ];
    expect(steps([], live({ calls }))).toEqual([
      { kind: "tool", ...call, attempt: 2, outcome: "open" },
      { kind: "tool", ...call, attempt: 2, outcome: "open", nextAt: 500, reason: "too fast" },
      { kind: "tool", ...call, attempt: 2, outcome: "open", nextAt: 600, reason: expect.stringContaining("lost") },
    ]);
    expect(steps([], live({ calls }), 2)).toEqual([]);
    const model = { attempt: 3, owedAt: 1, notBefore: 700 };
    expect(steps([], live({ model }), 2)).toEqual([{ kind: "model", attempt: 3, outcome: "open", nextAt: 700 }]);
    expect(brief(steps([], live({ model: { ...model, task: "summary", hold } }), 2))).toEqual([["summary", 3, "open"]]);
    expect(brief(steps([], live({ model: { ...model, task: "verify" } })))).toEqual([["verify", 3, "open"]]);
    expect(steps([], live({ model }))).toEqual([]);
    expect(steps([], { ...live({ model }), status: "failed" }, 2)).toEqual([]);
  });
});

describe("turns", () => {
  test("of a run in a session that failed, was retried after others had spoken, and went on", () => {
    const feed = [
      ...entries(0, { type: "run_created", messages: [0, 0] }, { type: "session_queued", behind: "other" }),
      ...entries(0, { type: "session_entered", from: 4 }, { type: "messages_appended", messages: [4, 5] }),
      ...entries(1, answered, { type: "run_ended", status: "failed", stopReason: "deadline", error }),
      ...entries(1, { type: "run_retried", by: "eve" }, { type: "session_entered", from: 8 }),
      ...entries(1, { type: "messages_appended", messages: [8, 10] }),
    ];
    const turns = splitTurns(feed);
    expect(turns.map(({ turn, input }) => [turn, input])).toEqual([
      [1, [[4, 5]]],
      [2, [[8, 10]]],
    ]);
    const [first, second] = turns.map((turn) =>
      toTurnView(turn, { results: new Map(), input: [] }, live({}), noRedaction),
    );
    expect(first?.marks).toEqual([
      { at: 101, type: "session_queued", behind: "other" },
      { at: 100, type: "session_entered" },
      { at: 101, type: "ended", status: "failed", stopReason: "deadline", error },
      { at: 100, type: "retried", by: "eve" },
    ]);
    expect(second?.marks).toEqual([{ at: 101, type: "session_entered" }]);
    expect(second?.endedAt).toBeUndefined();
  });

  test("that begins with a retry counts from there, not from the end of the turn before", () => {
    const [first, second] = splitTurns([
      ...entries(1, { ...answered, calls: ["call-1-1"] } as Bare, { type: "messages_appended", messages: [2, 3] }),
      ...entries(1, answered, { type: "run_ended", status: "failed", stopReason: "max_turns", error }).slice(1),
      { type: "run_retried", seq: 9, at: 900, turn: 1, by: "eve" },
    ]);
    expect([first?.endedAt, first?.entries.at(-1)?.type]).toEqual([101, "run_ended"]);
    expect([second?.turn, second?.startedAt, second?.endedAt]).toEqual([2, 900, undefined]);
  });

  test("that was rejected, and one that only late usage tells of", () => {
    const [rejected] = splitTurns(entries(0, { type: "run_rejected", error }));
    const run = { ...ended, status: "rejected" as const, turns: 0 };
    if (!rejected) throw new Error("no turn");
    expect(toTurnView(rejected, { results: new Map(), input: [] }, run, noRedaction)).toMatchObject({
      ...{ turn: 1, startedAt: 100, endedAt: 100, steps: [] },
      marks: [{ at: 100, type: "rejected", error }],
    });
    const late = { type: "usage_reported" as const, execution: "x", usage: { ...noUsage, inputTokens: 7 } };
    const [only] = splitTurns(entries(0, { type: "input_received", count: 1 }, late));
    if (!only) throw new Error("no turn");
    expect(toTurnView(only, { results: new Map(), input: [] }, run, noRedaction).usage.inputTokens).toBe(7);
  });

  test("the next one is there as soon as it is owed", () => {
    const last = splitTurns([...entries(0, { type: "run_created", messages: [0, 1] }), ...entries(1, answered)]);
    const numbers = (fields: Partial<Run>): number[] => withNext(last, live(fields)).map(({ turn }) => turn);
    const model = { attempt: 1, owedAt: 1 };
    expect(numbers({ model })).toEqual([1, 2]);
    expect(numbers({ model: { ...model, task: "verify" } })).toEqual([1]);
    const pendingInput: Message[] = [{ role: "user", content: "more" }];
    expect(numbers({ model: { ...model, task: "verify" }, pendingInput })).toEqual([1, 2]);
    expect(numbers({ status: "completed" })).toEqual([1]);
    expect(withNext([], live({ model, updatedAt: 77 }))).toEqual([{ turn: 2, startedAt: 77, input: [], entries: [] }]);
    expect(
      withNext(splitTurns(entries(0, { type: "run_began", agentHash: "h" })), live({ turns: 0, model })),
    ).toHaveLength(1);
  });

  test("show calls with results, policies and decisions, secrets redacted", () => {
    const redactor = createRedactor({ known: [{ kind: "key", value: "hunter2-hunter2" }] });
    const answer: AssistantMessage = {
      role: "assistant",
      content: "with hunter2-hunter2",
      toolCalls: [
        { callId: "call-1-1", id: "a", name: "pay", arguments: '{"password":"x1y2z3"}' },
        { callId: "call-1-2", id: "b", name: "pay", arguments: "{}" },
      ],
    };
    const result: ToolMessage = {
      ...{
        role: "tool",
        callId: "call-1-1",
        toolCallId: "a",
        name: "pay",
        content: '{"password":"x1y2z3"}',
        outcome: "ok",
      },
      described: "would pay",
      decision: { type: "approved", by: "ann", at: 3 },
      full: { name: "call-1-1", runId: "r", ref: "", chars: 900, bytes: 900, head: 1, tail: 1 },
    };
    const feed = entries(
      1,
      { ...answered, calls: ["call-1-1", "call-1-2"] } as Bare,
      { type: "policy_applied", ...call, policy: "rule 1, hunter2-hunter2" },
      { type: "step_crashed", callId: call.callId, error: { code: "x", message: "hunter2-hunter2" }, nextAt: 3 },
      { type: "run_ended", status: "cancelled", stopReason: "cancelled", error, by: "ann" },
      { type: "run_ended", status: "completed", stopReason: "answered" },
    );
    const [turn] = splitTurns(feed);
    if (!turn) throw new Error("no turn");
    const shown = redactShown(answer, redactor) as AssistantMessage;
    const results = new Map([["call-1-1", redactShown(result, redactor) as ToolMessage]]);
    const request = overviewOf({ answered: turn.answer ?? (feed[0] as never), definition });
    const view = toTurnView(turn, { answer: shown, results, input: [], request }, ended, redactor);
    expect(JSON.stringify(view)).not.toMatch(/hunter2|x1y2z3/);
    expect(view.calls).toEqual([
      {
        ...{ callId: "call-1-1", tool: "pay", arguments: '{"password":"[redacted: password]"}' },
        ...{ result: '{"password":"[redacted: password]"}', outcome: "ok", cutFrom: 900, described: "would pay" },
        decision: { type: "approved", by: "ann", at: 3 },
        policy: "rule 1, [redacted: key]",
      },
      { callId: "call-1-2", tool: "pay", arguments: "{}" },
    ]);
    expect(view.steps[1]).toMatchObject({ kind: "tool", tool: "pay", outcome: "crashed" });
    expect(view).toMatchObject({ finishReason: "stop", request, answer: shown });
    expect(view.marks).toMatchObject([{ by: "ann", error }, { status: "completed" }]);
    const parts = [{ type: "text", text: "hunter2-hunter2" }];
    expect(redactShown({ ...result, content: parts }, redactor)).toMatchObject({
      content: [{ text: "[redacted: key]" }],
    });
  });
});

const definition: AgentDefinition = {
  name: "a",
  instructions: "Do it.",
  model: "m",
  provider: "p",
  tools: [{ name: "look", description: "", parameters: {} }],
  request: { temperature: 0, top_p: 1 },
  limits: {},
};

describe("requests", () => {
  const stored = (fields: Partial<Manifest>, message = 9): Parameters<typeof overviewOf>[0] => ({
    answered: {
      ...(entries(1, answered)[0] as Extract<FeedEntry, { type: "model_answered" }>),
      message,
      manifest: { ...manifest, ...fields },
    },
    definition,
  });

  test.each<[Partial<Manifest>, [number, number][]]>([
    [{ messages: [[0, 9]] }, []],
    [{ messages: [[4, 9]] }, [[0, 4]]],
    [
      {
        messages: [
          [0, 1],
          [4, 7],
        ],
      },
      [
        [1, 4],
        [7, 9],
      ],
    ],
    [
      { messages: [[4, 9]], window: { goal: 2 } },
      [
        [0, 2],
        [3, 4],
      ],
    ],
  ])("%j leaves out %j of nine", (fields, expected) => {
    expect(overviewOf(stored(fields)).leftOut).toEqual(expected);
  });

  test("have what was offered and no parameter that was dropped", () => {
    const messages: Message[] = [{ role: "user", content: "go" }];
    const more = { ...stored({ tools: ["look", "read_result"], dropped: ["top_p"] }, 1) };
    more.definition = { ...definition, version: "2", output: { name: "o", schema: {} } };
    const builtIn = [{ name: "read_result", description: "", parameters: {} }];
    const request = wholeRequestOf(more, { messages, goal: 0, cutText: (text) => text, builtIn });
    expect(request).toEqual({
      agent: { name: "a", model: "m", provider: "p", version: "2" },
      ...{ kept: 1, leftOut: [], dropped: ["top_p"], offered: ["look", "read_result"] },
      ...{ instructions: "Do it.", messages, output: { name: "o", schema: {} } },
      tools: [...definition.tools, ...builtIn],
      request: { temperature: 0 },
    });
    const older = stored({ dropped: undefined }, 1);
    expect(wholeRequestOf(older, { messages, goal: 0, cutText: (text) => text, builtIn })).toMatchObject({
      ...{ tools: [], dropped: [], request: definition.request },
    });
  });

  test("name the messages and the summary that they need, and whether texts were cut", () => {
    const summary = {
      ...entries(1, { type: "summarised", execution: "x", upTo: 4, text: "s", usage: noUsage })[0],
    } as never;
    expect(overviewOf({ ...stored({}), summary }).summarisedUpTo).toBe(4);
    expect(rangesOf({ ...manifest, window: { goal: 7 } })).toEqual([
      [7, 8],
      [0, 1],
    ]);
    expect(rangesOf(manifest)).toEqual([[0, 1]]);
    const cuts = (window: Manifest["window"], budgeted = false): boolean => cutsText({ ...manifest, window }, budgeted);
    expect([cuts(undefined, true), cuts({ omitted: 1 }, true), cuts({ cuts: [] }), cuts({ summaryTokens: 3 })]).toEqual(
      [...[false, false, true, true]],
    );
    expect([cuts({ reminders: [1] }), cuts({ reminders: [1] }, true)]).toEqual([false, true]);
    expect([remindsIn(manifest), remindsIn({ window: { reminders: [] } })]).toEqual([false, true]);
  });

  test("restate the goal that the run had then", () => {
    const run = live({ baseMessage: 20, messageCount: 30, inputCount: 2, earlierParts: [[5, 9]] });
    expect([goalAt(run, 6), goalAt(run, 25), goalAt(run, 3)]).toEqual([6, 21, undefined]);
    expect(goalAt(live({}), 1)).toBe(0);
    expect(goalAt(live({ inputCount: undefined }), 1)).toBeUndefined();
  });
});
