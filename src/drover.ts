import { type Backend, type BackendOptions, openBackend, type RedisTarget } from "./backend.ts";
import { defaultPayloadLimitBytes, defaultPrefix } from "./core/defaults.ts";
import type { Durability } from "./core/durability.ts";
import { DroverError } from "./core/errors.ts";
import type { OperatorLimits } from "./core/fleet-limits.ts";
import type { PauseAllOptions } from "./core/fleet-pause.ts";
import type { InputMessage } from "./core/message.ts";
import { type Policy, parsePolicy } from "./core/policy.ts";
import type { Redactor } from "./core/redact.ts";
import type { Retention } from "./core/retention.ts";
import type { RunStatus } from "./core/run.ts";
import type { Agent } from "./define-agent.ts";
import type { StartOptions } from "./engine/client.ts";
import type { Engine } from "./engine/engine.ts";
import { type PausedFleet, pauseFleet, resumeFleet } from "./engine/fleet-pause.ts";
import type { RunHandle } from "./engine/run-handle.ts";
import { type RunView, toView } from "./engine/run-view.ts";
import type { SessionHandle } from "./engine/session-handle.ts";
import { isolatedStep } from "./isolate.ts";
import { createOwnWorkers } from "./own-workers.ts";
import type { AgentRegistry, FleetView, Logger, RunFilter, Telemetry } from "./ports.ts";
import { readDurability, readLimits, readMemoryLimit, readRetention, readShards } from "./read-options.ts";
import { secretsOfEnvironment, toKnown } from "./redaction/known.ts";
import { type RedactionOptions, toRedaction } from "./redaction/redaction.ts";
import { redisSecrets, refuseUntagged } from "./redis/redis-target.ts";
import { guardTelemetry } from "./telemetry/guard-telemetry.ts";
import { createLogger, redactLogs } from "./telemetry/logger.ts";
import { type MetricsListener, type MetricsOptions, serveMetrics } from "./telemetry/metrics-listener.ts";
import { type StartedTelemetry, startTelemetry } from "./telemetry/sdk.ts";
import { startWorker, type WorkerHandle, type WorkOptions } from "./worker.ts";

export type { MetricsOptions } from "./telemetry/metrics-listener.ts";
export type { WorkerHandle, WorkOptions } from "./worker.ts";
export type { WorkerHealth } from "./worker-health.ts";

export type DroverOptions = {
  /**
   * A URL (`redis://`, `rediss://`, `unix:///path`, `redis+sentinel://h1:26379,h2:26379/group`,
   * `redis+cluster://h1:7000,h2:7001`), ioredis options (`sentinels` with `name`, too), `{ cluster: [nodes], options }`,
   * or an ioredis `Redis` or `Cluster` to copy.
   */
  redis: RedisTarget | undefined;
  /** Without agents this is a producer. */
  agents?: readonly Agent[] | undefined;
  /** What operators decide about tools, over what their code says; default: nothing. A list of rules, plain data. */
  policy?: Policy | undefined;
  /**
   * What operators add to the rates and concurrency that tools and models have by themselves; the stricter of both
   * holds, over all workers. Give it to every worker.
   */
  limits?: OperatorLimits | undefined;
  /**
   * How long its workers keep runs that have ended, in ms from their end: `{ completed, failed, cancelled, rejected }`, at
   * least 1,000 each. A status without one, or with 0, is kept until somebody deletes its runs, which is the default.
   */
  retention?: Retention | undefined;
  /**
   * What is waited for before a start or a command is acknowledged, before a tool that may not run again begins, and
   * before an end is told: `replicas` that have it (a failover loses nothing of it), `fsync: true` for the primary's disk
   * or a number for those of so many replicas too (Redis 7.2 or later). After `timeoutMs` (default 1,000) a start or
   * command is refused with "queue_unavailable" and may be repeated, and a tool is begun later. Default: none.
   */
  durability?: Durability | undefined;
  /** Default `{drover}`: everything of one installation lives under it, in one slot of a cluster. */
  prefix?: string | undefined;
  /**
   * Spreads runs over so many parts of Redis, each with its own records and queues: over the masters of a Redis Cluster.
   * Default 1. It is decided once, by whoever comes first; another number is refused from then on. At most 256. The
   * prefix needs a hash tag.
   */
  shards?: number | undefined;
  /** Largest start payload in bytes of its JSON; default 1 MiB. */
  payloadLimitBytes?: number | undefined;
  /**
   * Share of Redis's `maxmemory`, in percent, from which on new runs are refused with "queue_unavailable" while those there
   * are go on; default 90. Without a `maxmemory` none is refused.
   */
  memoryLimitPercent?: number | undefined;
  /** Default: as the standard `OTEL_*` variables say. */
  telemetry?: Telemetry | undefined;
  /** Default: JSON lines of warnings and errors on standard error. */
  logger?: Logger | undefined;
  /**
   * Serves metrics in Prometheus's format, and whether it is well, while a worker of it works; default: not. They are also sent over OTLP, as the
   * `OTEL_*` variables say.
   */
  metrics?: MetricsOptions | undefined;
  /** Secrets are redacted in logs, traces and results. `patterns` adds to what is one; `stored` also redacts what is kept. */
  redaction?: RedactionOptions | undefined;
};

