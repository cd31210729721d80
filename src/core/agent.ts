import { z } from "zod";

/** What a tool does to the world: nothing, something, or something that cannot be taken back. */
export type Effect = "read" | "write" | "irreversible";

/** A tool as the model sees it. `parameters` is a JSON Schema object. */
export type ToolSpec = {
  name: string;
  description: string;
  parameters: Record<string, unknown>;
};

/**
 * Bounds of a run. A producer's limits can only tighten the agent's.
 * - `maxTurns`: model answers, default 15;
 * - `maxTokens`: input plus output tokens over the whole run;
 * - `maxCostUsd`: needs a price on the model;
 * - `deadlineMs`: from the creation of the run.
 */
export type Limits = {
  maxTurns?: number | undefined;
  maxTokens?: number | undefined;
  maxCostUsd?: number | undefined;
  deadlineMs?: number | undefined;
};
export const limitsSchema: z.ZodType<Limits> = z.strictObject({
  maxTurns: z.int().min(1).max(100_000).optional(),
  maxTokens: z.int().min(1).optional(),
  maxCostUsd: z.number().positive().optional(),
  deadlineMs: z
    .int()
    .min(1)
    .max(10 * 365 * 24 * 3_600_000)
    .optional(),
});

const defaultMaxTurns = 15;

/** How often and after what waits a failed attempt is made again. `delayMs` is the first wait; it doubles, with jitter. */
export type RetryPolicy = { attempts: number; delayMs: number };

/** The stored, hashed form of an agent: everything that shapes a request, no code, no secret. */
export type AgentDefinition = {
  name: string;
  instructions: string;
  model: string;
  provider: string;
  tools: ToolSpec[];
  request: Record<string, unknown>;
  limits: Limits;
  version?: string | undefined;
};

/** The smaller of two bounds, where undefined is no bound. */
export function stricter(a: number | undefined, b: number | undefined): number | undefined {
  if (a === undefined || b === undefined) return a ?? b;
  return Math.min(a, b);
}

/** The stricter of two limits, field by field. */
export function tightenLimits(agent: Limits, producer: Limits): Limits {
  return {
    maxTurns: stricter(agent.maxTurns ?? defaultMaxTurns, producer.maxTurns),
    maxTokens: stricter(agent.maxTokens, producer.maxTokens),
    maxCostUsd: stricter(agent.maxCostUsd, producer.maxCostUsd),
    deadlineMs: stricter(agent.deadlineMs, producer.deadlineMs),
  };
}
