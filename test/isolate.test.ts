// Catches: a child process that was stopped together with its worker taken for one that its step killed, and one that
// runs on although its worker gave the step back.
import { type ChildProcess, fork } from "node:child_process";
import { writeFileSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import type { Isolate, IsolateLimits } from "../src/engine/step.ts";
import { isolatedStep, isolateInChild } from "../src/isolate.ts";
import type { Delivery } from "../src/ports.ts";

let directory: string;
const argv = process.argv;

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), "drover-isolate-"));
});

afterEach(async () => {
  process.argv = argv;
  await rm(directory, { recursive: true, force: true });
});

/** Makes `body` the program that this process was started with. */
function pretend(body: string): void {
  const script = join(directory, "program.mjs");
  writeFileSync(script, body);
  process.argv = [argv[0] ?? "node", script, "one argument"];
}

function makeDelivery(signal: AbortSignal = new AbortController().signal): Delivery {
  return { step: { runId: "run-1", owedAt: 3, index: 0 }, lostWorkers: 3, deliveries: 4, signal, queuedAt: 0 };
}

/** As a step whose tool has all the time in the world. */
const isolate = (delivery: Delivery, limits: Partial<IsolateLimits> = {}): ReturnType<Isolate> =>
  isolateInChild(delivery, { silentMs: 60_000, unwanted: new AbortController().signal, ...limits });

const source = JSON.stringify(new URL("../src/isolate.ts", import.meta.url).href);
/** As an endless loop does, but without the heat. */
const keepThread = "Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0);";
const begin = 'process.send("drover-step-begun");';
const reportDone = 'process.send("drover-step-done"); process.disconnect();';

describe("a step alone in a child process", () => {
  test("finds itself in its environment, and its program started with the same arguments", async () => {
    pretend(`
      const step = JSON.parse(process.env.DROVER_ISOLATED_STEP);
      const fits = step.runId === "run-1" && step.owedAt === 3 && step.index === 0 && step.lostWorkers === 3;
      if (!fits || process.argv[2] !== "one argument") process.exit(9);
      ${begin}
      ${reportDone}`);
    expect(await isolate(makeDelivery())).toEqual({ died: false });
  });

  test.each([
    ["it is killed", 'process.kill(process.pid, "SIGKILL"); setInterval(() => {}, 1000);', "SIGKILL"],
    ["it ends with an error", "process.exit(7);", "exit code 7"],
  ])("died if %s", async (_how, body, how) => {
    pretend(begin + body);
    expect(await isolate(makeDelivery())).toEqual({ died: true, how });
  });

  test("[G8] did not die of its step if it never came so far: Redis was away, say", async () => {
    pretend("process.exit(1);");
    expect(await isolate(makeDelivery())).toEqual({ died: false, neverBegan: true });
  });

  // What a terminal's Ctrl-C and a service manager send to the whole group of processes.
  test.each(["SIGTERM", "SIGINT", "SIGHUP"])("did not die of its step if %s stopped it", async (signal) => {
    pretend(`${begin} process.kill(process.pid, "${signal}"); setInterval(() => {}, 1000);`);
    expect(await isolate(makeDelivery())).toEqual({ died: false });
  });

  test.each([0, 130, 143])("did not die of its step if its program ended it in order: exit code %i", async (code) => {
    pretend(`${begin} process.exit(${code});`);
    expect(await isolate(makeDelivery())).toEqual({ died: false });
  });

  const own = `const { beginIsolated } = await import(${source}); beginIsolated();`;

  test("died if it ended itself as if all were well, and nobody had asked it to", async () => {
    pretend(`${own} setTimeout(() => process.exit(0), 50);`);
    expect(await isolate(makeDelivery())).toEqual({
      died: true,
      how: "exit code 0, though nobody had asked it to end",
    });
  });

  test.each(["before", "after"])(
    "did not die of its step if it was asked to, by what listens since %s it began",
    async (when) => {
      const listen = `process.on("SIGTERM", () => process.exit(0));`;
      const stop = `process.kill(process.pid, "SIGTERM"); setInterval(() => {}, 1000);`;
      pretend(when === "before" ? listen + own + stop : own + listen + stop);
      expect(await isolate(makeDelivery())).toEqual({ died: false });
    },
  );

  const leave = (count: string): string => `
    const onStop = () => {
      if (process.listeners("SIGTERM").length !== ${count}) return;
      process.off("SIGTERM", onStop);
      process.kill(process.pid, "SIGTERM");
    };
    process.on("SIGTERM", onStop);`;
  const stopped = `process.kill(process.pid, "SIGTERM"); setTimeout(() => process.exit(9), 1_500);`;

  // As signal-exit does, of which most programs have one somewhere below them.
  test.each(["before", "after"])(
    "ends on a signal by a listener that lets it end if there is no other, there since %s it began",
    async (when) => {
      pretend(when === "before" ? leave("1") + own + stopped : own + leave("1") + stopped);
      expect(await isolate(makeDelivery())).toEqual({ died: false });
    },
  );

  test("ends on a signal that nobody listens to any more", async () => {
    pretend(`${own} const on = () => {}; process.on("SIGTERM", on); process.off("SIGTERM", on); ${stopped}`);
    expect(await isolate(makeDelivery())).toEqual({ died: false });
  });

  test("that outlives every signal is ended when its worker's time is over", async () => {
    pretend(`${own} for (const one of ["SIGTERM", "SIGINT", "SIGHUP"]) process.on(one, () => {});
      process.kill(process.pid, "SIGTERM"); setInterval(() => {}, 1_000); process.send("stays");`);
    const stop = new AbortController();
    const running = isolate(makeDelivery(stop.signal));
    setTimeout(() => stop.abort(), 1_000);
    expect(await running).toEqual({ died: false });
  });

  test("that keeps its thread for longer than it may died of it; one that only takes long did not", async () => {
    pretend(`${own} ${keepThread}`);
    expect(await isolate(makeDelivery(), { silentMs: 1_500 })).toEqual({
      died: true,
      how: "it kept its thread for 2 s",
    });
    pretend(`${own} setTimeout(() => { ${reportDone} process.exit(0); }, 4_000);`);
    expect(await isolate(makeDelivery(), { silentMs: 2_500 })).toEqual({ died: false });
  }, 15_000);

  test("that keeps its thread when it is not wanted any more is ended, and is not to blame", async () => {
    pretend(`${begin} ${keepThread}`);
    const unwanted = new AbortController();
    const running = isolate(makeDelivery(), { unwanted: unwanted.signal });
    unwanted.abort();
    expect(await running).toEqual({ died: false });
  }, 15_000);

  test("is ended when its worker gives it back, also if that was before it began", async () => {
    pretend(begin + "setTimeout(() => process.exit(7), 5000);");
    const stop = new AbortController();
    const running = isolate(makeDelivery(stop.signal));
    stop.abort();
    expect(await running).toEqual({ died: false });
    expect(await isolate(makeDelivery(AbortSignal.abort()))).toEqual({ died: false });
  }, 4_000);
});