export type RunList = { runs: RunView[]; cursor?: string | undefined };

/** Given an agent with an `output`, the result's output is what its schema gives out. */
export type StartRun = {
  (agent: string, input: string | InputMessage[], options?: StartOptions): Promise<RunHandle>;
  <Output>(agent: Agent<Output>, input: string | InputMessage[], options?: StartOptions): Promise<RunHandle<Output>>;
};

export type Drover = {
  /** Takes steps; resolves when it does. Any number of processes may, on any machine. */
  work(options?: WorkOptions): Promise<WorkerHandle>;
  /** Starts a run: writes its record, then queues its first step. @throws DroverError "invalid" "too_large" "conflict" "queue_unavailable" */
  start: StartRun;
  /** @param agent types the output of a structured answer. */
  get<Output = string>(runId: string, agent?: Agent<Output>): RunHandle<Output>;
  /** @throws DroverError "invalid" for an id that no session can have. */
  session(id: string): SessionHandle;
  list(filter?: RunFilter): Promise<RunList>;
  /** How many runs there are of each status. */
  count(filter?: Pick<RunFilter, "tenant" | "agent">): Promise<Record<RunStatus, number>>;
  /**
   * Removes a run that has ended, with all that is kept of it; or one whose record is damaged, so that it can neither go on
   * nor be cancelled: `damage` then says what was wrong. @throws DroverError "not_found" "not_allowed"
   */
  delete(runId: string): Promise<{ damage?: string | undefined }>;
  /** Workers, queues, limits and Redis as they are now, read at most once a second. @throws DroverError "queue_unavailable" */
  fleet(): Promise<FleetView>;
  /**
   * Lets no step begin anywhere until `resumeAll`, whatever is restarted meanwhile: what is being executed may end, and
   * what is started or retried waits. Resolves once every worker that is there takes no more steps.
   * @throws DroverError "invalid" "queue_unavailable"
   */
  pauseAll(options?: PauseAllOptions): Promise<PausedFleet>;
  /** Lets the fleet go on where it was. False if it was not paused. */
  resumeAll(): Promise<boolean>;
  /** Stops its workers and closes its connections. */
  close(): Promise<void>;
};

/**
 * Drover on Redis: a producer, and with agents a worker too.
 *
 * @throws DroverError "invalid" for a missing or unusable `redis`, a policy or pattern that does not fit, and two agents of one name.
 */
export function createDrover(options: DroverOptions): Drover {
  const { agents = [] } = options;
  const retention = readRetention(options.retention);
  const byName = indexAgents(agents);
  const { backendOptions, shutdown, renderMetrics } = prepare(options, byName, { prometheus: !!options.metrics });
  const toolQueues = new Map(
    agents.map((agent) => [agent.name, [...new Set(agent.tools.flatMap((tool) => tool.queue ?? []))]]),
  );
  const workers = createOwnWorkers();
  let producer: Backend | undefined;
  let metrics: Promise<MetricsListener> | undefined;
  let closing: Promise<void> | undefined;

  function refuseClosed(): void {
    if (closing) throw new DroverError("stopped", "This Drover was closed. Create another one.");
  }

  function backend(): Backend {
    refuseClosed();
    producer ??= openBackend(backendOptions, "producer");
    return producer;
  }

  async function close(): Promise<void> {
    await workers.stop();
    await producer?.close();
    await (await metrics?.catch(() => undefined))?.close();
    await shutdown();
  }

  return {
    async work(work = {}) {
      refuseClosed();
      if (byName.size === 0) {
        throw new DroverError("invalid", "agents: a worker needs at least one agent. Pass them to createDrover.");
      }
      // An isolated step runs in this program's process started again, where the port is taken.
      if (options.metrics && renderMetrics && !isolatedStep()) {
        metrics ??= serveMetrics({ render: renderMetrics, health: workers.health }, options.metrics);
      }
      await metrics;
      refuseClosed();
      const deps = { ...backendOptions, toolQueues, flush: shutdown, retention };
      return workers.start(() => startWorker(deps, work));
    },
    ...createRunApi(() => backend().engine, backendOptions.redaction.redactor),
    fleet: async () => backend().fleet.read(),
    pauseAll: async (pause) => pauseFleet({ ...backend(), redactor: backendOptions.redaction.redactor }, pause),
    resumeAll: async () => resumeFleet(backend()),
    close() {
      closing ??= close();
      return closing;
    },
  };
}

