// Catches: a judge that lets pass what it is there to find. Runs as they went, with one thing made wrong at a time.
import { describe, expect, test } from "vitest";
import { z } from "zod";
import type { Evidence } from "../../src/chaos/evidence.ts";
import type { Begun, Ended, Execution } from "../../src/chaos/execution.ts";
import { judge, toJudged } from "../../src/chaos/judge.ts";
import type { ModelCall } from "../../src/chaos/ledger.ts";
import { play } from "../../src/chaos/play.ts";
import type { Script } from "../../src/chaos/script.ts";
import type { FeedEntry } from "../../src/core/event.ts";
import type { Message } from "../../src/core/message.ts";
import { defineAgent } from "../../src/define-agent.ts";
import { scriptedModel } from "../../src/testing/index.ts";
import { agentTool } from "../../src/tools/agent-tool.ts";
import { defineTool } from "../../src/tools/define-tool.ts";

const post = defineTool({
  name: "post",
  description: "Posts.",
  parameters: z.object({}),
  execute: () => "posted",
});
const common = { instructions: "Act.", model: scriptedModel([]) };
const helper = defineAgent({ ...common, name: "helper", tools: [post] });
const agent = defineAgent({ ...common, name: "tried", tools: [post, agentTool({ agent: helper })] });
const answer: Script = [{ text: "helped", toolCalls: [] }];
const script: Script = [
  { text: "one", toolCalls: [{ name: "post", arguments: {} }] },
  { text: "two", toolCalls: [{ name: "helper", arguments: { input: "help" } }] },
  { text: "done", toolCalls: [] },
];

/** As it was noted, with what each step knew. */
let known: readonly Execution[] = [];

async function evidence(): Promise<Evidence & { run: NonNullable<Evidence["run"]> }> {
  const played = await play({
    ...{ agent, runId: "j", seed: 1, scripts: () => script, isReal: () => false, schedule: [] },
    others: [{ agent: helper, scripts: () => answer }],
  });
  if (!played.run) throw new Error("no run");
  const tools = new Map(agent.tools.map((tool) => [tool.name, toJudged(tool, (name) => name === "helper")]));
  const { run, messages, feed, children, executions } = played;
  // A play's clock is its own: by the wall's, everything happened in one second of another year. What was known is left out
  // where the feed is made another one.
  const atOnce = executions.map((one) => (one.type === "begun" ? { ...one, seq: undefined } : one));
  known = executions;
  return { runId: "j", run, messages, feed, children, executions: atOnce.map((one) => ({ ...one, at: 1_000 })), tools };
}

type Wrong = (given: Awaited<ReturnType<typeof evidence>>) => Partial<Evidence>;
const told = async (wrong: Wrong): Promise<string[]> => {
  const given = await evidence();
  return judge({ ...given, ...wrong(given) }).map(({ kind, message }) => `${kind}: ${message}`);
};

test("nothing is wrong with a run that nobody disturbed", async () => {
  expect(await told(() => ({}))).toEqual([]);
});

test("an execution that is no call of the transcript, one too many, and a turn that is missing", async () => {
  const [other] = await told(({ executions }) => ({
    executions: executions.flatMap((one): Execution[] =>
      one.type === "effect" ? [] : [one, { ...one, key: "k", callId: "call-9-1" }],
    ),
  }));
  expect(other).toMatch(/^effect: post ran as call-9-1, which is no call of its transcript/);
  const twice: Wrong = ({ executions }) => ({
    executions: executions.flatMap((one): Execution[] =>
      one.type === "effect" ? [one] : [one, { ...one, attempt: 2 }],
    ),
  });
  expect(await told(twice)).toEqual([expect.stringMatching(/^effect: post may not run again and ran 2 times/)]);
  const word = { seq: 0, at: 0, turn: 1, callId: "call-1-1", tool: "post" };
  const saidSo: Wrong = (given) => {
    const asked: FeedEntry = { ...word, type: "approval_asked", why: "unknown_outcome" };
    const feed = [...given.feed, asked, { ...word, type: "approved" as const, by: "ann" }];
    return { ...twice(given), feed: feed.map((entry, index) => ({ ...entry, seq: index + 1 })) };
  };
  expect(await told(saidSo)).toEqual([]);
  const missing = await told(({ feed }) => ({
    feed: feed
      .filter((entry) => entry.type !== "model_answered" || entry.turn !== 2)
      .map((entry, index) => ({ ...entry, seq: index + 1 })),
  }));
  expect(missing).toEqual([expect.stringMatching(/^lost: the answer before turn 3 is not in its feed/)]);
});

