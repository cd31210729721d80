import { type ChildProcess, spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { Step } from "../../src/core/owed.ts";
import { startTestRedis } from "../support/redis.ts";
import { type Bench, makeBench } from "./setup.ts";

const step: Step = { runId: "run-a", owedAt: 4, index: 0, kind: "model" };

type Line = Record<string, unknown>;
type WorkerProcess = {
  child: ChildProcess;
  /** The first line that has this field. */
  line(field: string): Promise<Line>;
  exited: Promise<number | null>;
};

const children: ChildProcess[] = [];

function startWorker(bench: Bench, graceMs = 1_000): WorkerProcess {
  const args = ["test/bullmq/worker-child.ts", bench.url, bench.prefix, String(graceMs)];
  const child = spawn("node_modules/.bin/node", args, { stdio: ["pipe", "pipe", "inherit"] });
  children.push(child);
  const lines: Line[] = [];
  const waiting = new Map<string, PromiseWithResolvers<Line>>();
  createInterface({ input: child.stdout }).on("line", (text) => {
    const line = JSON.parse(text) as Line;
    lines.push(line);
    for (const field of Object.keys(line)) waiting.get(field)?.resolve(line);
  });
  return {
    child,
    line(field) {
      const known = lines.find((line) => field in line);
      if (known) return Promise.resolve(known);
      const made = waiting.get(field) ?? Promise.withResolvers<Line>();
      waiting.set(field, made);
      return made.promise;
    },
    exited: new Promise((resolve) => child.once("exit", resolve)),
  };
}

describe("worker processes", () => {
  let bench: Bench;
  beforeEach(async () => {
    bench = await makeBench();
  });
  afterEach(async () => {
    for (const child of children.splice(0)) child.kill("SIGKILL");
    await bench.close();
  });

  test("a step whose worker is killed is delivered to another within seconds, as its first lost worker", async () => {
    const [first, second] = [startWorker(bench), startWorker(bench)];
    await Promise.all([first.line("ready"), second.line("ready")]);
    await bench.queue.add([step]);
    const holder = await Promise.race([first, second].map((one) => one.line("delivery").then(() => one)));
    const other = holder === first ? second : first;
    holder.child.kill("SIGKILL");
    const killedAt = performance.now();
    expect(await other.line("delivery")).toMatchObject({ delivery: "run-a", lostWorkers: 1, deliveries: 2 });
    expect(performance.now() - killedAt).toBeLessThan(8_000);
  });

  test("SIGTERM gives steps back: another worker has them within 5 s, none lost, and the process ends by itself", async () => {
    const first = startWorker(bench, 300);
    await first.line("ready");
    await bench.queue.add([step]);
    await first.line("delivery");
    const second = startWorker(bench);
    await second.line("ready");
    first.child.kill("SIGTERM");
    const toldAt = performance.now();
    expect(await second.line("delivery")).toMatchObject({ delivery: "run-a", lostWorkers: 0, deliveries: 2 });
    expect(performance.now() - toldAt).toBeLessThan(5_000);
    expect(await first.line("aborted")).toEqual({ aborted: "run-a" });
    expect(await first.exited).toBe(0);
    expect(performance.now() - toldAt).toBeLessThan(300 + 3_000);
  });

  test("SIGTERM ends a process whose Redis went away", async () => {
    const server = await startTestRedis({ own: true });
    const away = await makeBench(server.url);
    const worker = startWorker(away, 300);
    await worker.line("ready");
    await away.queue.add([step]);
    await worker.line("delivery");
    await server.kill9();
    worker.child.kill("SIGTERM");
    const toldAt = performance.now();
    expect(await worker.exited).toBe(0);
    expect(performance.now() - toldAt).toBeLessThan(300 + 3_000);
    await away.close();
    await server.stop();
  });

  test("a frozen worker counts as lost only until it has woken and ended the step", async () => {
    const frozen = startWorker(bench);
    await frozen.line("ready");
    await bench.queue.add([step]);
    await frozen.line("delivery");
    const second = startWorker(bench, 100);
    await second.line("ready");
    frozen.child.kill("SIGSTOP");
    expect(await second.line("delivery")).toMatchObject({ lostWorkers: 1 });
    frozen.child.kill("SIGCONT");
    expect(await frozen.line("aborted")).toEqual({ aborted: "run-a" });
    second.child.kill("SIGTERM");
    await second.exited;
    expect(await frozen.line("redelivery")).toMatchObject({ lostWorkers: 0 });
  });
});
