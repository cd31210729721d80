import { describe, expect, test } from "vitest";
import { RetryableError } from "../../src/core/errors.ts";
import type { Run } from "../../src/core/run.ts";
import { type Agent, defineAgent } from "../../src/define-agent.ts";
import type { Engine } from "../../src/engine/engine.ts";
import type { ModelSpec } from "../../src/ports.ts";
import { scriptedModel } from "../../src/testing/index.ts";
import { defineTool, type Tool, type ToolOptions } from "../../src/tools/define-tool.ts";
import { type Bench, makeBench, takeStep } from "./support.ts";

const parameters = { type: "object", properties: {} };

function makeTool(options: Partial<ToolOptions<typeof parameters>> = {}): Tool {
  return defineTool({
    name: "t",
    description: "A tool.",
    parameters,
    effect: "read",
    execute: () => "fine",
    ...options,
  });
}

function makeAgent(
  tools: Tool[],
  more: { model?: ModelSpec; rounds?: number; deadlineMs?: number } = {},
): Agent<string> {
  const { rounds = 1, deadlineMs } = more;
  const call = { toolCalls: [{ name: tools[0]?.name ?? "" }] };
  return defineAgent({
    name: "a",
    instructions: "",
    model: more.model ?? scriptedModel([...Array.from({ length: rounds }, () => call), "Done."]),
    tools,
    limits: { repeats: 1_000, ...(deadlineMs === undefined ? {} : { deadlineMs }) },
  });
}

const start = (engine: Engine, ...runIds: string[]): Promise<Run[]> =>
  Promise.all(runIds.map((runId) => engine.client.start("a", "go", { runId })));

async function need(bench: Bench, runId: string): Promise<Run> {
  const run = await bench.store.load(runId);
  if (!run) throw new Error("no such run");
  return run;
}
const feedOf = async (bench: Bench, runId: string, type: string) =>
  (await bench.store.readFeed(runId, 0, 1_000)).filter((entry) => entry.type === type);
const drain = (bench: Bench, engine: Engine) => bench.queue.drain(engine.runStep, { advanceTime: true });
/** Runs what is due now. */
const settle = (bench: Bench, engine: Engine) => bench.queue.drain(engine.runStep, { advanceTime: false });

async function lastResult(bench: Bench, runId: string): Promise<string> {
  const { messageCount } = await need(bench, runId);
  const messages = await bench.store.readMessages(runId, 0, messageCount);
  return String(messages.findLast(({ role }) => role === "tool")?.content);
}

