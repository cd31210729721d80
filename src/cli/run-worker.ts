import type { Agent } from "../define-agent.ts";
import { createDrover } from "../drover.ts";
import { hidePassword } from "../hide-password.ts";
import { createLogger } from "../telemetry/logger.ts";
import { type Context, redactionOf } from "./context.ts";
import { count } from "./format/text.ts";

export type WorkerOptions = {
  agents: Agent[];
  redis: string;
  concurrency?: number | undefined;
  queues?: string[] | undefined;
};

/** A worker of this process, with what it was started with in words. */
export type RunningWorker = {
  /** One line: agents, queues, concurrency, Redis without its password. */
  description: string;
  /** Lets steps finish within the grace time, hands back what is left, and closes everything. */
  stop(): Promise<void>;
};

/**
 * Starts a worker in this process. Its log lines go to standard error, since standard output is the command's.
 *
 * @throws DroverError when Redis is away or unusable.
 */
export async function startWorker(context: Context, options: WorkerOptions): Promise<RunningWorker> {
  const config = context.config();
  const { agents, redis, queues, concurrency = config.concurrency } = options;
  const logger = createLogger({ level: config.logLevel, destination: process.stderr });
  const { prefix, shards, payloadLimitBytes, retention, durability, memoryLimitPercent, policy } = config;
  const { stopGraceMs: graceMs, stuckAfterMs, isolateAfter, metricsPort: port, metricsHost: host } = config;
  const drover = createDrover({
    redis,
    prefix,
    shards,
    payloadLimitBytes,
    retention,
    durability,
    memoryLimitPercent,
    agents,
    logger,
    policy,
    redaction: redactionOf(config),
    metrics: port === undefined ? undefined : { port, host },
  });
  try {
    const worker = await drover.work({ concurrency, queues, graceMs, stuckAfterMs, isolateAfter });
    const rules = policy === undefined ? "" : ` | policy of ${count(policy.length, "rule")}`;
    const names = agents.map((agent) => agent.name).join(", ");
    return {
      description: `agents ${names} | queues ${worker.queues.join(", ")} | concurrency ${concurrency}${rules} | redis ${hidePassword(redis)}`,
      stop: () => drover.close(),
    };
  } catch (error) {
    await drover.close();
    throw error;
  }
}
