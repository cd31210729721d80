import type { DurabilityTarget } from "./core/durability.ts";
import type { OperatorLimits } from "./core/fleet-limits.ts";
import type { Redaction } from "./core/redact-event.ts";
import { createElsewhere } from "./elsewhere.ts";
import { createEngine, type Engine } from "./engine/engine.ts";
import type { SweeperDeps } from "./engine/sweep.ts";
import { createFleetReader } from "./fleet.ts";
import { createIds } from "./ids.ts";
import { isolatedStep, isolateInChild } from "./isolate.ts";
import { type OpenShard, openShards } from "./open-shards.ts";
import type { AgentRegistry, FleetReader, FleetSwitch, Logger, Presence, Signals, Telemetry } from "./ports.ts";
import { type ConnectionRole, connect, type RedisConnection, type RedisTarget } from "./redis/connection.ts";
import { createRedisDurable } from "./redis/durable.ts";
import { createRedisFleetSwitch } from "./redis/fleet-switch.ts";
import { createRedisGates } from "./redis/gates.ts";
import { createKeys } from "./redis/keys.ts";
import { createRedisPresence } from "./redis/presence.ts";
import { createRedisClock, type RedisClock } from "./redis/redis-clock.ts";
import { createRedisResponseStore } from "./redis/response-store.ts";
import { createRedisRoom } from "./redis/room.ts";
import { withShardCount } from "./redis/shard-count.ts";
import { createRedisSignals } from "./redis/signals.ts";
import { tokenCounter } from "./tokens/token-counter.ts";
import { checkValue } from "./tools/parameters.ts";

export type { RedisTarget } from "./redis/connection.ts";

/** What both a producer and a worker are made over. */
export type BackendOptions = {
  redis: RedisTarget;
  prefix: string;
  /** How many shards runs are spread over; 1 is none. */
  shards: number;
  agents: AgentRegistry;
  telemetry: Telemetry;
  logger: Logger;
  payloadLimitBytes: number;
  /** Share of Redis's memory from which on new runs are refused. */
  memoryLimitPercent: number;
  redaction: Redaction;
  /** What an acknowledgement waits for; undefined: the commit. */
  durability?: DurabilityTarget | undefined;
  /** What operators add to the limits of tools and models. */
  limits?: OperatorLimits | undefined;
  /** How many workers a step may lose before it runs alone. */
  isolateAfter?: number | undefined;
};

/** An engine over Redis and BullMQ, with the parts that must be closed. */
export type Backend = SweeperDeps & {
  engine: Engine;
  clock: RedisClock;
  signals: Signals;
  presence: Presence;
  fleetSwitch: FleetSwitch;
  fleet: FleetReader;
  connection: RedisConnection;
  /** At least one. */
  shards: readonly OpenShard[];
  close(): Promise<void>;
};

/**
 * Opens one connection for records and queues, so that a commit and the steps it makes owed leave together. As a
 * producer it fails at once while Redis is away; as a worker it waits.
 */
export function openBackend(options: BackendOptions, role: ConnectionRole): Backend {
  const { redis, prefix, logger } = options;
  const keys = createKeys(prefix);
  const connection = withShardCount(connect(redis, { role, logger, name: `drover-${role}` }), keys, options.shards);
  const clock = createRedisClock({ connection, logger });
  const opened = openShards({ connection, keys, shards: options.shards, clock, logger });
  const { store, queue, shards } = opened;
  const signals = createRedisSignals({ target: redis, connection, keys, logger });
  const isAlone = isolatedStep() !== undefined;
  const isolate = isAlone ? undefined : isolateInChild;
  const gates = createRedisGates({ connection, keys });
  const presence = createRedisPresence({ connection, keys, logger });
  const fleetSwitch = createRedisFleetSwitch({ connection, keys });
  const places = shards.map((shard) => shard.keys.owing);
  const room = createRedisRoom({ connection, places, limitPercent: options.memoryLimitPercent });
  const durable =
    options.durability && createRedisDurable({ redis, target: options.durability, keysOf: opened.keysOf, logger });
  const elsewhere = createElsewhere(presence);
  const ports = { store, queue, durable, signals, gates, clock, room, elsewhere, ids: createIds() };
  const engine = createEngine({ ...options, ...ports, isolate, isAlone, checkValue, tokens: tokenCounter });
  return {
    engine,
    wakeSessions: engine.wakeSessions,
    store,
    queue,
    clock,
    signals,
    presence,
    fleetSwitch,
    responses: createRedisResponseStore({ connection, keys }),
    allRuns: store,
    fleet: createFleetReader({
      connection,
      keys,
      shards: shards.map((shard) => shard.keys),
      presence,
      fleetSwitch,
      store,
      gates,
    }),
    logger,
    telemetry: options.telemetry,
    connection,
    shards,
    close: async () => {
      engine.close();
      clock.stop();
      await Promise.allSettled([signals.close(), opened.close(), durable?.close()]);
      await connection.close();
    },
  };
}
