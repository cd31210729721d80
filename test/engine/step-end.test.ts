// Catches: a step whose job ends although the run owes it still, or owes something that nobody queued: the run would
// stand still until the sweeper comes.
import { describe, expect, test } from "vitest";
import { z } from "zod";
import { DroverError, RetryableError } from "../../src/core/errors.ts";
import { isSameStep } from "../../src/core/owed.ts";
import { defineAgent } from "../../src/define-agent.ts";
import type { Engine } from "../../src/engine/engine.ts";
import type { Delivery } from "../../src/ports.ts";
import { scriptedModel } from "../../src/testing/index.ts";
import { defineTool } from "../../src/tools/define-tool.ts";
import { eventually } from "../support/eventually.ts";
import { type Agent, abortable, makeBench, takeStep } from "./support.ts";

const parameters = z.object({ note: z.string().describe("what") });
const call = (name: string): { name: string; arguments: { note: string } } => ({ name, arguments: { note: "a" } });

/** An agent with one tool that may not run again. */
function makePoster(
  execute: (signal: AbortSignal) => string | Promise<string>,
  effect: "read" | "write" = "write",
): Agent {
  const post = defineTool({
    name: "post",
    description: "Posts a note.",
    parameters,
    effect,
    timeoutMs: 5_000,
    execute: (_args, { signal }) => execute(signal),
  });
  const model = scriptedModel([{ toolCalls: [call("post")] }, "done"]);
  return defineAgent({ name: "poster", instructions: "Post.", model, tools: [post] });
}

/** Delivers a step that is to run alone: it is begun twelve times, and given up then. */
async function expectTwelveStarts({ runStep }: Pick<Engine, "runStep">, delivery: Delivery): Promise<void> {
  const again = { ...delivery, lostWorkers: 3, deliveries: 4 };
  for (let times = 1; times <= 12; times += 1) expect((await runStep(again)).type).toBe("again");
  expect(await runStep(again)).toEqual({ type: "done" });
}

test("what is larger than Redis takes ends its run: an outcome of a call, and what waits to enter a session, whose others go on", async () => {
  const bench = makeBench();
  const large = new DroverError("too_large", "Redis refuses a write for its size");
  const commit: typeof bench.store.commit = async (change) => {
    if (change.run.runId.startsWith("large") && change.append.length > 0) throw large;
    return bench.store.commit(change);
  };
  const engine = bench.process({ agents: [makePoster(() => "posted")], store: { ...bench.store, commit } });
  for (const runId of ["first", "large-1", "last"])
    await engine.client.start("poster", "go", { runId, session: "talk" });
  await engine.client.start("poster", "go", { runId: "large-2" });
  await bench.queue.drain(engine.runStep, { advanceTime: true });
  const failed = { status: "failed", error: { code: "too_large", message: expect.stringContaining(large.message) } };
  expect(await bench.store.load("large-2")).toMatchObject(failed);
  expect(await bench.store.load("large-1")).toMatchObject({ ...failed, pendingInput: [{ content: "go" }] });
  expect(await bench.store.load("last")).toMatchObject({ status: "completed" });
  // Whose turn it is at once is told so by its start.
  expect(await engine.client.start("poster", "go", { runId: "large-3", session: "other" })).toMatchObject(failed);
});