test("what was known is noted, and fits a run that nobody disturbed", async () => {
  expect(await told(() => ({ executions: known }))).toEqual([]);
  expect(known.filter((one) => one.type === "begun").map(({ seq }) => seq)).toEqual([expect.any(Number)]);
});

test("an execution hidden behind another of its attempt that asked to be called again, or that has ended", async () => {
  const [begun, ended] = (await evidence()).executions as [Begun, Ended];
  const twice = [begun, { ...ended, outcome: "retry" as const }, { ...begun, pid: 8 }, { ...ended, pid: 8 }];
  expect(await told(() => ({ executions: twice }))).toEqual([]);
  expect(await told(() => ({ executions: [...twice, { ...begun, attempt: 2 }, { ...ended, attempt: 2 }] }))).toEqual([
    expect.stringMatching(/may not run again and ran 2 times/),
  ]);
  expect(await told(() => ({ executions: [begun, { ...begun, pid: 8 }, ended] }))).toContainEqual(
    expect.stringMatching(/its outcome is not known, yet the model was told "ok"/),
  );
});

describe("approvals", () => {
  const word = { at: 0, turn: 1, callId: "call-1-1", tool: "post" };
  const asking =
    (knew: (approvedAt: number) => number): Wrong =>
    ({ feed, executions }) => {
      const at = feed.findIndex(({ type }) => type === "tool_started");
      const asked = { ...word, seq: 0, type: "approval_asked" as const, why: "policy" };
      const entries = [...feed.slice(0, at), asked, { ...word, type: "approved", by: "ann" }, ...feed.slice(at)];
      return {
        feed: entries.map((entry, index) => ({ ...entry, seq: index + 1 })) as FeedEntry[],
        executions: executions.map((one) => (one.type === "begun" ? { ...one, seq: knew(at + 2) } : one)),
      };
    };

  test("what was begun by what was known before the answer ran unasked, though it was approved later", async () => {
    const unasked = expect.stringMatching(/^effect: post ran as call-1-1 before anybody approved it/);
    expect(await told(asking((at) => at - 1))).toEqual([unasked]);
    expect(await told(asking((at) => at + 1))).toEqual([]);
  });
});

test("the result of one call told as that of another, the answer that the feed ends before, and a question that is gone", async () => {
  const other = { tool: "post", runId: "j", callId: "call-1-2", key: "k2", attempt: 1, pid: 7, at: 1_000 };
  const swapped = await told(({ executions, messages }) => {
    const result = executions.flatMap((one) => (one.type === "ended" ? [one.result] : []))[0];
    const more = { role: "tool" as const, callId: "call-1-2", name: "post", content: "mine", outcome: "ok" as const };
    return {
      executions: [
        ...executions.map((one) => (one.type === "ended" ? { ...one, result: "another" } : one)),
        { ...other, type: "begun" },
        { ...other, type: "ended", outcome: "ok", result },
      ],
      messages: [...messages, more as Message],
    };
  });
  expect(swapped).toContainEqual("effect: the model was told of post as call-1-1 what post returned as call-1-2");
  const cut = await told(({ feed }) => ({
    feed: feed
      .filter((entry) => entry.type !== "model_answered" || entry.turn !== 3)
      .map((entry, index) => ({ ...entry, seq: index + 1 })),
  }));
  expect(cut).toEqual(["lost: the last answer in its feed is of turn 2 of 3"]);
  expect(await told(() => ({ asked: "chaos j" }))).toEqual([]);
  expect(await told(({ messages }) => ({ asked: "chaos j", messages: messages.slice(1) }))).toEqual([
    "lost: what it was asked is gone",
  ]);
});

test("an end by a deadline is anybody's, but only where there is one", async () => {
  const ends = { status: "completed", stopReason: "answered" } as const;
  const late = { status: "failed", stopReason: "deadline" } as const;
  expect(await told(({ run }) => ({ ends, run: { ...run, ...late, deadlineAt: 5 } }))).toEqual([]);
  expect(await told(({ run }) => ({ ends, run: { ...run, ...late, deadlineAt: undefined } }))).toEqual([
    expect.stringMatching(/^outcome: it is failed \(deadline\); undisturbed it is completed/),
  ]);
});

