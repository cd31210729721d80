import { Worker } from "bullmq";
import type { Redis } from "ioredis";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { toJobId } from "../../src/bullmq/step-job.ts";
import { createStepQueue } from "../../src/bullmq/step-queue.ts";
import type { Step } from "../../src/core/owed.ts";
import { connect } from "../../src/redis/connection.ts";
import { startTestRedis } from "../support/redis.ts";
import { freePort } from "../support/redis-server.ts";
import { type Bench, makeBench, memoryLogger, systemClock } from "./setup.ts";

const step: Step = { runId: "run-a", owedAt: 4, index: 0, kind: "model" };
const id = toJobId(step);

describe("repairing what BullMQ would swallow", () => {
  let bench: Bench;
  beforeEach(async () => {
    bench = await makeBench();
  });
  afterEach(() => bench.close());

  /** Resolves with the step's delivery. */
  async function deliver(): Promise<{ runId: string; lostWorkers: number }> {
    const delivered = Promise.withResolvers<{ runId: string; lostWorkers: number }>();
    const worker = bench.makeWorker({
      async process({ step: { runId }, lostWorkers }) {
        delivered.resolve({ runId, lostWorkers });
        return { type: "done" };
      },
    });
    await worker.start();
    const result = await delivered.promise;
    await worker.stop();
    return result;
  }

  test("an id in limbo, with data but in no list, is removed and queued again", async () => {
    const data = { name: "model", data: JSON.stringify({ runId: "run-a", owedAt: 4, index: 0 }), opts: "{}" };
    await bench.redis.hset(bench.key("model", id), { ...data, timestamp: 1 });
    await bench.queue.add([step]);
    expect(await bench.plainQueue("model").getJobState(id)).toBe("unknown"); // swallowed: what repair is for
    expect(await bench.queue.repair([step])).toBe(1);
    expect(await bench.queue.repair([step])).toBe(0);
    expect(await deliver()).toEqual({ runId: "run-a", lostWorkers: 0 });
  });

  test("a tool step that an older version put on the queue of tools is left there, and taken from it", async () => {
    const tool: Step = { runId: "run-a", owedAt: 4, index: 1, kind: "tool", callId: "t1c1" };
    const data = { runId: "run-a", owedAt: 4, index: 1 };
    await bench.plainQueue("tools").add("tool", data, { jobId: toJobId(tool), priority: 1_000 });
    expect(await bench.queue.repair([tool])).toBe(0);
    expect(await bench.plainQueue("model").getJobState(toJobId(tool))).toBe("unknown");
    expect(await deliver()).toEqual({ runId: "run-a", lostWorkers: 0 });
    expect(await bench.queue.repair([tool])).toBe(1);
    expect(await bench.plainQueue("model").getJobState(toJobId(tool))).toBe("prioritized");
  });

  test.each(["completed", "failed"] as const)(
    "a kept %s job with the step's id is removed and queued again",
    async (end) => {
      const plain = bench.plainQueue("model");
      await plain.add("model", { runId: "run-a", owedAt: 4, index: 0 }, { jobId: id });
      const foreign = new Worker(
        "model",
        async () => {
          if (end === "failed") throw new Error("kept");
        },
        { connection: bench.redis.duplicate({ maxRetriesPerRequest: null }), prefix: `${bench.prefix}:q` },
      );
      await new Promise<void>((resolve) => {
        if (end === "failed") foreign.once("failed", () => resolve());
        else foreign.once("completed", () => resolve());
      });
      await foreign.close();
      await bench.queue.add([step]);
      expect(await plain.getJobState(id)).toBe(end);
      expect(await bench.queue.repair([step])).toBe(1);
      expect(await deliver()).toEqual({ runId: "run-a", lostWorkers: 0 });
    },
  );

  test.each([
    ["behind: due by our clock, still delayed", -3_600_000],
    ["ahead: put off for an hour", 3_600_000],
  ])("a job delayed by a clock that is %s is promoted", async (_name, skewMs) => {
    const plain = bench.plainQueue("model");
    await bench.queue.add([{ ...step, notBefore: Date.now() + 60_000 }]);
    await bench.redis.zadd(bench.key("model", "delayed"), (Date.now() + skewMs) * 0x1000, id);
    expect(await bench.queue.repair([{ ...step, notBefore: Date.now() - 1 }])).toBe(1);
    expect(await plain.getJobState(id)).toBe("prioritized");
  });

  test("a wait that a worker asked for is left alone", async () => {
    await bench.queue.add([{ ...step, notBefore: Date.now() + 20_000 }]);
    expect(await bench.queue.repair([step])).toBe(0);
    expect(await bench.plainQueue("model").getJobState(id)).toBe("delayed");
  });

  test.each(["in no list", "queued"])(
    "a job that another program has overwritten, %s, is queued again",
    async (where) => {
      if (where === "queued") await bench.queue.add([step]);
      await bench.redis.set(bench.key("model", id), "not a job");
      const other: Step = { ...step, runId: "run-b" };
      await bench.queue.repair([step]);
      await bench.queue.add([other]);
      const delivered = new Set<string>();
      const worker = bench.makeWorker({
        async process({ step: { runId } }) {
          delivered.add(runId);
          return { type: "done" };
        },
      });
      await worker.start();
      await vi.waitFor(
        async () => {
          await bench.queue.repair(delivered.has("run-a") ? [] : [step]);
          expect([...delivered].sort()).toEqual(["run-a", "run-b"]);
        },
        { timeout: 20_000, interval: 200 },
      );
    },
    30_000,
  );

  test("an active job whose lock somebody has replaced by one without an end comes back", async () => {
    await bench.queue.add([step]);
    let deliveries = 0;
    const aborted = Promise.withResolvers<void>();
    const worker = bench.makeWorker({
      lockMs: 1_000,
      stalledMs: 300,
      async process({ signal }) {
        deliveries += 1;
        if (deliveries > 1) return { type: "done" };
        await bench.redis.set(bench.key("model", id, "lock"), "other");
        signal.addEventListener("abort", () => aborted.resolve());
        await aborted.promise;
        return { type: "done" };
      },
    });
    await worker.start();
    await aborted.promise;
    expect(await bench.queue.repair([step])).toBe(0);
    await vi.waitFor(() => expect(deliveries).toBe(2), { timeout: 20_000, interval: 50 });
  }, 30_000);

  test("a locked job is neither removed nor doubled", async () => {
    await bench.queue.add([step]);
    await bench.redis.set(bench.key("model", id, "lock"), "someone");
    await bench.queue.remove([step]);
    expect(await bench.plainQueue("model").getJobState(id)).toBe("prioritized");
    await bench.redis.zrem(bench.key("model", "prioritized"), id); // in limbo, and locked
    expect(await bench.queue.repair([step])).toBe(0);
    await bench.redis.del(bench.key("model", id, "lock"));
    expect(await bench.queue.repair([step])).toBe(1);
  });
});