describe("a rate", () => {
  test("parks the calls that must wait, each until its turn, and says why; none is lost and no attempt is used up", async () => {
    const bench = makeBench();
    const at: number[] = [];
    const tool = makeTool({ rate: { max: 10, perMs: 1_000 }, execute: () => at.push(bench.clock.now()) });
    const engine = bench.process({ agents: [makeAgent([tool])] });
    const ids = Array.from({ length: 30 }, (_, index) => `run-${index}`);
    await start(engine, ...ids);
    await settle(bench, engine);
    expect(at).toHaveLength(1);
    const waiting = await need(bench, "run-9");
    expect(waiting).toMatchObject({
      status: "waiting",
      calls: [{ state: "ready", attempt: 1, hold: { reason: "rate_limit", count: 1, gate: "tool:t" } }],
    });
    expect(waiting.calls[0]).toHaveProperty(
      "hold.detail",
      expect.stringContaining('"t" is limited to 10 calls in 1 s'),
    );
    await drain(bench, engine);
    expect(at).toHaveLength(30);
    for (const [index, time] of at.entries()) expect((at[index + 10] ?? Infinity) - time).toBeGreaterThanOrEqual(999);
    expect((at.at(-1) ?? 0) - (at[0] ?? 0)).toBeLessThan(29 * 104);
    for (const runId of ids) {
      expect(await need(bench, runId)).toMatchObject({ status: "completed" });
      expect((await feedOf(bench, runId, "step_held")).length).toBeLessThanOrEqual(1);
    }
  });

  test("a call that may not run again is parked before it starts, and starts once", async () => {
    const bench = makeBench();
    let count = 0;
    const tool = makeTool({ effect: "write", rate: { max: 1, perMs: 1_000 }, execute: () => ++count });
    const engine = bench.process({ agents: [makeAgent([tool])] });
    await start(engine, "run-1", "run-2");
    await drain(bench, engine);
    expect(count).toBe(2);
    expect(await need(bench, "run-2")).toMatchObject({ status: "completed" });
  });

  test("the limits of operators hold where they are stricter", async () => {
    const bench = makeBench();
    const at: number[] = [];
    const tool = makeTool({ rate: { max: 10, perMs: 1_000 }, execute: () => at.push(bench.clock.now()) });
    const limits = { tools: { t: { rate: { max: 1, perMs: 1_000 } } } };
    const engine = bench.process({ agents: [makeAgent([tool])], limits });
    await start(engine, "run-1", "run-2");
    await drain(bench, engine);
    expect((at[1] ?? 0) - (at[0] ?? 0)).toBeGreaterThanOrEqual(1_000);
  });

  test("of a model holds over all runs, and the first turn of each comes in order", async () => {
    const bench = makeBench();
    const model = scriptedModel(["Done."], { limits: { rate: { max: 1, perMs: 1_000 } } });
    const engine = bench.process({ agents: [makeAgent([makeTool()], { model })] });
    await start(engine, "run-1", "run-2", "run-3");
    await drain(bench, engine);
    expect(model.requests.map(({ runId }) => runId)).toEqual(["run-1", "run-2", "run-3"]);
    const ended = await Promise.all(["run-1", "run-3"].map(async (id) => (await need(bench, id)).endedAt ?? 0));
    expect((ended[1] ?? 0) - (ended[0] ?? 0)).toBeGreaterThanOrEqual(2_000);
  });

  test("the deadline ends a run while it is parked", async () => {
    const bench = makeBench();
    const tool = makeTool({ rate: { max: 1, perMs: 3_600_000 } });
    const engine = bench.process({ agents: [makeAgent([tool], { deadlineMs: 5_000 })] });
    const begun = bench.clock.now();
    await start(engine, "run-1", "run-2");
    await drain(bench, engine);
    expect(await need(bench, "run-2")).toMatchObject({ status: "failed", stopReason: "deadline" });
    expect(bench.clock.now() - begun).toBe(5_000);
  });

  test("cancelling a parked run gives its place to those behind it", async () => {
    const bench = makeBench();
    const at: number[] = [];
    const tool = makeTool({ rate: { max: 1, perMs: 1_000 }, execute: () => at.push(bench.clock.now()) });
    const engine = bench.process({ agents: [makeAgent([tool])] });
    await start(engine, "run-1", "run-2", "run-3");
    await settle(bench, engine);
    for (const runId of ["run-2", "run-3"]) await engine.handle(runId).cancel({ by: "ann", reason: "r" });
    await start(engine, "run-4");
    await drain(bench, engine);
    expect((at[1] ?? 0) - (at[0] ?? 0)).toBeLessThan(1_100);
  });
});

