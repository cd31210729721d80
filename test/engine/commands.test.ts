// Catches: a command whose answer tells something else than what was committed.
import { describe, expect, test } from "vitest";
import { z } from "zod";
import { defineAgent } from "../../src/define-agent.ts";
import { sweep } from "../../src/engine/sweep.ts";
import { createSilentLogger } from "../../src/telemetry/logger.ts";
import { scriptedModel } from "../../src/testing/index.ts";
import { defineTool } from "../../src/tools/define-tool.ts";
import { makeBench } from "./support.ts";

const away = async (): Promise<never> => Promise.reject(new Error("Redis is away"));

describe("a command that was committed", () => {
  test("is answered as done, although nobody could be told of it", async () => {
    const bench = makeBench();
    const engine = bench.process({ signals: { ...bench.signals, announce: away } });
    await engine.client.start("nobody", "go", { runId: "told" });
    expect(await engine.handle("told").cancel({ by: "ann" })).toBe(true);
    expect(await engine.handle("told").cancel({ by: "ann" })).toBe(false);
    expect(await bench.store.load("told")).toMatchObject({ status: "cancelled" });
  });

  test("[G2] is repaired by the sweeper if what it made owed could not be queued", async () => {
    const bench = makeBench();
    const pay = defineTool({
      name: "pay",
      description: "Pays.",
      parameters: z.object({ note: z.string().describe("what") }),
      effect: "irreversible",
      execute: () => "paid",
    });
    const model = scriptedModel([{ toolCalls: [{ name: "pay", arguments: { note: "a" } }] }, "done"]);
    const agents = [defineAgent({ name: "payer", instructions: "Pay.", model, tools: [pay] })];
    const worker = bench.process({ agents });
    await worker.client.start("payer", "go", { runId: "asked" });
    await bench.queue.drain(worker.runStep, { advanceTime: true });
    const producer = bench.process({ queue: { ...bench.queue, add: away } });
    await producer
      .handle("asked")
      .approve("call-1-1", { by: "ann" })
      .catch(() => {});
    expect(bench.queue.list()).toEqual([]);
    bench.clock.advance(6_000);
    expect(await sweep({ ...bench, logger: createSilentLogger() })).toBe(1);
    await bench.queue.drain(worker.runStep, { advanceTime: true });
    expect(await bench.store.load("asked")).toMatchObject({ status: "completed" });
  });
});

test("a run that a worker knows at last is not shown as waiting for one any more", async () => {
  const bench = makeBench();
  const called = Promise.withResolvers<void>();
  const model = scriptedModel([
    () => {
      called.resolve();
      return { text: "done", delayMs: 20 };
    },
  ]);
  const without = bench.process();
  await without.client.start("late", "go", { runId: "held" });
  await bench.queue.run(without.runStep);
  expect(await without.handle("held").status()).toMatchObject({
    status: "waiting",
    waitingFor: expect.stringContaining("No worker"),
  });
  const engine = bench.process({ agents: [defineAgent({ name: "late", instructions: "Answer.", model })] });
  bench.clock.advance(20_000);
  const stepping = bench.queue.run(engine.runStep);
  await called.promise;
  expect(await engine.handle("held").status()).toMatchObject({ status: "running", waitingFor: undefined });
  await stepping;
  expect(await bench.store.load("held")).toMatchObject({ status: "completed" });
});