describe("what lies in Redis", () => {
  let bench: Bench;
  beforeEach(async () => {
    bench = await makeBench();
  });
  afterEach(() => bench.close());

  test("a job holds ids only, an explicit priority, and its due time by the given clock", async () => {
    const notBefore = Date.now() + 60_000;
    await bench.queue.add([
      step,
      { ...step, index: 1, kind: "tool", queue: "browser", notBefore, priority: 7, callId: "c" },
    ]);
    const plain = await bench.redis.hgetall(bench.key("model", "4-0-run-a"));
    expect(JSON.parse(plain.data ?? "")).toEqual({ runId: "run-a", owedAt: 4, index: 0 });
    expect(plain.priority).toBe("1000");
    expect(JSON.parse(plain.opts ?? "")).toEqual({ attempts: 0, priority: 1_000 });
    const tool = await bench.redis.hgetall(bench.key("tools-browser", "4-1-run-a"));
    expect(JSON.parse(tool.data ?? "")).toEqual({ runId: "run-a", owedAt: 4, index: 1 });
    expect(tool.priority).toBe("7");
    expect(Number(tool.timestamp) + Number(tool.delay)).toBe(notBefore);
  });

  test("a producer's machine with a wrong clock does not move the due time", async () => {
    const connection = connect(bench.url, { role: "producer" });
    const skewed = createStepQueue({
      connection,
      prefix: bench.prefix,
      clock: { ...systemClock, now: () => 1_000_000 }, // Redis's time, far from this machine's
      logger: memoryLogger(),
    });
    await skewed.add([{ ...step, notBefore: 1_005_000 }]);
    const score = await bench.redis.zscore(bench.key("model", "delayed"), id);
    expect(Math.floor(Number(score) / 0x1000)).toBe(1_005_000);
    await skewed.close();
    await connection.close();
  });

  test("hundreds of steps leave a small event stream with markers only, and no job", async () => {
    const steps = Array.from({ length: 600 }, (_, index) => ({ ...step, index }));
    await bench.queue.add(steps);
    const all = Promise.withResolvers<void>();
    let count = 0;
    const worker = bench.makeWorker({
      queues: ["model"],
      concurrency: 20,
      async process() {
        count += 1;
        if (count === steps.length) all.resolve();
        return { type: "done" };
      },
    });
    await worker.start();
    await all.promise;
    await worker.stop();
    expect(await bench.redis.xlen(bench.key("model", "events"))).toBeLessThan(400); // trimmed by whole nodes of 100
    expect(await bench.redis.memory("USAGE", bench.key("model", "events"))).toBeLessThan(100_000);
    const events = JSON.stringify(await bench.redis.xrange(bench.key("model", "events"), "-", "+"));
    expect(events).toContain('"returnvalue","\\"ok\\""');
    expect(await bench.redis.keys(`${bench.prefix}:q:model:*run-a*`)).toEqual([]);
    expect(await bench.plainQueue("model").getJobCountByTypes()).toBe(0);
  });
});

