import { once } from "node:events";
import { describe, expect, test } from "vitest";
import { PermanentError, RetryableError } from "../../src/core/errors.ts";
import type { ToolOutcome, ToolRequest } from "../../src/ports.ts";
import { defineTool, type Tool, type ToolContext } from "../../src/tools/define-tool.ts";
import { runTool } from "../../src/tools/run-tool.ts";
import { makeRequest } from "./request.ts";

type Kind = { effect?: "read" | "write" | "irreversible"; idempotent?: boolean; timeoutMs?: number };

function makeTool(execute: (context: ToolContext) => unknown, kind: Kind = {}): Tool {
  const parameters = { type: "object" };
  return defineTool({
    name: "t",
    description: "d",
    parameters,
    execute: (_args, context) => execute(context),
    ...kind,
  });
}

function run(tool: Tool, fields: Partial<ToolRequest> = {}): Promise<ToolOutcome> {
  return runTool(tool, {}, makeRequest("t", "{}", fields));
}

const throwing = (thrown: unknown) => (): never => {
  throw thrown;
};
const never = (): Promise<never> => new Promise(() => undefined);
const untilAborted = async ({ signal }: ToolContext): Promise<never> => {
  await once(signal, "abort");
  throw signal.reason;
};

test("a tool gets its context", async () => {
  const { promise, resolve } = Promise.withResolvers<ToolContext>();
  const metadata = { user: "u1" };
  await run(
    makeTool((context) => resolve(context)),
    { metadata, session: "s1", attempt: 2 },
  );
  expect(await promise).toMatchObject({
    runId: "run-a",
    callId: "call-2-1",
    turn: 2,
    attempt: 2,
    idempotencyKey: "run-a-call-2-1",
    session: "s1",
    metadata,
  });
});

describe("what a tool throws", () => {
  const kinds: [string, Kind, boolean][] = [
    ["a read", { effect: "read" }, true],
    ["a write", { effect: "write" }, false],
    ["an idempotent write", { effect: "write", idempotent: true }, true],
    ["an irreversible one", { effect: "irreversible" }, false],
  ];

  test.each(kinds)("%s: a retryable error is tried again, with its delay", async (_name, kind) => {
    const error = new RetryableError("busy", { delayMs: 1_500 });
    expect(await run(makeTool(throwing(error), kind))).toEqual({ type: "retry", message: "busy", delayMs: 1_500 });
    expect(await run(makeTool(throwing(new RetryableError("busy")), kind))).toEqual({ type: "retry", message: "busy" });
  });

  test.each(kinds)("%s: a permanent error is told to the model", async (_name, kind) => {
    const outcome = await run(makeTool(throwing(new PermanentError("no such city")), kind));
    expect(outcome).toMatchObject({ type: "failed", code: "threw", message: expect.stringContaining("no such city") });
  });

  test.each(kinds)("%s: an unmarked error", async (_name, kind, repeatable) => {
    for (const thrown of [new Error("boom"), "boom"]) {
      expect(await run(makeTool(throwing(thrown), kind))).toMatchObject({
        type: repeatable ? "failed" : "unknown",
        code: "threw",
        message: expect.stringContaining("boom"),
      });
      expect(await run(makeTool(() => Promise.reject(thrown), kind))).toMatchObject({
        type: repeatable ? "failed" : "unknown",
      });
    }
  });

  test.each([Number.NaN, -1, Number.POSITIVE_INFINITY, "soon"])("a delay of %s is no delay", async (delayMs) => {
    const error = new RetryableError("busy", { delayMs: delayMs as number });
    expect(await run(makeTool(throwing(error)))).toEqual({ type: "retry", message: "busy" });
  });

  test("no stack and no text without end reaches the model", async () => {
    const outcome = await run(makeTool(throwing(new Error("x".repeat(100_000))), { effect: "read" }));
    expect(JSON.stringify(outcome).length).toBeLessThan(2_500);
    expect(JSON.stringify(outcome)).not.toContain("run-tool.test.ts");
  });

  test.each([undefined, null, 0, {}, Object.create(null)])("something odd: %j", async (thrown) => {
    expect(await run(makeTool(throwing(thrown), { effect: "read" }))).toMatchObject({ type: "failed", code: "threw" });
  });
});

