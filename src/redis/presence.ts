import { z } from "zod";
import { rateSchema } from "../core/agent.ts";
import type { KnownAgent, KnownGate, Presence, WorkerPresence } from "../ports.ts";
import type { RedisConnection } from "./connection.ts";
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
const toldSchema = z.object({ worker: workerSchema, gates: z.array(gateSchema) });
const agentSchema: z.ZodType<KnownAgent> = z.object({
  name: z.string(),
  model: z.string(),
  tools: z.array(z.string()),
  version: z.string().optional(),
  queues: z.array(z.string()).optional(),
  output: z.object({ name: z.string(), schema: z.record(z.string(), z.unknown()) }).optional(),
  seenAt: z.number(),
});

/** Workers telling of themselves, in Redis and by its clock. Contract: `Presence`. */
export function createRedisPresence({ connection, keys }: { connection: RedisConnection; keys: Keys }): Presence {
  const { until, told, agents: agentsKey } = keys.presence;

  async function read(): Promise<z.output<typeof toldSchema>[]> {
    const rows = await connection.use((client) => runScript(client, toldScript, { keys: [until, told], args: [] }));
    const all: z.output<typeof toldSchema>[] = [];
    for (let index = 0; index + 1 < rows.length; index += 2) {
      all.push(parseStored(toldSchema, String(rows[index + 1]), `worker ${rows[index]} (key ${told})`));
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
      return (await read()).map(({ worker }) => worker).sort(byStart);
    },
    async agents() {
      const stored = await connection.use((client) => client.hgetall(agentsKey));
      return Object.entries(stored)
        .map(([name, json]) => parseStored(agentSchema, json, `agent ${name} (key ${agentsKey})`))
        .sort((a, b) => compare(a.name, b.name));
    },
    async forgetAgent(name) {
      await connection.use((client) => client.hdel(agentsKey, name));
    },
    async gates() {
      const byAge = (await read()).sort((a, b) => a.worker.seenAt - b.worker.seenAt);
      const byKey = new Map(byAge.flatMap(({ gates }) => gates.map((gate) => [gate.key, gate])));
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