describe("a concurrency", () => {
  /** A tool that waits until it is let go. */
  function makeSlow(): { tool: Tool; open: (() => void)[]; most: () => number } {
    const open: (() => void)[] = [];
    let [now, most] = [0, 0];
    const tool = makeTool({
      concurrency: 2,
      execute: () => {
        now += 1;
        most = Math.max(most, now);
        return new Promise((resolve) => {
          open.push(() => {
            now -= 1;
            resolve("let go");
          });
        });
      },
    });
    return { tool, open, most: () => most };
  }

  /** Executes steps as they fall due, side by side, until `enough`; time stands still. */
  async function pump(bench: Bench, engine: Engine, enough: () => boolean): Promise<void> {
    while (!enough()) {
      const taken = bench.queue.take();
      if (taken) void engine.runStep(taken.delivery).then(taken.end);
      else await new Promise(setImmediate);
    }
  }
  const isIdle = (bench: Bench) => () => bench.queue.list().length === 0;
  const held = (bench: Bench, count: number) => () =>
    bench.queue.list().filter(({ state }) => state === "delayed").length === count;

  test("lets so many in; who leaves wakes the next at once, in the order they came", async () => {
    const bench = makeBench();
    const { tool, open, most } = makeSlow();
    const engine = bench.process({ agents: [makeAgent([tool])] });
    const ids = ["run-1", "run-2", "run-3", "run-4", "run-5"];
    const begun = bench.clock.now();
    for (const [index, runId] of ids.entries()) {
      await start(engine, runId);
      await pump(bench, engine, index < 2 ? () => open.length > index : held(bench, index - 1));
    }
    for (let index = 0; index < ids.length; index += 1) {
      expect(open.length).toBe(Math.min(index + 2, ids.length));
      open[index]?.();
      await pump(bench, engine, index + 3 > ids.length ? held(bench, 0) : () => open.length === index + 3);
    }
    await pump(bench, engine, isIdle(bench));
    expect(most()).toBe(2);
    expect(bench.clock.now()).toBe(begun); // nobody had to look by itself
    for (const runId of ids) {
      expect(await need(bench, runId)).toMatchObject({ status: "completed" });
      expect((await feedOf(bench, runId, "step_held")).length).toBeLessThanOrEqual(1);
    }
  });

  /** "run-1" inside, alone, and "run-2" in line behind it. */
  async function makeLine(): Promise<{ bench: Bench; engine: Engine; open: (() => void)[] }> {
    const bench = makeBench();
    const { tool, open } = makeSlow();
    const engine = bench.process({ agents: [makeAgent([tool])], limits: { tools: { t: { concurrency: 1 } } } });
    await start(engine, "run-1");
    await pump(bench, engine, () => open.length === 1);
    await start(engine, "run-2");
    await pump(bench, engine, held(bench, 1));
    return { bench, engine, open };
  }

  test("a run that was cancelled in line is passed over", async () => {
    const { bench, engine, open } = await makeLine();
    await start(engine, "run-3");
    await pump(bench, engine, held(bench, 2));
    expect((await need(bench, "run-3")).calls[0]).toMatchObject({ hold: { reason: "concurrency_limit" } });
    await engine.handle("run-2").cancel({ by: "ann", reason: "r" });
    open[0]?.();
    await pump(bench, engine, () => open.length === 2);
    open[1]?.();
    await pump(bench, engine, isIdle(bench));
    for (const runId of ["run-1", "run-3"]) expect(await need(bench, runId)).toMatchObject({ status: "completed" });
  });

  test("the worker that was to come in dies on its way: its step is redelivered to the place kept for it", async () => {
    const { bench, engine, open } = await makeLine();
    open[0]?.();
    await pump(bench, engine, () =>
      bench.queue.list().every(({ step }) => step.runId === "run-2" || step.kind === "model"),
    );
    const woken = bench.queue.list().find(({ step }) => step.runId === "run-2");
    let taken = takeStep(bench);
    while (taken.delivery.step.runId !== "run-2") {
      taken.end(await engine.runStep(taken.delivery));
      taken = takeStep(bench);
    }
    if (woken) bench.queue.redeliver(taken.delivery.step);
    await pump(bench, engine, () => open.length === 2);
    open[1]?.();
    await pump(bench, engine, isIdle(bench));
    expect(await need(bench, "run-2")).toMatchObject({ status: "completed" });
  });

  test("a place is given back whatever became of the step", async () => {
    const bench = makeBench();
    let count = 0;
    const tool = makeTool({
      concurrency: 1,
      retry: { attempts: 3, delayMs: 10 },
      execute: () => {
        count += 1;
        if (count === 1) throw new RetryableError("later");
        if (count === 2) throw new Error("broken");
        return "fine";
      },
    });
    const engine = bench.process({ agents: [makeAgent([tool])] });
    await start(engine, "run-1", "run-2");
    await drain(bench, engine);
    for (const runId of ["run-1", "run-2"]) expect(await need(bench, runId)).toMatchObject({ status: "completed" });
    expect(count).toBe(3);
  });
});

describe("a circuit breaker", () => {
  const breaker = { failures: 2, openMs: 10_000 };
  const broken = (): never => {
    throw new Error("down");
  };

  test("switches a tool off for all processes; the model is told until when and what to use; no attempt is charged", async () => {
    const bench = makeBench();
    let count = 0;
    const tool = makeTool({
      breaker,
      fallback: "u",
      execute: () => {
        count += 1;
        return broken();
      },
    });
    const agents = [makeAgent([tool, makeTool({ name: "u" })])];
    const [engine, other] = [bench.process({ agents }), bench.process({ agents })];
    await start(engine, "run-1");
    await settle(bench, engine);
    await start(other, "run-2"); // from here on both processes know of it
    await settle(bench, other);
    expect(count).toBe(2);
    bench.clock.advance(501);
    await start(other, "run-3");
    await settle(bench, other);
    expect(count).toBe(2);
    expect(await need(bench, "run-3")).toMatchObject({ status: "completed" });
    const told = await lastResult(bench, "run-3");
    expect(told).toMatch(
      /^"t" is switched off until 20\d\d-[^ ]+Z \(for \d+ s\), because it failed 2 times in a row\./,
    );
    expect(told).toContain('This call was not executed. Use "u" instead.');
    expect(await feedOf(bench, "run-3", "tool_failed")).toEqual([]);
  });

  test("after its time one call tries: its success switches the tool on again, its failure off for twice as long", async () => {
    const bench = makeBench();
    let [works, count] = [false, 0];
    const tool = makeTool({
      breaker,
      execute: () => {
        count += 1;
        return works ? "fine" : broken();
      },
    });
    const engine = bench.process({ agents: [makeAgent([tool])] });
    await start(engine, "run-1", "run-2");
    await settle(bench, engine);
    bench.clock.advance(10_000);
    await start(engine, "run-3");
    await settle(bench, engine);
    expect(count).toBe(3);
    bench.clock.advance(19_000);
    await start(engine, "run-4");
    await settle(bench, engine);
    expect(count).toBe(3);
    expect(await lastResult(bench, "run-4")).toContain("(for 1 s), because it failed 3 times");
    works = true;
    bench.clock.advance(1_000);
    await start(engine, "run-5", "run-6");
    await settle(bench, engine);
    expect(await lastResult(bench, "run-6")).toBe("fine");
    expect(await bench.gates.states(["tool:t"])).toEqual([{}]);
  });

  test("what counts: unmarked errors, retryable ones, unknown outcomes; not what the tool calls permanent, nor bad calls", async () => {
    const { PermanentError } = await import("../../src/core/errors.ts");
    const failuresOf = async (options: Partial<ToolOptions<typeof parameters>>): Promise<number> => {
      const bench = makeBench();
      const engine = bench.process({ agents: [makeAgent([makeTool(options)])] });
      await start(engine, "run-1");
      await drain(bench, engine);
      return (await bench.gates.states(["tool:t"]))[0]?.breaker?.failures ?? 0;
    };
    expect(await failuresOf({ execute: broken })).toBe(1);
    expect(await failuresOf({ execute: broken, effect: "write" })).toBe(1);
    const retryable = (): never => {
      throw new RetryableError("busy");
    };
    expect(await failuresOf({ execute: retryable, retry: { attempts: 3, delayMs: 1 } })).toBe(3);
    const permanent = (): never => {
      throw new PermanentError("no");
    };
    expect(await failuresOf({ execute: permanent })).toBe(0);
    expect(await failuresOf({ execute: broken, breaker: false })).toBe(0);
    expect(await failuresOf({ execute: () => new Promise(() => {}), timeoutMs: 5 })).toBe(1);
  });
});

