import type { Redis, RedisOptions } from "ioredis";
import { toolQueue } from "./bullmq/step-job.ts";
import { createStepQueue } from "./bullmq/step-queue.ts";
import { createStepWorker } from "./bullmq/step-worker.ts";
import { DroverError } from "./core/errors.ts";
import type { InputMessage } from "./core/message.ts";
import type { Agent } from "./define-agent.ts";
import type { StartOptions } from "./engine/client.ts";
import { createEngine, type Engine } from "./engine/engine.ts";
import { type RunHandle, type RunView, toView } from "./engine/run-handle.ts";
import { startSweeper } from "./engine/sweep.ts";
import { createIds } from "./ids.ts";
import { endIsolated, isolatedStep, isolateInChild } from "./isolate.ts";
import type { Delivery, Logger, RunFilter, Telemetry } from "./ports.ts";
import { checkRedis } from "./redis/check.ts";
import { type ConnectionRole, connect } from "./redis/connection.ts";
import { createKeys, defaultPrefix } from "./redis/keys.ts";
import { createRedisClock } from "./redis/redis-clock.ts";
import { makeClient } from "./redis/redis-options.ts";
import { createRedisRunStore } from "./redis/run-store.ts";
import { createRedisSignals } from "./redis/signals.ts";
import { createLogger } from "./telemetry/logger.ts";
import { startTelemetry } from "./telemetry/sdk.ts";

export type DroverOptions = {
  /** A URL (`redis://`, `rediss://`, `unix:///path`), ioredis options, or an ioredis instance to copy. */
  redis: string | RedisOptions | Redis | undefined;
  /** Without agents this is a producer. */
  agents?: readonly Agent[] | undefined;
  /** Default `{drover}`: everything of one installation lives under it, in one slot of a cluster. */
  prefix?: string | undefined;
  /** Largest start payload in bytes of its JSON; default 1 MiB. */
  payloadLimitBytes?: number | undefined;
  /** Default: as the standard `OTEL_*` variables say. */
  telemetry?: Telemetry | undefined;
  /** Default: JSON lines of warnings and errors on standard output, at the level of `DROVER_LOG_LEVEL`. */
  logger?: Logger | undefined;
};

export type WorkOptions = {
  /** Steps at once on each queue; default 100. */
  concurrency?: number | undefined;
  /** Queues to serve: `runs`, `model`, `tools`, and queues named by tools. Default: all that the agents need. */
  queues?: readonly string[] | undefined;
  /** How long steps in hand may go on when the worker stops, in ms; default 10,000. */
  graceMs?: number | undefined;
  /** How long a step's lock outlives its worker, in ms; default 3,000. */
  lockMs?: number | undefined;
  /** Refuse to work on a Redis whose settings can lose runs (eviction); default true. */
  strict?: boolean | undefined;
};

export type WorkerHandle = {
  readonly queues: readonly string[];
  /** Steps in hand, and when the last one was begun, epoch ms. */
  stats(): { running: number; lastStartedAt: number | undefined };
  /** Takes no more steps, lets those in hand end within the grace period, gives the rest back. */
  stop(): Promise<void>;
};

export type RunList = { runs: RunView[]; cursor?: string | undefined };

export type Drover = {
  /** Takes steps; resolves when it does. Any number of processes may, on any machine. */
  work(options?: WorkOptions): Promise<WorkerHandle>;
  /** Starts a run: writes its record, then queues its first step. @throws DroverError "invalid" "too_large" "conflict" "queue_unavailable" */
  start(agent: Agent | string, input: string | InputMessage[], options?: StartOptions): Promise<RunHandle>;
  get(runId: string): RunHandle;
  list(filter?: RunFilter): Promise<RunList>;
  /** Stops its workers and closes its connections. */
  close(): Promise<void>;
};

const defaultConcurrency = 100;
const defaultPayloadLimitBytes = 1_048_576;

type Core = {
  engine: Engine;
  clock: ReturnType<typeof createRedisClock>;
  store: ReturnType<typeof createRedisRunStore>;
  queue: ReturnType<typeof createStepQueue>;
  connection: ReturnType<typeof connect>;
  close(): Promise<void>;
};

/**
 * Drover on Redis: a producer, and with agents a worker too.
 *
 * @throws DroverError "invalid" for a missing or unusable `redis`, and for two agents of one name.
 */