describe("a step that runs alone in a child process", () => {
  test("[G2] [G8] goes back to its queue if its worker stops before the child has ended", async () => {
    const bench = makeBench();
    const stopped = Promise.withResolvers<{ died: false }>();
    const engine = bench.process({ agents: [makePoster(() => "posted")], isolate: () => stopped.promise });
    await engine.client.start("poster", "go", { runId: "alone" });
    const taken = takeStep(bench);
    const { delivery, abort } = abortable(taken.delivery, { lostWorkers: 3, deliveries: 4 });
    const outcome = engine.runStep(delivery);
    abort();
    stopped.resolve({ died: false });
    expect(await outcome).toMatchObject({ type: "again", delayMs: 0 });
  });

  test("[G2] is delivered again if the child ended without an outcome", async () => {
    const bench = makeBench();
    const engine = bench.process({ agents: [makePoster(() => "posted")], isolate: async () => ({ died: false }) });
    await engine.client.start("poster", "go", { runId: "alone" });
    const { delivery } = takeStep(bench);
    expect(await engine.runStep({ ...delivery, lostWorkers: 3, deliveries: 4 })).toMatchObject({ type: "again" });
  });

  test("[G2] ends once the child's outcome is committed, with what follows queued", async () => {
    const bench = makeBench();
    const agents = [makePoster(() => "posted")];
    const child = bench.process({ agents });
    const engine = bench.process({
      agents,
      isolate: async (delivery) => {
        await child.runStep(delivery);
        return { died: false };
      },
    });
    await engine.client.start("poster", "go", { runId: "alone" });
    const taken = takeStep(bench);
    taken.end(await engine.runStep({ ...taken.delivery, lostWorkers: 3, deliveries: 4 }));
    expect(bench.queue.list()).toMatchObject([{ step: { kind: "tool" } }]);
  });

  test("[G8] waits while another step runs alone in the same process", async () => {
    const bench = makeBench();
    const ends = Promise.withResolvers<{ died: false }>();
    const begun: string[] = [];
    const isolate = ({ step }: Delivery): Promise<{ died: false }> => {
      begun.push(step.runId);
      return ends.promise;
    };
    const engine = bench.process({ agents: [makePoster(() => "posted")], isolate });
    await engine.client.start("poster", "go", { runId: "first" });
    await engine.client.start("poster", "go", { runId: "second" });
    const lost = (): Delivery => ({ ...takeStep(bench).delivery, lostWorkers: 3, deliveries: 40 });
    const first = engine.runStep(lost());
    const second = lost();
    await eventually(() => begun.length > 0 || undefined);
    // For seconds, though it was delivered often: what runs alone takes no longer.
    expect(await engine.runStep(second)).toMatchObject({ type: "again", delayMs: 2_000 });
    expect(begun).toEqual(["first"]);
    ends.resolve({ died: false });
    await first;
    await engine.runStep(second);
    expect(begun).toEqual(["first", "second"]);
  });

  test("[G8] ends with its run when the time of that is over, though its child hears of nothing", async () => {
    const bench = makeBench();
    const given: number[] = [];
    const engine = bench.process({
      agents: [makePoster(() => "posted")],
      async isolate(_delivery, { unwanted, silentMs }) {
        given.push(silentMs);
        await new Promise((resolve) => unwanted.addEventListener("abort", resolve));
        bench.clock.advance(50);
        return { died: false };
      },
    });
    await engine.client.start("poster", "go", { runId: "alone", limits: { deadlineMs: 50 } });
    const model = takeStep(bench);
    model.end(await engine.runStep(model.delivery));
    const { delivery } = takeStep(bench);
    expect(await engine.runStep({ ...delivery, lostWorkers: 3, deliveries: 4 })).toEqual({ type: "done" });
    expect(await bench.store.load("alone")).toMatchObject({ status: "failed", stopReason: "deadline" });
    // A tool has its own time beside what any step has.
    expect(given).toEqual([65_000]);
  });

  test("[G8] is poison once its program never came to it twelve times", async () => {
    const bench = makeBench();
    const isolate = async (): Promise<{ died: false; neverBegan: true }> => ({ died: false, neverBegan: true });
    const engine = bench.process({ agents: [makePoster(() => "posted")], isolate });
    await engine.client.start("poster", "go", { runId: "alone" });
    const { delivery } = takeStep(bench);
    await expectTwelveStarts(engine, delivery);
    expect(await bench.store.load("alone")).toMatchObject({ status: "failed", stopReason: "poison" });
  });

  test("[G8] is poison once it was begun twelve times and nobody heard of it again; each is counted before it calls", async () => {
    const bench = makeBench();
    const counts: unknown[] = [];
    const never = Promise.withResolvers<string>();
    const agents = [
      makePoster(async () => {
        counts.push((await bench.store.load("alone"))?.calls[0]?.isolatedStarts);
        begun.resolve();
        return never.promise;
      }, "read"),
    ];
    let begun = Promise.withResolvers<void>();
    const child = bench.process({ agents, isAlone: true });
    const engine = bench.process({
      agents,
      async isolate(delivery) {
        begun = Promise.withResolvers();
        void child.runStep(delivery); // killed in the midst of it, with its worker
        await begun.promise;
        return { died: false };
      },
    });
    await engine.client.start("poster", "go", { runId: "alone" });
    const model = takeStep(bench);
    model.end(await engine.runStep(model.delivery));
    const { delivery } = takeStep(bench);
    await expectTwelveStarts(engine, delivery);
    expect(await bench.store.load("alone")).toMatchObject({ status: "failed", stopReason: "poison" });
    expect(counts).toEqual([1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]);
  });

  test("[G8] is not to blame for workers that die while its program starts", async () => {
    const bench = makeBench();
    const engine = bench.process({ agents: [makePoster(() => "posted")], isolate: async () => ({ died: false }) });
    await engine.client.start("poster", "go", { runId: "alone" });
    const { delivery } = takeStep(bench);
    const again = { ...delivery, lostWorkers: 3, deliveries: 4 };
    for (let times = 1; times <= 30; times += 1) expect((await engine.runStep(again)).type).toBe("again");
    expect((await bench.store.load("alone"))?.model?.isolatedStarts).toBeUndefined();
  });

  test("[G8] counts as often, and has as much time, if it is the agent's own check", async () => {
    const bench = makeBench();
    const given: number[] = [];
    const checker = defineAgent({
      ...{ name: "checker", instructions: "", model: scriptedModel(["done"]), tools: [] },
      ...{ verify: () => true, verifyTimeoutMs: 600_000 },
    });
    const engine = bench.process({
      agents: [checker],
      async isolate(_delivery, { silentMs }) {
        given.push(silentMs);
        return { died: false, neverBegan: true };
      },
    });
    await engine.client.start("checker", "go", { runId: "alone" });
    const model = takeStep(bench);
    model.end(await engine.runStep(model.delivery));
    const { delivery } = takeStep(bench);
    await expectTwelveStarts(engine, delivery);
    const error = { message: expect.stringContaining("The agent's check was stopped") };
    expect(await bench.store.load("alone")).toMatchObject({ status: "failed", stopReason: "poison", error });
    expect(new Set(given)).toEqual(new Set([660_000]));
  });
});

