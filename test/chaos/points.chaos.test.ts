// Catches: a `drover chaos` that finds nothing. Stores and tools with a planted bug must be found, the failure shrunk to
// the faults that it takes, and the same seed must play the same.
import { describe, expect, test } from "vitest";
import { z } from "zod";
import { isHarmless } from "../../src/chaos/chaos-agent.ts";
import type { Execution } from "../../src/chaos/execution.ts";
import { hintsOf } from "../../src/chaos/hints.ts";
import { judge, toJudged } from "../../src/chaos/judge.ts";
import { play } from "../../src/chaos/play.ts";
import { type PointSearch, playPoints, searchPoints } from "../../src/chaos/points.ts";
import { createRandom } from "../../src/chaos/random.ts";
import { examplesIn, sampleFor } from "../../src/chaos/sample.ts";
import { makeScripts } from "../../src/chaos/script.ts";
import { shrink } from "../../src/chaos/shrink.ts";
import { type Agent, defineAgent } from "../../src/define-agent.ts";
import type { RunStore } from "../../src/ports.ts";
import { recordEffect, scriptedModel } from "../../src/testing/index.ts";
import { agentTool } from "../../src/tools/agent-tool.ts";
import { defineTool, type Tool } from "../../src/tools/define-tool.ts";
import { toParameters } from "../../src/tools/parameters.ts";
import { askPerson } from "../../src/tools/stock/ask-person.ts";

const seed = 5;

function tool(name: string, more: object = {}): Tool {
  return defineTool({
    name,
    description: `The tool ${name}.`,
    parameters: z.object({ note: z.string().min(3), count: z.int().optional() }),
    execute: () => `${name} done`,
    ...more,
  });
}

function agentWith(...tools: Tool[]): Agent {
  return defineAgent({ name: "tried", instructions: "Act.", model: scriptedModel([]), tools });
}

function search(agent: Agent, more: Partial<PointSearch> = {}): ReturnType<typeof searchPoints> {
  return searchPoints({
    ...{ agent, seed, scripts: makeScripts(agent, seed), isReal: isHarmless, randomPlays: 0 },
    ...more,
  });
}

test("[D18] every fault at every port call of a run with every kind of call leaves it sound", async () => {
  const agent = defineAgent({
    name: "all",
    instructions: "Act.",
    model: scriptedModel([]),
    tools: [tool("look", { effect: "read" }), tool("post"), tool("pay", { effect: "irreversible" }), askPerson()],
    output: z.object({ city: z.string(), degrees: z.number().min(-50).max(50) }),
  });
  const { tally, points, plays, failure } = await search(agent, { randomPlays: 40 });
  expect(failure).toBeUndefined();
  expect(points).toBeGreaterThan(50);
  expect(plays).toBeGreaterThan(points * 6);
  expect(tally).toMatchObject({ lost: 0, duplicated: 0, stuck: 0, effects: 0, outcomes: 0 });
  for (const count of [tally.kills, tally.pauses, tally.lostReplies, tally.outages]) expect(count).toBeGreaterThan(50);
  expect(tally.unknown).toBeGreaterThan(0);
});

test("[D18] every fault at every port call of a run whose calls are runs of another agent, which asks, leaves both sound", async () => {
  const helper = defineAgent({
    name: "helper",
    instructions: "Help.",
    model: scriptedModel([]),
    tools: [tool("post"), tool("pay", { effect: "irreversible" })],
  });
  const agent = agentWith(agentTool({ agent: helper }), agentTool({ agent: "elsewhere" }));
  const others = [{ agent: helper, scripts: makeScripts(helper, seed) }];
  const { tally, undisturbed, failure } = await search(agent, { others });
  expect(failure).toBeUndefined();
  expect(undisturbed.children).toMatchObject([{ run: { agent: "helper", status: "completed" } }]);
  const said = undisturbed.messages.flatMap((message) => (message.role === "tool" ? [message.content] : []));
  expect(said).toContainEqual(`answer of ${undisturbed.children[0]?.run.runId}`);
  expect(said).toContainEqual(expect.stringContaining("elsewhere: stub"));
  expect(tally.children).toBeGreaterThan(tally.runs - 10);
});

