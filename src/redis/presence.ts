import { z } from "zod";
import { rateSchema } from "../core/agent.ts";
import { toError } from "../core/errors.ts";
import type { KnownAgent, KnownGate, Logger, Presence, WorkerPresence } from "../ports.ts";
import { createDampedWarning, type RedisConnection } from "./connection.ts";
import type { Keys } from "./keys.ts";
import { leaveScript, tellScript, toldScript } from "./presence-scripts.ts";
import { runScript } from "./read.ts";
import { parseStored } from "./run-codec.ts";

const workerSchema: z.ZodType<WorkerPresence> = z.object({
  id: z.string(),
  host: z.string(),
  pid: z.int(),
  version: z.string(),
  startedAt: z.number(),
  seenAt: z.number(),
  queues: z.array(z.string()),
  concurrency: z.int(),
  running: z.int(),
  agents: z.array(z.string()),
  paused: z.boolean().optional(),
});
const gateSchema: z.ZodType<KnownGate> = z.object({
  key: z.string(),
  kind: z.enum(["tool", "model"]),
  name: z.string(),
  rate: rateSchema.optional(),
  concurrency: z.int().optional(),
});
const toldWorkerSchema = z.object({ worker: workerSchema });
/** Of a worker that cannot be read itself, limits hold where no other one has them. */
const toldGatesSchema = z.object({
  worker: z.object({ seenAt: z.number() }).catch({ seenAt: 0 }),
  gates: z.array(z.unknown()),
});
const agentSchema: z.ZodType<KnownAgent> = z.object({
  name: z.string(),
  model: z.string(),
  tools: z.array(z.string()),
  version: z.string().optional(),
  queues: z.array(z.string()).optional(),
  output: z.object({ name: z.string(), schema: z.record(z.string(), z.unknown()) }).optional(),
  seenAt: z.number(),
});

export type RedisPresenceOptions = {
  connection: RedisConnection;
  keys: Keys;
  /** Told of what cannot be read. */
  logger?: Logger | undefined;
};

/** Workers telling of themselves, in Redis and by its clock. Contract: `Presence`. */
export function createRedisPresence({ connection, keys, logger }: RedisPresenceOptions): Presence {
  const { until, told, agents: agentsKey } = keys.presence;
  const warn = createDampedWarning(logger);

  /** Nothing if it cannot be read: that must not hide all others. */
  function readable<T>(schema: z.ZodType<T>, json: string, where: string): T[] {
    try {
      return [parseStored(schema, json, where)];
    } catch (error) {
      const { message } = toError(error);
      warn(message, { error: message }, "what a worker has told is left out of the fleet because it cannot be read");
      return [];
    }
  }

  async function read(): Promise<{ json: string; where: string }[]> {
    const rows = await connection.use((client) => runScript(client, toldScript, { keys: [until, told], args: [] }));
    const all: { json: string; where: string }[] = [];
    for (let index = 0; index + 1 < rows.length; index += 2) {
      all.push({ json: String(rows[index + 1]), where: `worker ${rows[index]} (key ${told})` });
    }
    return all;
  }

  return {
    async tell(worker, agents, gates, ttlMs) {
      const fields = agents.flatMap((agent) => [agent.name, JSON.stringify(agent)]);
      const args = [ttlMs, worker.id, JSON.stringify({ worker, gates }), ...fields];
      await connection.use((client) => runScript(client, tellScript, { keys: [until, told, agentsKey], args }));
    },
    async leave(workerId) {
      await connection.use((client) => runScript(client, leaveScript, { keys: [until, told], args: [workerId] }));
    },
    async workers() {
      const workers = (await read()).flatMap(({ json, where }) => readable(toldWorkerSchema, json, where));
      return workers.map((one) => one.worker).sort(byStart);
    },
    async agents() {
      const stored = await connection.use((client) => client.hgetall(agentsKey));
      return Object.entries(stored)
        .flatMap(([name, json]) => readable(agentSchema, json, `agent ${name} (key ${agentsKey})`))
        .sort((a, b) => compare(a.name, b.name));
    },
    async forgetAgent(name) {
      await connection.use((client) => client.hdel(agentsKey, name));
    },
    async gates() {
      const limits = (await read()).flatMap(({ json, where }) =>
        readable(toldGatesSchema, json, where).flatMap(({ worker: { seenAt }, gates }) =>
          gates
            .flatMap((gate) => readable(gateSchema, JSON.stringify(gate), `a limit of ${where}`))
            .map((gate) => ({ gate, seenAt })),
        ),
      );
      limits.sort((a, b) => a.seenAt - b.seenAt);
      const byKey = new Map(limits.map(({ gate }) => [gate.key, gate]));
      return [...byKey.values()].sort((a, b) => compare(a.key, b.key));
    },
  };
}

function byStart(a: WorkerPresence, b: WorkerPresence): number {
  return a.startedAt - b.startedAt || compare(a.id, b.id);
}

function compare(a: string, b: string): number {
  if (a === b) return 0;
  return a < b ? -1 : 1;
}