test.each([
  [2, false, undefined],
  [3, true, undefined],
  [3, false, 4],
  [1, true, 1],
])(
  "[G8] a step that lost %i workers runs alone: %s, where it is to after %s",
  async (lostWorkers, isAlone, isolateAfter) => {
    const bench = makeBench();
    let alone = false;
    const engine = bench.process({
      agents: [makePoster(() => "posted")],
      isolate: async () => {
        alone = true;
        return { died: true, how: "SIGKILL" };
      },
      isolateAfter,
    });
    await engine.client.start("poster", "go", { runId: "alone" });
    const { delivery } = takeStep(bench);
    expect(await engine.runStep({ ...delivery, lostWorkers, deliveries: lostWorkers + 1 })).toEqual({ type: "done" });
    expect(alone).toBe(isAlone);
    const poison = { status: "failed", stopReason: "poison", error: { message: expect.stringContaining("SIGKILL") } };
    expect(await bench.store.load("alone")).toMatchObject(isAlone ? poison : { turns: 1, calls: [{ state: "ready" }] });
  },
);

test("[G2] a step aborted because it is not owed any more queues what is", async () => {
  const bench = makeBench();
  const called = Promise.withResolvers<void>();
  const model = scriptedModel([
    ({ attempt }) => {
      called.resolve();
      return { text: "done", delayMs: attempt === 1 ? 60_000 : 0 };
    },
  ]);
  const agent = defineAgent({ name: "slow", instructions: "Wait.", model });
  const engine = bench.process({ agents: [agent] });
  await engine.client.start("slow", "go", { runId: "taken" });
  const { delivery } = takeStep(bench);
  const outcome = engine.runStep(delivery);
  await called.promise;
  // Another process, which holds the step too, commits a failed attempt and dies before the next one is queued.
  const dead = bench.process({
    queue: { ...bench.queue, add: async () => Promise.reject(new Error("dead")) },
    agents: [
      defineAgent({
        name: "slow",
        instructions: "Fail.",
        model: scriptedModel([{ fail: { class: "transient", code: "busy", message: "busy" } }]),
      }),
    ],
  });
  await dead.runStep({ ...delivery, deliveries: 2 });
  expect(bench.queue.list().filter(({ state }) => state !== "active")).toEqual([]);
  await bench.signals.announce("taken");
  expect((await outcome).type).toBe("done");
  const run = await bench.store.load("taken");
  const queued = bench.queue.list().filter(({ state }) => state !== "active");
  expect(queued.length).toBe(1);
  expect(isSameStep(queued[0]?.step ?? delivery.step, { owedAt: run?.model?.owedAt ?? -1, index: 0 })).toBe(true);
});

