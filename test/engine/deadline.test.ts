// Catches: a run that outlives its deadline, does something after it, or spins once it has passed.
import { describe, expect, test } from "vitest";
import { z } from "zod";
import type { Limits } from "../../src/core/agent.ts";
import { RetryableError } from "../../src/core/errors.ts";
import { defineAgent } from "../../src/define-agent.ts";
import { scriptedModel } from "../../src/testing/index.ts";
import { defineTool } from "../../src/tools/define-tool.ts";
import { makeBench, takeStep } from "./support.ts";

const drainAll = { advanceTime: true, maxDeliveries: 100 };

/** A model that answers when its call is aborted, at the latest after a second. */
function makeSlowAgent(onAbort: () => void, limits: Limits = {}): ReturnType<typeof defineAgent> {
  const slow = async ({ signal }: { signal: AbortSignal }): Promise<{ text: string; delayMs: number }> => {
    await new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, 1_000);
      signal.addEventListener("abort", () => {
        clearTimeout(timer);
        onAbort();
        resolve();
      });
    });
    return { text: "late", delayMs: 1 };
  };
  return defineAgent({ name: "slow", instructions: "Wait.", model: scriptedModel([slow]), limits });
}

describe("a run whose deadline has passed", () => {
  test("ends, although no worker knows its agent", async () => {
    const bench = makeBench();
    const engine = bench.process();
    await engine.client.start("nobody", "go", { runId: "parked", limits: { deadlineMs: 10_000 } });
    await bench.queue.drain(engine.runStep, drainAll);
    const run = await bench.store.load("parked");
    expect(run).toMatchObject({ status: "failed", stopReason: "deadline" });
    expect((run?.endedAt ?? 0) - (run?.createdAt ?? 0)).toBe(10_000);
  });

  test.each([true, false])("executes no tool any more (repeatable: %s)", async (idempotent) => {
    const bench = makeBench();
    const executed: number[] = [];
    const tool = defineTool({
      name: "post",
      description: "Posts a note.",
      parameters: z.object({ note: z.string().describe("what") }),
      effect: "write",
      idempotent,
      execute: (_args, { attempt }) => {
        executed.push(attempt);
        throw new RetryableError("busy", { delayMs: 60_000 });
      },
    });
    const model = scriptedModel([{ toolCalls: [{ name: "post", arguments: { note: "a" } }] }]);
    const engine = bench.process({
      agents: [defineAgent({ name: "poster", instructions: "Post.", model, tools: [tool] })],
    });
    await engine.client.start("poster", "go", { runId: "late", limits: { deadlineMs: 10_000 } });
    await bench.queue.drain(engine.runStep, drainAll);
    expect(executed).toEqual([1]);
    expect(await bench.store.load("late")).toMatchObject({ status: "failed", stopReason: "deadline" });
    expect((await bench.store.readMessages("late", 2, 9))[0]).toMatchObject({ role: "tool", outcome: "cancelled" });
  });
});

describe("a deadline that comes during a model call", () => {
  test("aborts the first one too, if the agent alone sets it", async () => {
    const bench = makeBench();
    const agent = makeSlowAgent(() => bench.clock.advance(30), { deadlineMs: 30 });
    const engine = bench.process({ agents: [agent] });
    await engine.client.start("slow", "go", { runId: "first" });
    await bench.queue.drain(engine.runStep, drainAll);
    expect(await bench.store.load("first")).toMatchObject({ status: "failed", stopReason: "deadline" });
  });

  test("[G2] keeps the step, if Redis's clock has not come so far yet", async () => {
    const bench = makeBench();
    const engine = bench.process({ agents: [makeSlowAgent(() => {})] });
    await engine.client.start("slow", "go", { runId: "early", limits: { deadlineMs: 30 } });
    const taken = takeStep(bench);
    bench.clock.advance(29);
    const outcome = await engine.runStep(taken.delivery);
    expect(outcome.type).toBe("again");
    taken.end(outcome);
    await bench.queue.drain(engine.runStep, drainAll);
    expect(await bench.store.load("early")).toMatchObject({ status: "failed", stopReason: "deadline" });
  });
});

test("a deadline ends a run whose tool waits in a queue of its own that nobody serves", async () => {
  const bench = makeBench();
  const browse = defineTool({
    name: "browse",
    description: "Browses.",
    parameters: z.object({ note: z.string().describe("what") }),
    effect: "read",
    queue: "browser",
    execute: () => "seen",
  });
  const model = scriptedModel([{ toolCalls: [{ name: "browse", arguments: { note: "a" } }] }]);
  const engine = bench.process({
    agents: [defineAgent({ name: "browser", instructions: "Browse.", model, tools: [browse] })],
  });
  await engine.client.start("browser", "go", { runId: "unserved", limits: { deadlineMs: 10_000 } });
  await bench.queue.run(engine.runStep);
  const unserved = takeStep(bench); // in the hands of nobody: no other queue gives it out
  bench.clock.advance(10_000);
  const wake = takeStep(bench);
  wake.end(await engine.runStep(wake.delivery));
  expect(unserved.delivery.step.index).toBe(1);
  expect(await bench.store.load("unserved")).toMatchObject({ status: "failed", stopReason: "deadline" });
});

test("[G9] a retry counts the deadline anew, also of a run that failed before it began", async () => {
  const bench = makeBench();
  const model = scriptedModel(["done"]);
  const agent = defineAgent({ name: "known", instructions: "Answer.", model });
  const without = bench.process();
  await without.client.start("known", "go", { runId: "again", limits: { deadlineMs: 10_000 } });
  await bench.queue.drain(without.runStep, drainAll);
  expect(await bench.store.load("again")).toMatchObject({ status: "failed", stopReason: "deadline" });
  bench.clock.advance(3_600_000);
  const engine = bench.process({ agents: [agent] });
  await engine.handle("again").retry();
  const retriedAt = bench.clock.now();
  await bench.queue.drain(engine.runStep, drainAll);
  expect(await bench.store.load("again")).toMatchObject({ status: "completed", deadlineAt: retriedAt + 10_000 });
});
