// Catches: a run that is deleted and leaves something behind, or a step of it that comes late and does harm.
import { Redis } from "ioredis";
import { describe, expect, inject, onTestFinished, test } from "vitest";
import { z } from "zod";
import { type Agent, defineAgent } from "../src/define-agent.ts";
import { createDrover, type Drover } from "../src/drover.ts";
import { manualClock } from "../src/testing/manual-clock.ts";
import { createMemoryDrover } from "../src/testing/memory-drover.ts";
import { type ScriptedReply, scriptedModel } from "../src/testing/scripted-model.ts";
import { defineTool } from "../src/tools/define-tool.ts";
import { collectWarnings } from "./redis/setup.ts";
import { eventually } from "./support/eventually.ts";
import { deletePrefix, testPrefix } from "./support/redis.ts";

type Hold = { began: Promise<void>; release(text: string): void };

/** An agent with a tool that says much, and one that waits for the test whatever aborts it. */
function makeAgent(turns: ScriptedReply[]): { agent: Agent; hold: Hold } {
  const began = Promise.withResolvers<void>();
  const result = Promise.withResolvers<string>();
  const parameters = z.object({ n: z.number() });
  const flood = defineTool({
    name: "flood",
    description: "Says much.",
    parameters,
    effect: "read",
    maxResultTokens: 100,
    execute: ({ n }) => Array.from({ length: 4_000 }, (_, line) => `line ${n} ${line}`).join("\n"),
  });
  const wait = defineTool({
    name: "wait",
    description: "Waits.",
    parameters,
    effect: "read",
    maxResultTokens: 100,
    execute: () => {
      began.resolve();
      return result.promise;
    },
  });
  const agent = defineAgent({ name: "a", instructions: "", model: scriptedModel(turns), tools: [flood, wait] });
  return { agent, hold: { began: began.promise, release: result.resolve } };
}

const flooded: ScriptedReply[] = [{ toolCalls: [{ name: "flood", arguments: { n: 1 } }] }, "done"];

type Place = { drover: Drover; warnings: string[]; keys(): Promise<string[]> };

function onRedis(agent: Agent): Place {
  const prefix = testPrefix();
  const url = inject("redisUrl");
  const client = new Redis(url);
  const { logger, warnings } = collectWarnings();
  const drover = createDrover({ redis: url, prefix, agents: [agent], logger });
  onTestFinished(async () => {
    await drover.close();
    client.disconnect();
    await deletePrefix(url, prefix);
  });
  return { drover, warnings, keys: async () => (await client.keys(`${prefix}*`)).toSorted() };
}

function inMemory(agent: Agent): Place {
  const { logger, warnings } = collectWarnings();
  const drover = createMemoryDrover({ agents: [agent], logger });
  onTestFinished(() => drover.close());
  return { drover, warnings, keys: async () => [] };
}