export function createDrover(options: DroverOptions): Drover {
  const { redis, prefix = defaultPrefix, agents = [] } = options;
  if (redis === undefined) {
    throw new DroverError(
      "invalid",
      "redis: expected a URL, options or an ioredis instance. Set REDIS_URL, say to redis://localhost:6379.",
    );
  }
  const byName = indexAgents(agents);
  const logger = options.logger ?? createLogger({ level: "warn" });
  const started = options.telemetry
    ? { telemetry: options.telemetry, shutdown: async () => {} }
    : startTelemetry(process.env, logger);
  const ids = createIds();
  const keys = createKeys(prefix);
  const payloadLimitBytes = options.payloadLimitBytes ?? defaultPayloadLimitBytes;
  const workers: WorkerHandle[] = [];
  let producer: Core | undefined;
  let closing: Promise<void> | undefined;

  /** One connection for records and queues, so that a commit and the steps it makes owed leave together. */
  function openCore(role: ConnectionRole): Core {
    const connection = connect(redis as string, { role, logger, name: `drover-${role}` });
    const clock = createRedisClock({ connection, logger });
    const store = createRedisRunStore({ connection, keys, logger });
    const queue = createStepQueue({ connection, prefix, clock, logger });
    const signals = createRedisSignals({ target: redis as string, connection, keys, logger });
    const isolate = isolatedStep() ? undefined : isolateInChild;
    const registry = { get: (name: string) => byName.get(name)?.code };
    const engine = createEngine({
      ...started,
      store,
      queue,
      signals,
      clock,
      ids,
      agents: registry,
      logger,
      payloadLimitBytes,
      isolate,
    });
    return {
      engine,
      clock,
      store,
      queue,
      connection,
      close: async () => {
        engine.close();
        clock.stop();
        await Promise.allSettled([signals.close(), queue.close()]);
        await connection.close();
      },
    };
  }

  function client(): Engine {
    if (closing) throw new DroverError("stopped", "This Drover was closed. Create another one.");
    producer ??= openCore("producer");
    return producer.engine;
  }

  async function work(work: WorkOptions = {}): Promise<WorkerHandle> {
    if (closing) throw new DroverError("stopped", "This Drover was closed. Create another one.");
    if (byName.size === 0)
      throw new DroverError("invalid", "agents: a worker needs at least one agent. Pass them to createDrover.");
    const core = openCore("worker");
    try {
      await core.connection.ready();
      await refuseUnfitRedis(core, logger, work.strict ?? true);
      await core.clock.ready();
      const alone = isolatedStep();
      if (alone) await runAlone(core, alone);
    } catch (error) {
      await core.close();
      throw error;
    }
    const handle = await startWorker(core, work);
    workers.push(handle);
    return handle;
  }

  async function runAlone(
    core: Core,
    { lostWorkers, ...step }: NonNullable<ReturnType<typeof isolatedStep>>,
  ): Promise<never> {
    const delivery: Delivery = {
      step,
      lostWorkers,
      deliveries: 1,
      signal: new AbortController().signal,
      queuedAt: core.clock.now(),
    };
    await core.engine.runStep(delivery);
    await started.shutdown();
    await core.close();
    return endIsolated();
  }

  async function startWorker(core: Core, work: WorkOptions): Promise<WorkerHandle> {
    const { engine, clock } = core;
    const queues = work.queues ?? defaultQueues(agents);
    const worker = createStepWorker({
      connect: () => makeClient(redis as string, "worker", "drover-step-worker"),
      prefix,
      queues: queues.map(toQueueName),
      concurrency: work.concurrency ?? defaultConcurrency,
      process: engine.runStep,
      processStart: ({ start, priority }) => engine.takeStart(start, priority),
      clock,
      logger,
      lockMs: work.lockMs,
      graceMs: work.graceMs,
      maxPayloadBytes: payloadLimitBytes,
    });
    await worker.start();
    const sweeper = startSweeper({ ...core, logger });
    let stopping: Promise<void> | undefined;
    const stop = async (): Promise<void> => {
      await worker.stop();
      await sweeper.stop();
      await core.close();
    };
    return {
      queues,
      stats: worker.stats,
      stop: () => {
        stopping ??= stop();
        return stopping;
      },
    };
  }

  return {
    work,
    async start(agent, input, start) {
      const { client: starter, handle } = client();
      const run = await starter.start(typeof agent === "string" ? agent : agent.name, input, start);
      return handle(run.runId);
    },
    get: (runId) => client().handle(runId),
    async list(filter = {}) {
      const { runs, cursor } = await client().client.list(filter);
      return { runs: runs.map((run) => toView(run, undefined)), ...(cursor ? { cursor } : {}) };
    },
    close() {
      closing ??= (async () => {
        await Promise.allSettled(workers.map((worker) => worker.stop()));
        await producer?.close();
        await started.shutdown();
      })();
      return closing;
    },
  };
}

function indexAgents(agents: readonly Agent[]): Map<string, Agent> {
  const byName = new Map<string, Agent>();
  for (const agent of agents) {
    if (byName.has(agent.name))
      throw new DroverError("invalid", `agents: two agents are named "${agent.name}"; rename one of them.`);
    byName.set(agent.name, agent);
  }
  return byName;
}

const ownQueues = ["runs", "model", "tools"];

function defaultQueues(agents: readonly Agent[]): string[] {
  const named = agents.flatMap((agent) => agent.tools.map((tool) => tool.queue)).filter((queue) => queue !== undefined);
  return [...ownQueues, ...new Set(named)];
}

function toQueueName(queue: string): string {
  return ownQueues.includes(queue) ? queue : toolQueue(queue);
}

async function refuseUnfitRedis(core: Core, logger: Logger, strict: boolean): Promise<void> {
  const findings = await checkRedis(core.connection);
  for (const { severity, setting, message } of findings) if (severity === "warning") logger.warn({ setting }, message);
  const errors = findings.filter(({ severity }) => severity === "error");
  if (errors.length === 0) return;
  const text = errors.map(({ message }) => message).join(" ");
  if (strict) throw new DroverError("unsupported", text);
  logger.error({}, text);
}
