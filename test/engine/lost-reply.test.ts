// Catches: tokens that are charged twice because the reply to the commit of an answer was lost, and tokens that are
// charged to nobody because another's answer was taken; a tool that was never begun and counts as begun, because the reply to
// the commit of its start was.
import { expect, test } from "vitest";
import { z } from "zod";
import { defineAgent } from "../../src/define-agent.ts";
import type { RunStore } from "../../src/ports.ts";
import { scriptedModel } from "../../src/testing/index.ts";
import { defineTool } from "../../src/tools/define-tool.ts";
import { makeBench, takeStep } from "./support.ts";

const usage = { inputTokens: 10, outputTokens: 5 };
const agents = [
  defineAgent({ name: "brief", instructions: "Answer.", model: scriptedModel([{ text: "done", usage }]), tools: [] }),
];

type Commit = Parameters<RunStore["commit"]>[0];

/** Such a commit is made, and its process is told that the run had gone on: it was sent again after another's. */
function losing(store: RunStore, isLost: (change: Commit) => boolean): RunStore {
  return {
    ...store,
    async commit(change) {
      const result = await store.commit(change);
      return isLost(change) ? { committed: false, run: await store.load(change.run.runId) } : result;
    },
  };
}

const isAnswer = ({ entries }: Commit): boolean => entries.some(({ type }) => type === "model_answered");

test("an answer that was committed and called refused is charged once", async () => {
  const bench = makeBench();
  const engine = bench.process({ agents, store: losing(bench.store, isAnswer) });
  await engine.client.start("brief", "go", { runId: "run-a" });
  const { delivery, end } = takeStep(bench);
  end(await engine.runStep(delivery));
  expect(await bench.store.load("run-a")).toMatchObject({ status: "completed", usage });
});

test("an answer that came after another one was taken is charged as well", async () => {
  const bench = makeBench();
  const other = bench.process({ agents });
  const engine = bench.process({ agents });
  await engine.client.start("brief", "go", { runId: "run-a" });
  const { delivery, end } = takeStep(bench);
  await Promise.all([engine.runStep(delivery), other.runStep(delivery)]);
  end({ type: "done" });
  expect(await bench.store.load("run-a")).toMatchObject({
    status: "completed",
    usage: { inputTokens: 20, outputTokens: 10 },
  });
});

/** Two turns of tools, some of which may run again. The number of commits is that of a run in which none is lost. */
async function playLosing(
  nth: number,
): Promise<{ commits: number; ran: string[]; outcomes: string[]; status: string }> {
  const ran: string[] = [];
  const tool = (
    name: string,
    more: { effect: "read" | "write"; idempotent?: boolean },
  ): ReturnType<typeof defineTool> =>
    defineTool({
      ...{ name, description: "Does what the note says.", parameters: z.object({ note: z.string() }), ...more },
      execute(_args, { idempotencyKey }) {
        ran.push(`${name} ${idempotencyKey}`);
        return "done";
      },
    });
  const call = (name: string): { name: string; arguments: { note: string } } => ({ name, arguments: { note: name } });
  const model = scriptedModel([
    { toolCalls: [call("post"), call("look"), call("put"), call("post")], usage },
    { toolCalls: [call("post")], usage },
    { text: "done", usage },
  ]);
  const tools = [
    tool("post", { effect: "write" }),
    tool("put", { effect: "write", idempotent: true }),
    tool("look", { effect: "read" }),
  ];
  const bench = makeBench();
  let commits = 0;
  const store = losing(bench.store, () => ++commits === nth);
  const engine = bench.process({ agents: [defineAgent({ name: "busy", instructions: "Work.", model, tools })], store });
  await engine.client.start("busy", "go", { runId: "run-a" });
  for (let taken = bench.queue.take(); taken; taken = bench.queue.take())
    taken.end(await engine.runStep(taken.delivery));
  const run = await bench.store.load("run-a");
  const { messages = [] } = (await bench.store.loadWithMessages("run-a")) ?? {};
  const outcomes = messages.flatMap((message) => (message.role === "tool" ? [message.outcome] : []));
  expect(run?.usage).toMatchObject({ inputTokens: 30, outputTokens: 15 });
  return { commits, ran: ran.toSorted(), outcomes, status: run?.status ?? "gone" };
}

test("whichever commit is made and called refused, each call runs once and its outcome is known", async () => {
  const { commits, ...whole } = await playLosing(0);
  expect(whole).toMatchObject({ status: "completed", outcomes: Array.from({ length: 5 }, () => "ok") });
  expect(new Set(whole.ran).size).toBe(5);
  expect(commits).toBeGreaterThan(10);
  for (let nth = 1; nth <= commits; nth += 1)
    expect({ nth, ...(await playLosing(nth)) }).toMatchObject({ nth, ...whole });
});
