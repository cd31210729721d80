import { Queue } from "bullmq";
import { Redis } from "ioredis";
import { inject } from "vitest";
import type { RedisClient } from "../../src/bullmq/redis-client.ts";
import { type BullStepQueue, createStepQueue } from "../../src/bullmq/step-queue.ts";
import { createStepWorker, type StepWorker, type StepWorkerOptions } from "../../src/bullmq/step-worker.ts";
import { endClient } from "../../src/end-client.ts";
import type { Clock, Logger } from "../../src/ports.ts";
import { connect } from "../../src/redis/connection.ts";
import { deletePrefix, testPrefix } from "../support/redis.ts";

/** The machine's clock; Redis runs on the same machine. */
export const systemClock: Clock = {
  now: () => Date.now(),
  sleep: (ms, signal) =>
    new Promise((resolve) => {
      const timer = setTimeout(resolve, ms);
      signal?.addEventListener("abort", () => {
        clearTimeout(timer);
        resolve();
      });
    }),
};

export type LogLine = { level: string; message: string; [field: string]: unknown };

/** A logger that keeps its lines. */
export function memoryLogger(): Logger & { lines: LogLine[] } {
  const lines: LogLine[] = [];
  const at = (level: string) => (fields: Record<string, unknown>, message: string) => {
    lines.push({ level, message, ...fields });
  };
  return { lines, debug: at("debug"), info: at("info"), warn: at("warn"), error: at("error") };
}

export type Bench = {
  url: string;
  prefix: string;
  logger: ReturnType<typeof memoryLogger>;
  queue: BullStepQueue;
  /** A plain client for looking and for mischief. */
  redis: Redis;
  /** A plain BullMQ queue, as a foreign producer has it. */
  plainQueue(name: string): Queue;
  /** A worker on queues `model`, `tools` and `tools-browser`, one step at a time, unless told otherwise. Not started. */
  makeWorker(options: Partial<StepWorkerOptions> & Pick<StepWorkerOptions, "process">): StepWorker;
  /** Cuts a worker off for good, as if its process were gone: what it has in hand it can neither end nor give back. */
  cutOff(worker: StepWorker): Promise<void>;
  /** The key of a job of that queue. */
  key(queue: string, ...parts: string[]): string;
  close(): Promise<void>;
};

/** Queue, workers and looks into Redis under one prefix. */
export async function makeBench(url: string = inject("redisUrl"), clock: Clock = systemClock): Promise<Bench> {
  const prefix = testPrefix();
  const logger = memoryLogger();
  const connection = connect(url, { role: "producer" });
  await connection.ready();
  const redis = new Redis(url);
  redis.on("error", () => undefined);
  const queue = createStepQueue({ connection, prefix, clock, logger });
  const workers = new Map<StepWorker, RedisClient[]>();
  const queues: Queue[] = [];
  return {
    url,
    prefix,
    logger,
    queue,
    redis,
    plainQueue(name) {
      const made = new Queue(name, { connection: redis, prefix: `${prefix}:q` });
      made.on("error", () => undefined);
      queues.push(made);
      return made;
    },
    makeWorker(options) {
      const clients: RedisClient[] = [];
      const connectWorker = (): RedisClient => {
        const { client } = connect(url, { role: "worker" });
        clients.push(client);
        return client;
      };
      const worker = createStepWorker({
        client: connectWorker(),
        locks: connectWorker(),
        connect: connectWorker,
        queues: ["model", "tools", "tools-browser"],
        concurrency: 1,
        processStart: async () => ({ type: "done" }),
        prefix,
        clock,
        logger,
        graceMs: 500,
        ...options,
      });
      workers.set(worker, clients);
      return worker;
    },
    async cutOff(worker) {
      await Promise.all((workers.get(worker) ?? []).map(endClient));
    },
    key: (name, ...parts) => [`${prefix}:q:${name}`, ...parts].join(":"),
    async close() {
      await Promise.all([...workers.keys()].map((worker) => worker.stop()));
      await Promise.all([...workers.values()].flat().map(endClient));
      await Promise.all(queues.map((made) => made.close()));
      await queue.close();
      await connection.close();
      redis.disconnect();
      // A server of the test's own may be down, and goes with all its data.
      if (url === inject("redisUrl")) await deletePrefix(url, prefix);
    },
  };
}