describe("a planted bug is found", () => {
  /** Whoever commits wins, whatever came between. */
  const withoutCompare = (store: RunStore): RunStore => ({
    ...store,
    commit: async (change) => {
      const result = await store.commit(change);
      if (result.committed || !result.run) return result;
      const { revision, token } = result.run;
      return store.commit({ ...change, previous: { ...change.previous, revision, token } });
    },
  });
  /** The third commit of a run is acknowledged and gone. */
  const forgetful = (store: RunStore): RunStore => {
    let commits = 0;
    return {
      ...store,
      commit: async (change) => {
        commits += 1;
        return commits === 3 ? { committed: true } : store.commit(change);
      },
    };
  };

  test("[D18] a store that does not compare before it sets: by one fault, and by the same again", async () => {
    const agent = agentWith(tool("post"), tool("look", { effect: "read" }));
    const { failure } = await search(agent, { breakStore: withoutCompare });
    expect(failure?.schedule.faults).toHaveLength(1);
    expect(failure?.findings.length).toBeGreaterThan(0);
    const { schedule } = failure ?? {};
    if (schedule?.layer !== "points") throw new Error("no schedule of points");
    const options = { agent, seed, scripts: makeScripts(agent, seed), isReal: isHarmless, breakStore: withoutCompare };
    expect((await playPoints(options, schedule)).findings).toEqual(failure?.findings);
    expect((await playPoints({ ...options, breakStore: undefined }, schedule)).findings).toEqual([]);
  });

  test("[D18] a store that loses a commit: it takes no fault", async () => {
    const { failure } = await search(agentWith(tool("post")), { breakStore: forgetful });
    expect(failure?.schedule.faults).toEqual([]);
    expect(failure?.findings.length).toBeGreaterThan(0);
  });

  test("[D18] a tool that says it is idempotent and has its effect again: an effect outside its policy", async () => {
    const put = tool("put", {
      idempotent: true,
      execute: (_args: unknown, { idempotencyKey }: { idempotencyKey: string }) => {
        recordEffect(idempotencyKey, "charged");
        return "done";
      },
    });
    const { failure, tally } = await search(agentWith(put), { isReal: () => true });
    expect(failure?.schedule.faults).toHaveLength(1);
    expect(failure?.findings).toEqual([
      {
        kind: "effect",
        runId: expect.any(String),
        message: expect.stringMatching(/"charged" under the key .* more than once/),
      },
    ]);
    expect(tally.effects).toBe(1);
  });
});

test("[D18] an idempotent tool that says so when it is repeated is no failure: it is hinted at, unless its effect was judged", async () => {
  let count = 0;
  const act = () => (++count % 2 === 1 ? "created" : "there already");
  const [put, look] = [tool("put", { idempotent: true, execute: act }), tool("look", { effect: "read", execute: act })];
  const { failure, hints } = await search(agentWith(put, look), { isReal: () => true });
  expect(failure).toBeUndefined();
  expect(hints).toEqual([{ tool: "put", key: expect.stringMatching(/^chaos-tried-1:/) }]);

  const place = { tool: "put", runId: "r", callId: "c", key: "r:c", attempt: 1, pid: 1, at: 1 };
  const ended = ["created", "there already"].map(
    (result): Execution => ({ ...place, type: "ended", outcome: "ok", result }),
  );
  const effect: Execution = { type: "effect", key: "r:c", what: "effect", pid: 1, at: 1 };
  const tools = new Map([["put", toJudged(put, () => false)]]);
  expect(hintsOf({ executions: ended, tools })).toEqual([{ tool: "put", key: "r:c" }]);
  expect(hintsOf({ executions: [effect, ...ended], tools })).toEqual([]);
  expect(hintsOf({ executions: ended.slice(1), tools })).toEqual([]);
});

