import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { Step } from "../../src/core/owed.ts";
import type { Delivery } from "../../src/ports.ts";
import { connect } from "../../src/redis/connection.ts";
import { startTestRedis, type TestRedis } from "../support/redis.ts";
import { startSilentProxy } from "../support/silent-proxy.ts";
import { type Bench, makeBench, systemClock } from "./setup.ts";

const step: Step = { runId: "run-a", owedAt: 4, index: 0, kind: "model" };

describe("when Redis is in trouble", () => {
  let server: TestRedis;
  let bench: Bench;
  beforeEach(async () => {
    server = await startTestRedis({ own: true });
    bench = await makeBench(server.url);
  });
  afterEach(async () => {
    await bench.close();
    await server.stop();
  });

  async function startWorker() {
    const seen = new Map<number, PromiseWithResolvers<Delivery>>();
    const slot = (owedAt: number): PromiseWithResolvers<Delivery> => {
      const made = seen.get(owedAt) ?? Promise.withResolvers<Delivery>();
      seen.set(owedAt, made);
      return made;
    };
    const worker = bench.makeWorker({
      async process(delivery) {
        slot(delivery.step.owedAt).resolve(delivery);
        return { type: "done" };
      },
    });
    await worker.start();
    return { worker, delivered: (owedAt: number) => slot(owedAt).promise };
  }

  /** Adds the step as soon as the producer, which was cut off too, has a connection again. */
  async function addWhenBack(): Promise<void> {
    const added = await bench.queue.add([step]).then(
      () => true,
      () => false,
    );
    if (added) return;
    await systemClock.sleep(100);
    await addWhenBack();
  }

  test("after a restart the worker goes on by itself, and the log stays short", async () => {
    const { delivered } = await startWorker();
    await bench.queue.add([step]);
    await delivered(4);
    await server.kill9();
    await systemClock.sleep(3_000); // the length of the outage
    await server.restart();
    await bench.queue.add([{ ...step, owedAt: 5 }]);
    const startedAt = performance.now();
    await delivered(5);
    expect(performance.now() - startedAt).toBeLessThan(15_000);
    expect(bench.logger.lines.filter(({ level }) => level !== "debug").length).toBeLessThan(5);
  });

  test("a step whose lock expired in an outage counts no lost worker", async () => {
    const deliveries: Delivery[] = [];
    const [first, second] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    const worker = bench.makeWorker({
      async process(delivery) {
        deliveries.push(delivery);
        if (deliveries.length > 1) second.resolve();
        else {
          first.resolve();
          await new Promise((resolve) => delivery.signal.addEventListener("abort", resolve));
        }
        return { type: "done" };
      },
    });
    await worker.start();
    await bench.queue.add([step]);
    await first.promise;
    await server.kill9();
    await systemClock.sleep(3_500); // longer than the lock lives
    await server.restart();
    await second.promise;
    expect(deliveries[0]?.signal.aborted).toBe(true);
    expect(deliveries[1]?.lostWorkers).toBe(0);
  }, 30_000);

  test("steps keep their locks while what the worker sends goes nowhere for a while, as behind a large commit on a slow line", async () => {
    const proxy = await startSilentProxy(server.url);
    const [slow, begun, released] = [
      connect(proxy.url, { role: "worker" }),
      Promise.withResolvers<Delivery>(),
      Promise.withResolvers<void>(),
    ];
    const worker = bench.makeWorker({
      client: slow.client,
      async process(delivery) {
        begun.resolve(delivery);
        await released.promise;
        return { type: "done" };
      },
    });
    await worker.start();
    await bench.queue.add([step]);
    const { signal } = await begun.promise;
    proxy.silence();
    await systemClock.sleep(4_500); // longer than the lock lives
    const isLocked = await bench.redis.exists(bench.key("model", "4-0-run-a", "lock"));
    proxy.speak();
    released.resolve();
    await worker.stop();
    await slow.close();
    expect({ isLocked, isAborted: signal.aborted }).toEqual({ isLocked: 1, isAborted: false });
  }, 30_000);

  test("memory that is full slows the worker down instead of heating it, and it goes on afterwards", async () => {
    await bench.plainQueue("runs").add("start", { agent: "a", input: "b" }, { jobId: "run-a" });
    await server.cli("CONFIG", "SET", "maxmemory", "1"); // the job is waiting, and cannot be taken
    const started = Promise.withResolvers<void>();
    const worker = bench.makeWorker({
      queues: ["runs"],
      process: async () => ({ type: "done" }),
      async processStart() {
        started.resolve();
        return { type: "done" };
      },
    });
    await worker.start();
    const commands = async (): Promise<number> =>
      Number(/total_commands_processed:(\d+)/.exec(String(await server.cli("INFO", "stats")))?.[1]);
    const before = await commands();
    const cpuBefore = process.cpuUsage();
    await systemClock.sleep(4_000);
    const cpu = process.cpuUsage(cpuBefore);
    expect((await commands()) - before).toBeLessThan(300); // undamped it is thousands a second
    expect((cpu.user + cpu.system) / 4_000_000).toBeLessThan(0.25);
    expect(bench.logger.lines.length).toBeLessThan(4);
    await server.cli("CONFIG", "SET", "maxmemory", "0");
    await started.promise;
  });

  test("a demoted primary is waited for", async () => {
    const { delivered } = await startWorker();
    await bench.queue.add([step]);
    await delivered(4);
    await server.cli("REPLICAOF", "127.0.0.1", "1");
    await systemClock.sleep(3_000);
    await server.cli("REPLICAOF", "NO", "ONE");
    await bench.queue.repair([{ ...step, owedAt: 5 }]);
    await delivered(5);
    expect(bench.logger.lines.filter(({ level }) => level !== "debug").length).toBeLessThan(8);
  });

  test("a wrong password later on does not make it spin, and nothing of it reaches the log", async () => {
    const { delivered } = await startWorker();
    await server.cli("CONFIG", "SET", "requirepass", "hunter2");
    await bench.redis.call("AUTH", "hunter2");
    await bench.redis.call("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes");
    await systemClock.sleep(2_000);
    expect(bench.logger.lines.length).toBeLessThan(6);
    expect(JSON.stringify(bench.logger.lines)).not.toContain("hunter2");
    await bench.redis.config("SET", "requirepass", "");
    await addWhenBack();
    await delivered(4);
  });
});
