import type { World } from "../../support/world.ts";

export type Remnant = {
  queue: string;
  runId: string;
  owedAt: number;
  index: number;
  /** The set that the job lies in; none: it is in limbo. */
  state?: "failed" | "completed" | undefined;
};

/** Puts what a crash leaves of a job where a step's own job would be: its data, in a list of the dead or in none. */
export async function putRemnant({ redis, keys }: World, { queue, state, ...step }: Remnant): Promise<void> {
  const base = `${keys.queuePrefix}:${queue}`;
  const jobId = `${step.owedAt}-${step.index}-${step.runId}`;
  const data = JSON.stringify(step);
  const fields = {
    name: queue === "model" ? "model" : "tool",
    data,
    opts: "{}",
    timestamp: Date.now(),
    delay: 0,
    priority: 0,
  };
  await redis.hset(`${base}:${jobId}`, fields);
  if (state) await redis.zadd(`${base}:${state}`, Date.now(), jobId);
}
