import type { Redis, RedisOptions } from "ioredis";
import { createStepQueue } from "./bullmq/step-queue.ts";
import type { OperatorLimits } from "./core/fleet-limits.ts";
import type { Redaction } from "./core/redact-event.ts";
import { createEngine, type Engine } from "./engine/engine.ts";
import type { SweepDeps } from "./engine/sweep.ts";
import { createFleetReader } from "./fleet.ts";
import { createIds } from "./ids.ts";
import { isolatedStep, isolateInChild } from "./isolate.ts";
import type { AgentRegistry, FleetReader, Logger, Presence, Signals, Telemetry } from "./ports.ts";
import { type ConnectionRole, connect, type RedisConnection } from "./redis/connection.ts";
import { createRedisGates } from "./redis/gates.ts";
import { createKeys } from "./redis/keys.ts";
import { createRedisPresence } from "./redis/presence.ts";
import { createRedisClock, type RedisClock } from "./redis/redis-clock.ts";
import { createRedisRunStore } from "./redis/run-store.ts";
import { createRedisSignals } from "./redis/signals.ts";
import { tokenCounter } from "./tokens/token-counter.ts";
import { checkValue } from "./tools/parameters.ts";

/** A URL, ioredis options, or an ioredis instance to copy. */
export type RedisTarget = string | RedisOptions | Redis;

/** What both a producer and a worker are made over. */
export type BackendOptions = {
  redis: RedisTarget;
  prefix: string;
  agents: AgentRegistry;
  telemetry: Telemetry;
  logger: Logger;
  payloadLimitBytes: number;
  redaction: Redaction;
  /** What operators add to the limits of tools and models. */
  limits?: OperatorLimits | undefined;
};

/** An engine over Redis and BullMQ, with the parts that must be closed. */
export type Backend = SweepDeps & {
  engine: Engine;
  clock: RedisClock;
  signals: Signals;
  presence: Presence;
  fleet: FleetReader;
  connection: RedisConnection;
  close(): Promise<void>;
};

/**
 * Opens one connection for records and queues, so that a commit and the steps it makes owed leave together. As a
 * producer it fails at once while Redis is away; as a worker it waits.
 */
export function openBackend(options: BackendOptions, role: ConnectionRole): Backend {
  const { redis, prefix, logger } = options;
  const keys = createKeys(prefix);
  const connection = connect(redis, { role, logger, name: `drover-${role}` });
  const clock = createRedisClock({ connection, logger });
  const store = createRedisRunStore({ connection, keys, logger });
  const queue = createStepQueue({ connection, prefix, clock, logger });
  const signals = createRedisSignals({ target: redis, connection, keys, logger });
  const isolate = isolatedStep() ? undefined : isolateInChild;
  const gates = createRedisGates({ connection, keys });
  const presence = createRedisPresence({ connection, keys });
  const ports = { store, queue, signals, gates, clock, ids: createIds() };
  const engine = createEngine({ ...options, ...ports, isolate, checkValue, tokens: tokenCounter });
  return {
    engine,
    store,
    queue,
    clock,
    signals,
    presence,
    fleet: createFleetReader({ connection, keys, presence, store, gates }),
    logger,
    telemetry: options.telemetry,
    connection,
    close: async () => {
      engine.close();
      clock.stop();
      await Promise.allSettled([signals.close(), queue.close()]);
      await connection.close();
    },
  };
}