describe("how commands travel", () => {
  test("an add leaves together with what its caller has just written, in that order", async () => {
    const server = await startTestRedis({ own: true });
    const connection = connect(server.url, { role: "producer" });
    const queue = createStepQueue({ connection, prefix: server.prefix, clock: systemClock, logger: memoryLogger() });
    await queue.add([step, { ...step, index: 1, kind: "tool" }]); // from here on the queues are open
    await server.cli("CLIENT", "PAUSE", "10000", "ALL"); // no reply comes, so nothing can have waited for one
    const sent: string[] = [];
    const client = connection.client as Redis;
    const sendCommand = client.sendCommand.bind(client);
    client.sendCommand = (command, ...rest) => {
      sent.push(command.name);
      return sendCommand(command, ...rest);
    };
    const replies = Promise.allSettled([
      connection.use(() => client.set(`${server.prefix}:head`, "1")),
      queue.add([
        { ...step, owedAt: 5 },
        { ...step, owedAt: 5, index: 1, kind: "tool" },
      ]),
    ]);
    await new Promise((resolve) => {
      setImmediate(resolve);
    });
    expect(sent).toEqual(["set", "evalsha", "evalsha"]);
    await queue.close();
    await connection.close();
    await server.stop();
    await replies;
  });
});

describe("without Redis", () => {
  test("adding fails in less than two seconds, saying so, and closing does not hang", async () => {
    const connection = connect(`redis://127.0.0.1:${await freePort()}`, { role: "producer" });
    const queue = createStepQueue({ connection, clock: systemClock, logger: memoryLogger() });
    const startedAt = performance.now();
    const [added, repaired, removed] = await Promise.allSettled([
      queue.add([step]),
      queue.repair([step]),
      queue.remove([step]), // best effort
    ]);
    expect(performance.now() - startedAt).toBeLessThan(2_000);
    expect(added).toMatchObject({ reason: { code: "queue_unavailable" } });
    expect(repaired).toMatchObject({ reason: { code: "queue_unavailable" } });
    expect(removed.status).toBe("fulfilled");
    await queue.close();
    await expect(queue.add([step])).rejects.toMatchObject({ code: expect.stringMatching(/stopped|queue_unavailable/) });
    await connection.close();
  });

  test("connections do not grow with the number of adds", async () => {
    const bench = await makeBench();
    const clients = async () => Number(/connected_clients:(\d+)/.exec(await bench.redis.info("clients"))?.[1]);
    await bench.queue.add([step]);
    const before = await clients();
    await Promise.all(
      Array.from({ length: 200 }, (_, n) =>
        bench.queue.add([{ ...step, index: n, kind: n % 2 ? "tool" : "model", queue: n % 3 ? "browser" : undefined }]),
      ),
    );
    expect(await clients()).toBeLessThan(before + 10); // other test files come and go on the shared server
    await bench.close();
  });
});