describe("children", () => {
  const withChild = ({ children = [] }: Evidence, more: object): Partial<Evidence> => ({
    children: children.map((child) => ({ ...child, run: { ...child.run, ...more } })),
  });

  test.each<[string, Wrong, RegExp]>([
    [
      "a child that goes on after its parent's end",
      (given) => withChild(given, { status: "running" }),
      /^stuck: .* is running/,
    ],
    ["success of a child that failed", (given) => withChild(given, { status: "failed" }), /its child is failed/],
    ["success of a child that is not there", () => ({ children: [] }), /no run of it is there/],
    [
      "another answer than the child's",
      ({ children = [] }) => ({ children: children.map((child) => ({ ...child, answer: "no" })) }),
      /something else than its child says/,
    ],
  ])("%s", async (_name, wrong, message) => {
    expect(await told(wrong)).toEqual(expect.arrayContaining([expect.stringMatching(message)]));
  });
});

describe("people", () => {
  const text = "and this";
  const twice = ({ messages }: Evidence, times: number): Partial<Evidence> => ({
    messages: [...messages, ...Array.from({ length: times }, () => ({ role: "user" as const, content: text }))],
  });

  test.each<[string, Wrong, RegExp[]]>([
    ["input that was taken is there once", (given) => ({ ...twice(given, 1), input: { text, taken: true } }), []],
    ["input that is gone", () => ({ input: { text, taken: true } }), [/^lost: input that it took is gone/]],
    [
      "input that waits is not gone",
      ({ run }) => ({ input: { text, taken: true }, run: { ...run, pendingInput: [{ role: "user", content: text }] } }),
      [],
    ],
    [
      "input twice",
      (given) => ({ ...twice(given, 2), input: { text, taken: true } }),
      [/^duplicated: input .* 2 times/],
    ],
    [
      "input that was refused",
      (given) => ({ ...twice(given, 1), input: { text, taken: false } }),
      [/was refused is there 1 times/],
    ],
    ["a retried run that kept what it had", ({ messages }) => ({ before: messages.slice(0, 3) }), []],
    [
      "a retried run that began anew",
      ({ messages }) => ({ before: messages.toReversed() }),
      [/^lost: .* before it was retried/],
    ],
  ])("%s", async (_name, wrong, messages) => {
    expect(await told(wrong)).toEqual(messages.map((message) => expect.stringMatching(message)));
  });
});

