import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { isDeepStrictEqual } from "node:util";
import { Queue } from "bullmq";
import { Redis } from "ioredis";
import { inject, onTestFinished } from "vitest";
import type { RunFeedEvent } from "../../src/core/feed.ts";
import { createDrover, type Drover } from "../../src/drover.ts";
import type { RunHandle, RunResult } from "../../src/engine/run-handle.ts";
import { createKeys, type Keys } from "../../src/redis/keys.ts";
import { shardPrefixes } from "../../src/sharding/slots.ts";
import { createSilentLogger } from "../../src/telemetry/logger.ts";
import type { E2eOptions } from "./e2e-options.ts";
import { eventually } from "./eventually.ts";
import { type FakeAnswer, type FakeOpenAI, type FakeRequest, startFakeOpenai } from "./fake-openai.ts";
import { type Gate, startGate } from "./gate.ts";
import { type Ledger, openLedger } from "./ledger.ts";
import { deletePrefix, type TestRedis, testPrefix } from "./redis.ts";
import { startWorkerProcess, type WorkerProcess } from "./worker-process.ts";

export type World = {
  options: E2eOptions;
  prefix: string;
  keys: Keys;
  /** A plain client, for looking and for mischief. */
  redis: Redis;
  server: FakeOpenAI;
  gate: Gate;
  ledger: Ledger;
  /** A producer in this process. */
  drover: Drover;
  /** Worker processes that `work` has started, dead ones too. */
  workers: readonly WorkerProcess[];
  /** A worker process; resolves when it takes steps. */
  work(options?: Partial<E2eOptions>): Promise<WorkerProcess>;
  /** A plain BullMQ queue, as a program that knows nothing of us has it. */
  plainQueue(name: string): Queue;
};

export type WorldOptions = Partial<E2eOptions> & {
  respond: (request: FakeRequest) => FakeAnswer | Promise<FakeAnswer>;
  /** Default: the server shared by all tests. */
  server?: Pick<TestRedis, "url">;
  /** Opens the plain client, where a URL is not enough for one. */
  openRedis?: () => Redis;
};

/** A model server, a ledger, a gate and a corner of a Redis for one test; all of it ends with the test. */
export async function makeWorld({ respond, server: own, openRedis, ...given }: WorldOptions): Promise<World> {
  const redisUrl = own?.url ?? inject("redisUrl");
  const prefix = given.prefix ?? testPrefix();
  const ledgerDir = mkdtempSync(join(tmpdir(), "drover-e2e-"));
  onTestFinished(() => rmSync(ledgerDir, { recursive: true, force: true }));
  const server = await startFakeOpenai({ respond });
  onTestFinished(() => server.stop());
  const gate = await startGate();
  onTestFinished(() => gate.stop());
  const redis = openRedis?.() ?? new Redis(redisUrl);
  redis.on("error", () => {}); // Some tests take the server down.
  onTestFinished(async () => {
    redis.disconnect();
    const prefixes = new Set([prefix, ...shardPrefixes(prefix, given.shards ?? 1)]);
    if (!own) await Promise.all([...prefixes].map((one) => deletePrefix(redisUrl, one)));
  });
  const options: E2eOptions = { redisUrl, prefix, baseURL: server.url, gateUrl: gate.url, ledgerDir, ...given };
  const drover = createDrover({
    ...{ redis: redisUrl, prefix, shards: given.shards, durability: given.durability },
    logger: createSilentLogger(),
  });
  onTestFinished(() => drover.close());
  const queues = new Map<string, Queue>();
  const workers: WorkerProcess[] = [];
  return {
    options,
    prefix,
    keys: createKeys(prefix),
    redis,
    server,
    gate,
    ledger: openLedger(ledgerDir),
    drover,
    workers,
    async work(more = {}) {
      const worker = await startWorkerProcess({ ...options, ...more });
      workers.push(worker);
      return worker;
    },
    plainQueue(name) {
      const known = queues.get(name);
      if (known) return known;
      const queue = new Queue(name, { connection: redis, prefix: `${prefix}:q` });
      queue.on("error", () => {});
      queues.set(name, queue);
      onTestFinished(() => queue.close());
      return queue;
    },
  };
}

/** Waits for the end of all runs. If one does not end in time, its state is in the error. */
export function resultsOf(runs: RunHandle[], timeoutMs: number): Promise<RunResult[]> {
  return Promise.all(
    runs.map(async (run) => {
      try {
        return await run.result({ timeoutMs });
      } catch (error) {
        const state = JSON.stringify(await run.status());
        throw new Error(`${run.id} did not end: ${state}`, { cause: error });
      }
    }),
  );
}

export type JobCounts = { active: number; delayed: number; waiting: number };

/** Jobs of all queues that steps use, by state. */
export async function countJobs(world: World): Promise<JobCounts> {
  const queues = ["runs", "model", "tools"].map((name) => world.plainQueue(name));
  const counts = await Promise.all(queues.map((queue) => queue.getJobCounts()));
  const sum = (...states: string[]): number =>
    counts.flatMap((count) => states.map((state) => count[state] ?? 0)).reduce((total, count) => total + count, 0);
  return { active: sum("active"), delayed: sum("delayed"), waiting: sum("waiting", "prioritized", "waiting-children") };
}

/** Resolves when the queues hold exactly these jobs. */
export async function jobsAre(world: World, expected: JobCounts, timeoutMs?: number): Promise<void> {
  let counts: JobCounts | undefined;
  const same = async (): Promise<true | undefined> => {
    counts = await countJobs(world);
    return isDeepStrictEqual(counts, expected) || undefined;
  };
  await eventually(same, timeoutMs).catch(async () => {
    const queues = ["runs", "model", "tools"].map((name) => world.plainQueue(name));
    const jobs = (await Promise.all(queues.map((queue) => queue.getJobs()))).flat();
    const names = jobs.map(({ id, name }) => `${name} ${id}`).join(", ");
    throw new Error(`expected jobs ${JSON.stringify(expected)}, there are ${JSON.stringify(counts)}: ${names}`);
  });
}

/** Everything the feed of a run tells, from its beginning to its end. */
export async function readFeed(world: World, runId: string): Promise<RunFeedEvent[]> {
  const events: RunFeedEvent[] = [];
  for await (const event of world.drover.get(runId).events()) events.push(event);
  return events;
}

/** Resolves when the run's live text has come to end like this. */
export async function textSeen(run: RunHandle, ending: string): Promise<void> {
  let text = "";
  for await (const event of run.events()) {
    if (event.type === "text_superseded") text = "";
    else if (event.type === "text") text += event.text;
    if (text.endsWith(ending)) return;
  }
  throw new Error(`${run.id} ended without "${ending}"`);
}

/** The run a request is about: the tests' inputs begin with its id. */
export function runIdOf({ body }: FakeRequest): string {
  const first = body.messages.find(({ role }) => role === "user");
  return String(first?.content ?? "").split(" ")[0] ?? "";
}