test("the same options play the same run, port call by port call", async () => {
  const agent = agentWith(tool("post"), tool("look", { effect: "read" }), tool("pay", { effect: "irreversible" }));
  const options = { agent, seed, scripts: makeScripts(agent, seed), isReal: () => false, runId: "same" };
  const schedule = [
    { call: 7, fault: "pause_after" as const, forSteps: 2 },
    { call: 19, fault: "kill_before" as const },
  ];
  const [one, two] = [await play({ ...options, schedule }), await play({ ...options, schedule })];
  expect(two.calls).toEqual(one.calls);
  // Only the ids of its trace come from outside.
  expect({ ...two.run, trace: undefined }).toEqual({ ...one.run, trace: undefined });
  expect(two.messages).toEqual(one.messages);
  expect(one.happened).toEqual(["pause_after", "kill_before"]);
});

test("the judge names what ran too often, without leave, and what was told wrongly", async () => {
  const agent = agentWith(tool("pay", { effect: "irreversible" }));
  const scripts = makeScripts(agent, 1);
  const { run, messages, feed, executions } = await play({
    agent,
    seed: 1,
    scripts,
    isReal: () => false,
    runId: "j",
    schedule: [],
  });
  const tools = new Map([["pay", { effect: "irreversible" as const, idempotent: false, asks: true, byAgent: false }]]);
  const evidence = { runId: "j", run, messages, feed, executions, tools };
  expect(judge(evidence)).toEqual([]);
  const kinds = (more: object): string[] => judge({ ...evidence, ...more }).map(({ kind }) => kind);
  expect(kinds({ executions: [...executions, ...executions] })).toEqual(["effect"]);
  expect(kinds({ executions: [] })).toEqual(["effect"]);
  expect(kinds({ feed: feed.filter(({ type }) => type !== "approved") })).toEqual(["lost", "effect"]);
  expect(kinds({ messages: messages.slice(0, -2) })).toContain("lost");
  expect(kinds({ run: null })).toEqual(["lost"]);
  expect(kinds({ run: { ...run, status: "running" } })).toEqual(["stuck"]);
  expect(kinds({ ends: { status: "failed", stopReason: "max_turns" } })).toEqual(["outcome"]);
});

test("values are made up that fit their schemas", () => {
  const random = createRandom(3);
  const parameters = [
    z.object({ id: z.string().regex(/^(?:ORD|INV)-[0-9]{4,6}[a-f]?$/), on: z.iso.date(), mail: z.email() }),
    z.object({ kind: z.enum(["a", "b"]), size: z.int().min(5).max(7), step: z.number().multipleOf(5).optional() }),
    z.object({ list: z.array(z.union([z.string(), z.object({ deep: z.literal(1) })])).min(2), on: z.boolean() }),
    { type: "object", properties: { at: { $ref: "#/$defs/at" } }, required: ["at"], $defs: { at: { const: 4 } } },
  ].map((source) => toParameters(source));
  for (const one of parameters) {
    for (let count = 0; count < 50; count += 1)
      expect(sampleFor(one, random)?.value).toSatisfy((value) => one.parse(value).ok);
  }
  const odd = toParameters(z.object({ word: z.string().refine((word) => word === "xyzzy") }));
  expect(sampleFor(odd, random)).toBeUndefined();
  expect(sampleFor(odd, random, examplesIn('Says it. Example: {"word":"xyzzy"}'))).toEqual({
    value: { word: "xyzzy" },
  });
});

test.each([[[3]], [[3, 11]], [[0, 9, 15]], [[]]])("shrinking leaves exactly the items it takes: %j", async (needed) => {
  const items = Array.from({ length: 16 }, (_, index) => index);
  const fails = async (some: readonly number[]): Promise<boolean> => needed.every((item) => some.includes(item));
  expect(await shrink(items, fails)).toEqual(needed);
});