describe("pauses", () => {
  /** The feed with a pause from after one kind of entry up to before another, each entry a minute after the last. */
  function paused({ feed }: Evidence, after: FeedEntry["type"], before: FeedEntry["type"]): FeedEntry[] {
    const from = feed.findIndex(({ type }) => type === after) + 1;
    const to = feed.findIndex(({ type }, index) => index >= from && type === before);
    const more = { turn: 1, by: "ann", reason: "r" };
    const entries = [
      ...feed.slice(0, from),
      { ...more, type: "run_paused" as const },
      ...feed.slice(from, to),
      { ...more, type: "run_resumed" as const },
      ...feed.slice(to),
    ];
    return entries.map((entry, index) => ({ ...entry, seq: index + 1, at: index * 60_000 })) as FeedEntry[];
  }
  const atOf = (feed: FeedEntry[], type: FeedEntry["type"]): number =>
    feed.find((entry) => entry.type === type)?.at ?? 0;
  const callIn = (at: number): Partial<Evidence> => ({ modelCalls: [{ runId: "j", turn: 1, attempt: 1, pid: 7, at }] });

  test("a step in hand may end, and the next begins after it", async () => {
    expect(await told((given) => ({ feed: paused(given, "run_began", "tool_started") }))).toEqual([]);
  });

  test("two turns, the start of a call, and what only an answer of that time made possible", async () => {
    const wrong = await told((given) => {
      const feed = paused(given, "run_began", "run_ended");
      const begun = given.executions.map((one) => ({ ...one, at: atOf(feed, "model_answered") + 1_000 }));
      return { feed, executions: begun };
    });
    expect(wrong).toEqual([
      expect.stringMatching(/^effect: 3 turns were answered while it was paused/),
      expect.stringMatching(/the start of call-1-1 was committed/),
      expect.stringMatching(/post of call-1-1 began, which only a commit of that time made possible,/),
    ]);
  });

  const failed = { attempt: 1, error: { code: "c", message: "m" }, nextAt: 0 };
  const call = { callId: "call-1-1", tool: "post" };
  test.each<[string, object, object]>([
    ["an approval", { ...call, type: "approved", by: "ann" }, { attempt: 1 }],
    ["a failed attempt of a tool", { ...call, ...failed, type: "tool_failed" }, { attempt: 2 }],
    ["a failed attempt of a model", { ...failed, type: "model_failed", execution: "x" }, { turn: 2, attempt: 2 }],
    [
      "the last result of a turn",
      { ...call, type: "tool_finished", attempt: 1, outcome: "ok", message: 1 },
      { turn: 2, attempt: 1 },
    ],
  ])("what %s of that time made possible, however short the pause", async (_name, entry, begins) => {
    const within = (more: object): Wrong => {
      const added = [{ by: "ann", reason: "r", type: "run_paused" }, entry, { by: "ann", type: "run_resumed" }];
      return ({ feed, executions }) => {
        const at = feed.length + 1;
        const entries = [...feed, ...added].map((one, index) => ({
          turn: 1,
          ...one,
          seq: index + 1,
          at: index * 2_000,
        }));
        const begun = { ...call, runId: "j", key: "k", pid: 7, at: at * 2_000 + 100, ...more };
        const isModel = "turn" in begins;
        return {
          feed: entries as FeedEntry[],
          executions: isModel ? executions : [...executions, { ...begun, type: "begun" } as Execution],
          modelCalls: isModel ? [begun as unknown as ModelCall] : [],
        };
      };
    };
    const message = expect.stringMatching(/began, which only a commit of that time made possible, while it was paused/);
    expect(await told(within(begins))).toContainEqual(message);
    expect(await told(within({ ...begins, at: 0 }))).not.toContainEqual(message);
  });

  test("a model call long after the pause, unless its process was frozen", async () => {
    const late: Wrong = (given) => {
      const feed = paused(given, "run_created", "run_began");
      return { feed, ...callIn(atOf(feed, "run_paused") + 10_000) };
    };
    expect(await told(late)).toEqual([expect.stringMatching(/the model call of turn 1 began after 10000 ms/)]);
    const frozen: Wrong = (given) => {
      const { feed = [], ...more } = late(given);
      const at = atOf([...feed], "run_paused");
      return { feed, ...more, frozen: [{ pid: 7, from: at - 100, to: at + 9_900 }] };
    };
    expect(await told(frozen)).toEqual([]);
  });

  test("what its worker had no leisure to hear of, however long a tool kept it, and no longer than that", async () => {
    const kept = (silences: [from: number, to: number][], pid = 7): Wrong => {
      return (given) => {
        const feed = paused(given, "run_created", "run_began");
        const at = atOf(feed, "run_paused");
        return {
          feed,
          ...callIn(at + 20_000),
          frozen: silences.map(([from, to]) => ({ pid, from: at + from, to: at + to })),
        };
      };
    };
    // One tool after another, as a process tells of each, also of one that is going on.
    expect(
      await told(
        kept([
          [-500, 6_000],
          [6_100, 12_000],
          [6_100, 14_000],
          [14_100, 19_900],
        ]),
      ),
    ).toEqual([]);
    const late = [expect.stringMatching(/the model call of turn 1 began after 20000 ms/)];
    expect(
      await told(
        kept([
          [0, 6_000],
          [12_000, 19_900],
        ]),
      ),
    ).toEqual(late);
    expect(await told(kept([[-500, 19_900]], 8))).toEqual(late);
  });

  test("what began by a step that had read of it, however soon", async () => {
    const begunKnowing = (more: number): Wrong => {
      return (given) => {
        const feed = paused(given, "run_created", "run_began");
        const { seq = 0, at = 0 } = feed.find(({ type }) => type === "run_paused") ?? {};
        return { feed, modelCalls: [{ runId: "j", turn: 1, attempt: 1, pid: 7, at: at + 10, seq: seq + more }] };
      };
    };
    expect(await told(begunKnowing(0))).toEqual([
      "effect: the model call of turn 1 began, knowingly, while it was paused",
    ]);
    expect(await told(begunKnowing(-1))).toEqual([]);
  });

  test("the whole fleet's", async () => {
    const fleetPauses = [{ from: 50_000, to: 70_000 }];
    expect(await told(() => ({ ...callIn(60_000), fleetPauses }))).toEqual([
      expect.stringMatching(/began after 10000 ms while the fleet was paused/),
    ]);
    expect(await told(() => ({ ...callIn(52_000), fleetPauses }))).toEqual([]);
    expect(await told(() => ({ ...callIn(70_100), fleetPauses }))).toEqual([]);
  });
});