describe.each([
  ["on Redis", onRedis],
  ["in memory", inMemory],
])("deleting a run, %s", (_where, open) => {
  test("removes all of it, kept results among it, and nothing of another", async () => {
    const { agent } = makeAgent(flooded);
    const { drover, keys } = open(agent);
    await drover.work();
    const [first, second] = ["run-1", "run-2"];
    await (await drover.start(agent, "go", { runId: first })).result({ timeoutMs: 10_000 });
    const before = await keys();
    const run = await drover.start(agent, "go", { runId: second, tenant: "t1", metadata: { k: "v" } });
    await run.result({ timeoutMs: 10_000 });
    const call = (await run.transcript()).find((message) => message.role === "tool");
    expect(call).toMatchObject({ full: { ref: expect.stringMatching(/./) } });
    await drover.delete(second);
    expect(await keys()).toEqual(before);
    await expect(run.status()).rejects.toMatchObject({ code: "not_found" });
    await expect(drover.delete(second)).rejects.toMatchObject({ code: "not_found" });
    expect((await drover.list({ search: "run" })).runs.map(({ runId }) => runId)).toEqual([first]);
    expect((await drover.list({ tenant: "t1" })).runs).toEqual([]);
    expect(await drover.count()).toMatchObject({ completed: 1 });
    expect(await drover.count({ tenant: "t1" })).toMatchObject({ completed: 0 });
    expect((await drover.get(first).transcript()).length).toBe(4);
  });

  test("is refused while the run goes on, and its id is free after it", async () => {
    const { agent, hold } = makeAgent([
      ({ messages }) =>
        messages.some(({ content }) => content === "go")
          ? { toolCalls: [{ name: "wait", arguments: { n: 1 } }] }
          : "again",
      "done",
    ]);
    const { drover } = open(agent);
    await drover.work();
    const run = await drover.start(agent, "go", { runId: "run-1" });
    await hold.began;
    await expect(drover.delete("run-1")).rejects.toMatchObject({
      code: "not_allowed",
      message: expect.stringContaining("cancel it"),
    });
    hold.release("x");
    await run.result({ timeoutMs: 10_000 });
    await drover.delete("run-1");
    const next = await drover.start(agent, "another input", { runId: "run-1" });
    expect(await next.result({ timeoutMs: 10_000 })).toMatchObject({ output: "again", turns: 1 });
    expect((await next.transcript()).map(({ content }) => content)).toEqual(["another input", "again"]);
  });

  test("while a worker still holds a step of it: the step ends, and leaves nothing", async () => {
    const { agent, hold } = makeAgent([
      ({ runId }) => (runId === "run-1" ? { toolCalls: [{ name: "wait", arguments: { n: 1 } }] } : "next"),
    ]);
    const { drover, warnings, keys } = open(agent);
    const worker = await drover.work();
    const run = await drover.start(agent, "go", { runId: "run-1" });
    await hold.began;
    await run.cancel({ by: "ann", reason: "over" });
    await drover.delete("run-1");
    hold.release("x".repeat(50_000));
    await eventually(() => worker.stats().running === 0 || undefined);
    expect((await keys()).filter((name) => name.includes("run-1"))).toEqual([]);
    await expect(run.status()).rejects.toMatchObject({ code: "not_found" });
    const other = await drover.start(agent, "go", { runId: "run-2" });
    expect(await other.result({ timeoutMs: 10_000 })).toMatchObject({ output: "next" });
    expect(warnings).toEqual([]);
  });

  test("that was part of a session keeps what was said in it", async () => {
    const { agent } = makeAgent([({ runId }) => `answer of ${runId}`]);
    const { drover } = open(agent);
    await drover.work();
    for (const runId of ["run-1", "run-2"]) {
      await (await drover.start(agent, `input of ${runId}`, { runId, session: "s1" })).result({ timeoutMs: 10_000 });
    }
    await eventually(() =>
      drover.delete("run-1").then(
        () => true,
        () => undefined,
      ),
    );
    expect((await drover.list({ session: "s1" })).runs.map(({ runId }) => runId)).toEqual(["run-2"]);
    const last = await drover.start(agent, "input of run-3", { runId: "run-3", session: "s1" });
    expect(await last.result({ timeoutMs: 10_000 })).toMatchObject({ output: "answer of run-3" });
    const said = (await drover.session("s1").transcript()).map(({ content }) => content);
    expect(said).toEqual([1, 2, 3].flatMap((run) => [`input of run-${run}`, `answer of run-${run}`]));
  });
});

test("of a run that waits for its session's next to be told is put off", async () => {
  const { agent } = makeAgent(["one"]);
  const clock = manualClock(1_000);
  const drover = createMemoryDrover({ agents: [agent], clock });
  const run = await drover.start(agent, "go", { runId: "run-1", session: "s1" });
  await run.cancel({ by: "ann", reason: "over" });
  await expect(drover.delete("run-1")).rejects.toMatchObject({
    code: "not_allowed",
    message: expect.stringContaining("others to tell"),
  });
  await drover.work();
  await eventually(() =>
    drover.delete("run-1").then(
      () => true,
      () => undefined,
    ),
  );
  expect((await drover.list()).runs).toEqual([]);
  await drover.close();
});