describe("a provider's Retry-After", () => {
  test("parks every run of that model, costs them no attempt, and all complete", async () => {
    const bench = makeBench();
    let refused = 0;
    const model = scriptedModel([
      ({ attempt, runId }) => {
        if (runId !== "run-1" || attempt > 1) return "Done.";
        refused += 1;
        const fail = { class: "transient" as const, code: "rate_limited", message: "429", retryAfterMs: 30_000 };
        return { fail };
      },
    ]);
    const engine = bench.process({ agents: [makeAgent([makeTool()], { model })] });
    await start(engine, "run-1");
    await settle(bench, engine);
    await start(engine, "run-2", "run-3");
    await settle(bench, engine);
    expect(await need(bench, "run-3")).toMatchObject({
      status: "waiting",
      model: {
        attempt: 1,
        hold: { reason: "provider_paused", detail: expect.stringContaining('the model "scripted"') },
      },
    });
    const paused = bench.clock.now();
    await drain(bench, engine);
    expect(bench.clock.now() - paused).toBeGreaterThanOrEqual(30_000);
    expect(refused).toBe(1);
    for (const runId of ["run-1", "run-2", "run-3"]) {
      expect(await need(bench, runId)).toMatchObject({ status: "completed" });
    }
    expect(model.requests.map(({ runId, attempt }) => `${runId} ${attempt}`).sort()).toEqual([
      "run-1 1",
      "run-1 2",
      "run-2 1",
      "run-3 1",
    ]);
  });
});

test("a provider that refuses for ever is asked ever more rarely, and ends even a run without a deadline", async () => {
  const bench = makeBench();
  const at: number[] = [];
  const model = scriptedModel([
    () => {
      at.push(bench.clock.now());
      return { fail: { class: "transient", code: "rate_limited", message: "429", retryAfterMs: 1 } };
    },
  ]);
  const engine = bench.process({ agents: [makeAgent([makeTool()], { model })] });
  await start(engine, "run-1");
  await drain(bench, engine);
  expect(await need(bench, "run-1")).toMatchObject({
    status: "failed",
    stopReason: "model_error",
    error: { code: "rate_limited" },
  });
  const waitsMs = at.slice(1).map((time, index) => time - (at[index] ?? 0));
  expect(Math.max(...waitsMs.slice(0, 9))).toBeLessThanOrEqual(2_000);
  expect(Math.min(...waitsMs.slice(20, 900))).toBeGreaterThanOrEqual(29_000);
  expect(at.length).toBeGreaterThan(1_000);
  expect(at.length).toBeLessThan(1_020);
});

test("what nothing limits asks the fleet nothing more than its state, twice a second at most", async () => {
  const bench = makeBench();
  const asked: string[] = [];
  const gates = new Proxy(bench.gates, {
    get: (target, name, receiver) => {
      asked.push(String(name));
      return Reflect.get(target, name, receiver);
    },
  });
  const engine = bench.process({ agents: [makeAgent([makeTool()], { rounds: 14 })], gates });
  await start(engine, "run-1");
  await drain(bench, engine);
  expect(await need(bench, "run-1")).toMatchObject({ status: "completed", turns: 15 });
  expect(asked).toEqual(["states", "states"]); // once for the model, once more for the tool
});