/** What a producer does, over whichever engine. */
export function createRunApi(
  engine: () => Engine,
  redactor: Redactor,
): Pick<Drover, "start" | "get" | "session" | "list" | "count" | "delete"> {
  async function start<Output>(
    agent: Agent<Output> | string,
    input: string | InputMessage[],
    options?: StartOptions,
  ): Promise<RunHandle<Output>> {
    const { client, handle } = engine();
    const [name, read] = typeof agent === "string" ? [agent, undefined] : [agent.name, agent.readOutput];
    const run = await client.start(name, input, options);
    return handle(run.runId, read);
  }

  return {
    start: start as StartRun,
    get: (runId, agent) => engine().handle(runId, agent?.readOutput),
    session: (id) => engine().session(id),
    async list(filter = {}) {
      const { runs, cursor } = await engine().client.list(filter);
      return { runs: runs.map((run) => toView(run, undefined, redactor)), ...(cursor ? { cursor } : {}) };
    },
    count: (filter) => engine().client.count(filter),
    delete: (runId) => engine().client.delete(runId),
  };
}

/** What a backend is opened with; `renderMetrics` as of `startTelemetry`. */
type Prepared = {
  backendOptions: BackendOptions;
  renderMetrics?: (() => Promise<string>) | undefined;
  shutdown: () => Promise<void>;
};

/**
 * Reads the options, and starts telemetry as they and the environment say.
 *
 * @param how.prometheus metrics are to be had in Prometheus's format. @throws DroverError "invalid" as `createDrover`.
 */
export function prepare(
  options: Omit<DroverOptions, "agents">,
  byName: ReadonlyMap<string, Agent> = new Map(),
  { prometheus = false }: { prometheus?: boolean } = {},
): Prepared {
  const { redis, prefix = defaultPrefix, payloadLimitBytes = defaultPayloadLimitBytes } = options;
  if (redis === undefined) {
    throw new DroverError(
      "invalid",
      "redis: expected a URL, options or an ioredis instance. Set REDIS_URL, say to redis://localhost:6379.",
    );
  }
  refuseUntagged(redis, prefix);
  const secrets = [...byName.values()].flatMap(({ code }) => code.secrets ?? []);
  const known = [...toKnown("api key", secrets), ...redisSecrets(redis), ...secretsOfEnvironment(process.env)];
  const redaction = toRedaction(options.redaction, known);
  const { redactor } = redaction;
  const logger = options.logger ? redactLogs(options.logger, redactor) : createLogger({ level: "warn", redactor });
  const { telemetry, shutdown, renderMetrics }: StartedTelemetry = options.telemetry
    ? { telemetry: guardTelemetry(options.telemetry, logger), shutdown: async () => {} }
    : startTelemetry(process.env, logger, { redactor, prometheus });
  const agents = governAgents([...byName.values()], options.policy);
  const limits = readLimits(options.limits);
  const shards = readShards(options.shards, prefix);
  const memoryLimitPercent = readMemoryLimit(options.memoryLimitPercent);
  const sizes = { payloadLimitBytes, memoryLimitPercent, durability: readDurability(options.durability) };
  const backendOptions = { redis, prefix, shards, agents, telemetry, logger, ...sizes, redaction, limits };
  return { backendOptions, renderMetrics, shutdown };
}

/**
 * The agents as a policy has them.
 *
 * @throws DroverError "invalid" for a policy that does not fit, naming every rule and field that is wrong.
 */
export function governAgents(agents: readonly Agent[], given: unknown = []): AgentRegistry {
  const parsed = parsePolicy(given);
  if (!parsed.ok) throw new DroverError("invalid", `The policy cannot be used: ${parsed.problems.join("; ")}.`);
  const codes = new Map(agents.map((agent) => [agent.name, agent.codeUnder(parsed.policy)]));
  return { get: (name) => codes.get(name) };
}

function indexAgents(agents: readonly Agent[]): Map<string, Agent> {
  const byName = new Map<string, Agent>();
  for (const agent of agents) {
    if (byName.has(agent.name)) {
      throw new DroverError("invalid", `agents: two agents are named "${agent.name}"; rename one of them.`);
    }
    byName.set(agent.name, agent);
  }
  return byName;
}