describe("timeout", () => {
  test.each([
    ["ignores its signal", never],
    ["heeds its signal", untilAborted],
  ])("a tool that %s", async (_name, execute) => {
    expect(await run(makeTool(execute, { effect: "read", timeoutMs: 20 }))).toMatchObject({
      type: "failed",
      code: "timeout",
      message: expect.stringContaining("0.02 s"),
    });
    expect(await run(makeTool(execute, { timeoutMs: 20 }))).toMatchObject({ type: "unknown", code: "timeout" });
  });

  test("a late result and a late rejection are discarded", async () => {
    const late = Promise.withResolvers<string>();
    const outcome = run(makeTool(() => late.promise, { effect: "read", timeoutMs: 10 }));
    expect((await outcome).type).toBe("failed");
    // An unhandled rejection would fail the test run.
    late.reject(new Error("late"));
    await new Promise(setImmediate);
    expect((await outcome).type).toBe("failed");
  });

  test("a tool that says at once that nothing happened is believed", async () => {
    const tool = makeTool(
      async ({ signal }) => {
        await once(signal, "abort");
        throw new RetryableError("not begun yet");
      },
      { timeoutMs: 10 },
    );
    expect(await run(tool)).toEqual({ type: "retry", message: "not begun yet" });
  });

  test("the signal tells a timeout", async () => {
    const { promise, resolve } = Promise.withResolvers<unknown>();
    const tool = makeTool(
      ({ signal }) => {
        signal.addEventListener("abort", () => resolve(signal.reason));
        return never();
      },
      { timeoutMs: 10 },
    );
    await run(tool);
    expect(await promise).toMatchObject({ name: "TimeoutError" });
  });
});

describe("abort from outside", () => {
  test.each([
    ["ignores its signal", never],
    ["heeds its signal", untilAborted],
  ])("a tool that %s", async (_name, execute) => {
    const controller = new AbortController();
    const write = run(makeTool(execute), { signal: controller.signal });
    const read = run(makeTool(execute, { effect: "read" }), { signal: controller.signal });
    setImmediate(() => controller.abort());
    expect(await write).toMatchObject({ type: "unknown", code: "aborted" });
    expect(await read).toMatchObject({ type: "retry", delayMs: 0 });
  });

  test("before the start nothing is run", async () => {
    let started = false;
    const tool = makeTool(() => {
      started = true;
    });
    expect(await run(tool, { signal: AbortSignal.abort() })).toMatchObject({ type: "retry", delayMs: 0 });
    expect(started).toBe(false);
  });

  test("leaves no listener behind", async () => {
    const { signal } = new AbortController();
    let listeners = 0;
    const add = signal.addEventListener.bind(signal);
    const remove = signal.removeEventListener.bind(signal);
    signal.addEventListener = (...args: Parameters<typeof add>): void => {
      listeners++;
      add(...args);
    };
    signal.removeEventListener = (...args: Parameters<typeof remove>): void => {
      listeners--;
      remove(...args);
    };
    await run(
      makeTool(() => "ok"),
      { signal },
    );
    expect(listeners).toBe(0);
  });
});

describe("progress", () => {
  test("reaches the listener while the tool runs, and no longer", async () => {
    const told: string[] = [];
    const contexts: ToolContext[] = [];
    const tool = makeTool((context) => {
      contexts.push(context);
      context.progress("half");
    });
    await run(tool, { onProgress: (text) => told.push(text) });
    contexts[0]?.progress("late");
    expect(told).toEqual(["half"]);
  });

  test("a broken listener does not break the tool", async () => {
    const tool = makeTool((context) => {
      context.progress("half");
      return "done";
    });
    const onProgress = throwing(new Error("no listener"));
    expect(await run(tool, { onProgress })).toEqual({ type: "ok", content: "done" });
  });
});
