// Catches: a command whose answer tells something else than what was committed.
import { describe, expect, test } from "vitest";
import { z } from "zod";
import { type InputMessage, toInputMessages } from "../../src/core/message.ts";
import { defineAgent } from "../../src/define-agent.ts";
import type { RunHandle } from "../../src/engine/run-handle.ts";
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

describe("an input that is sent again under its name", () => {
  test("is taken once, also after the run has ended", async () => {
    const bench = makeBench();
    const agents = [defineAgent({ name: "a", instructions: "", model: scriptedModel(["hello", "done"]) })];
    const engine = bench.process({ agents });
    await engine.client.start("a", "go", { runId: "named" });
    const handle = engine.handle("named");
    await handle.send("more", { by: "ann", inputId: "i1" });
    await handle.send("more", { by: "ann", inputId: "i1" });
    await bench.process().handle("named").send("more", { by: "ann", inputId: "i1" });
    await bench.queue.drain(engine.runStep, { advanceTime: true });
    expect(await handle.status()).toMatchObject({ status: "completed" });
    await handle.send("more", { by: "ann", inputId: "i1" });
    await expect(handle.send("more", { by: "ann", inputId: "i2" })).rejects.toMatchObject({ code: "not_allowed" });
    await expect(handle.send("more", { by: "ann" })).rejects.toMatchObject({ code: "not_allowed" });
    const said = (await handle.transcript()).filter(({ role }) => role === "user");
    expect(said).toEqual([
      { role: "user", content: "go" },
      { role: "user", content: "more" },
    ]);
    expect((await handle.audit()).filter(({ action }) => action === "sent_input")).toHaveLength(1);
  });
});

describe("a command that does not fit", () => {
  const wrong: [string, (handle: RunHandle) => Promise<unknown>][] = [
    ["input that is no message", (handle) => handle.send({ role: "tool", content: "x" } as never)],
    ["input without content", (handle) => handle.send({ role: "user", content: 5 } as never)],
    ["empty input", (handle) => handle.send("")],
    ["an input without a name", (handle) => handle.send("x", { inputId: "" })],
    ["an input with an endless name", (handle) => handle.send("x", { inputId: "i".repeat(201) })],
    ["an answer by nobody", (handle) => handle.answer("call-1-1", "x", { by: "" })],
    ["a limit that is no number", (handle) => handle.retry({ limits: { maxTurns: Number.NaN } })],
    ["a limit of another kind", (handle) => handle.retry({ limits: { maxTurns: "5" } as never })],
    ["a reason that is no text", (handle) => handle.cancel({ reason: 5 } as never)],
    ["a person without a name", (handle) => handle.approve("call-1-1", { by: {} } as never)],
    ["a denial by nobody", (handle) => handle.deny("call-1-1", { by: null, reason: "no" } as never)],
  ];

  test.each(wrong)("is refused and leaves the record as it is: %s", async (_what, give) => {
    const bench = makeBench();
    const engine = bench.process();
    await engine.client.start("nobody", "go", { runId: "sound" });
    const before = await bench.store.load("sound");
    await expect(give(engine.handle("sound"))).rejects.toMatchObject({ code: "invalid" });
    expect(await bench.store.load("sound")).toEqual(before);
  });

  test("is refused if its input is too large", async () => {
    const bench = makeBench();
    const engine = bench.process();
    await engine.client.start("nobody", "go", { runId: "sound" });
    const large = "x".repeat(1_048_577);
    await expect(engine.handle("sound").send(large)).rejects.toMatchObject({ code: "too_large" });
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

test("a history enters the run that its session is busy with, as it would begin one", async () => {
  const bench = makeBench();
  const engine = bench.process();
  await engine.client.start("a", "go", { runId: "busy", session: "s" });
  const input: InputMessage[] = [
    { role: "assistant", content: "", toolCalls: [{ id: "x1", name: "look", arguments: "{}" }] },
    { role: "tool", toolCallId: "x1", content: "seen" },
    { role: "user", content: "and now?" },
  ];
  const taken = await engine.client.start("a", input, { runId: "more", session: "s", whenBusy: "inject" });
  expect(taken.runId).toBe("busy");
  expect(taken.pendingInput.slice(-3)).toEqual(toInputMessages(input));
});