describe("a step alone whose worker is gone", () => {
  /** Starts the program as a worker would, and tells how it ended. */
  function start(body: string): { child: ChildProcess; exit: Promise<number | null> } {
    pretend(body);
    const child = fork(process.argv[1] ?? "", { stdio: ["ignore", "ignore", "ignore", "ipc"] });
    return { child, exit: new Promise((resolve) => child.once("exit", resolve)) };
  }

  test("is aborted as one that lost its lock, since nobody renews it", async () => {
    const { child, exit } = start(`
      const { beginIsolated } = await import(${source});
      const signal = beginIsolated();
      if (signal.aborted) process.exit(6);
      signal.addEventListener("abort", () => process.exit(signal.reason === "lock_lost" ? 5 : 7));
      setInterval(() => {}, 1000);`);
    await new Promise((resolve) => child.once("message", resolve));
    child.disconnect();
    expect(await exit).toBe(5);
  });

  test("is ended soon though it keeps its thread and hears of nothing", async () => {
    const child = join(directory, "child.mjs");
    writeFileSync(child, `const { beginIsolated } = await import(${source}); beginIsolated(); ${keepThread}`);
    const { child: worker, exit } = start(`
      import { fork } from "node:child_process";
      const child = fork(${JSON.stringify(child)});
      child.on("message", () => process.send(child.pid));`);
    const pid = await new Promise<number>((resolve) => worker.once("message", (one) => resolve(Number(one))));
    expect(() => process.kill(pid, 0)).not.toThrow();
    worker.kill("SIGKILL");
    await exit;
    await vi.waitFor(() => expect(() => process.kill(pid, 0)).toThrow(), { timeout: 20_000, interval: 100 });
  }, 30_000);

  test("does not begin if that was before, and ends without an error", async () => {
    const { child, exit } = start(`
      const { beginIsolated, endIsolated } = await import(${source});
      process.send("up");
      const beat = setInterval(() => {}, 1000);
      process.once("disconnect", () => {
        clearInterval(beat);
        if (!beginIsolated().aborted) process.exit(6);
        setImmediate(endIsolated);
      });`);
    await new Promise((resolve) => child.once("message", resolve));
    child.disconnect();
    expect(await exit).toBe(0);
  });
});

test("an ordinary worker was started for no step", () => {
  expect(isolatedStep({})).toBeUndefined();
});