describe("a call that may not run again", () => {
  test("[G4] is given up only after the whole of its tool's time, from its start", async () => {
    const bench = makeBench();
    const never = Promise.withResolvers<string>();
    const started = Promise.withResolvers<void>();
    const agents = [
      makePoster(() => {
        started.resolve();
        return never.promise;
      }),
    ];
    const engine = bench.process({ agents });
    await engine.client.start("poster", "go", { runId: "lost" });
    await bench.queue.run(engine.runStep);
    const { delivery } = takeStep(bench);
    const startedAt = bench.clock.now();
    const held = engine.runStep(delivery);
    await started.promise;
    bench.clock.advance(3_000);
    bench.queue.redeliver(delivery.step);
    await bench.queue.run(bench.process({ agents }).runStep);
    const [wake] = bench.queue.list().filter(({ step }) => step.kind === "wake");
    expect(wake?.dueAt).toBeGreaterThan(startedAt + 5_000);
    never.resolve("posted");
    await held;
    expect((await bench.store.readMessages("lost", 2, 3))[0]).toMatchObject({ content: "posted", outcome: "ok" });
  });

  test("[G2] [G4] that another delivery starts first is delivered again, and then found lost", async () => {
    const bench = makeBench();
    const executed: string[] = [];
    const started = Promise.withResolvers<void>();
    const agents = [
      makePoster(async (signal) => {
        executed.push("post");
        started.resolve();
        await new Promise((resolve) => signal.addEventListener("abort", resolve));
        throw signal.reason;
      }),
    ];
    const zombie = bench.process({ agents });
    await zombie.client.start("poster", "go", { runId: "twice" });
    await bench.queue.run(zombie.runStep);
    const taken = takeStep(bench);
    const { delivery, abort } = abortable(taken.delivery, { deliveries: 2 });
    // The second process has loaded the run just before the first one commits its start.
    const loaded = await bench.store.loadWithLastMessage("twice");
    const first = zombie.runStep(delivery);
    await started.promise;
    const second = bench.process({ agents, store: { ...bench.store, loadWithLastMessage: async () => loaded } });
    const outcome = await second.runStep({ ...taken.delivery, deliveries: 3, lostWorkers: 1 });
    expect(outcome.type).toBe("again");
    abort();
    await first;
    const third = bench.process({ agents });
    await third.runStep({ ...taken.delivery, deliveries: 4, lostWorkers: 1 });
    expect((await bench.store.load("twice"))?.calls).toMatchObject([{ state: "lost" }]);
    expect(executed).toEqual(["post"]);
  });

  test("[G4] is owed anew at once if its tool says, when it is stopped, that nothing happened", async () => {
    const bench = makeBench();
    let executions = 0;
    const started = Promise.withResolvers<void>();
    const agents = [
      makePoster(async (signal) => {
        executions += 1;
        if (executions > 1) return "posted";
        started.resolve();
        await new Promise((resolve) => signal.addEventListener("abort", resolve));
        throw new RetryableError("not sent yet");
      }),
    ];
    const engine = bench.process({ agents });
    await engine.client.start("poster", "go", { runId: "stopped" });
    await bench.queue.run(engine.runStep);
    const taken = takeStep(bench);
    const { delivery, abort } = abortable(taken.delivery);
    const outcome = engine.runStep(delivery);
    await started.promise;
    abort();
    taken.end(await outcome);
    await bench.queue.drain(engine.runStep, { advanceTime: true, maxDeliveries: 20 });
    expect(await bench.store.load("stopped")).toMatchObject({ status: "completed" });
    expect((await bench.store.readMessages("stopped", 2, 3))[0]).toMatchObject({ content: "posted", outcome: "ok" });
  });
});
