import { z } from "zod";
import type { WindowSettings } from "./window.ts";

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
 * - `deadlineMs`: from the creation of the run;
 * - `repeats`: so many equal rounds of calls with equal results bring a warning to the model, one more the end; default 2;
 * - `maxBytes`: what is kept of the run: messages, results, what was cut out of them, and its feed; default 64 MiB;
 * - `maxMessageBytes`: one message: of the input, an answer, or what is kept of a tool's result; default 16 MiB;
 * - `maxReasks`: so often a final answer that does not fit the output, or fails its verification, is asked for again; default 2.
 */
export type Limits = {
  maxTurns?: number | undefined;
  maxTokens?: number | undefined;
  maxCostUsd?: number | undefined;
  deadlineMs?: number | undefined;
  repeats?: number | undefined;
  maxReasks?: number | undefined;
  maxBytes?: number | undefined;
  maxMessageBytes?: number | undefined;
};
/** No value in Redis may be longer. */
const mostBytes = 512 * 1_048_576;

export const limitsSchema: z.ZodType<Limits> = z.strictObject({
  maxTurns: z.int().min(1).max(100_000).optional(),
  maxTokens: z.int().min(1).optional(),
  maxCostUsd: z.number().positive().optional(),
  deadlineMs: z
    .int()
    .min(1)
    .max(10 * 365 * 24 * 3_600_000)
    .optional(),
  repeats: z.int().min(2).max(1_000).optional(),
  maxReasks: z.int().min(0).max(1_000).optional(),
  maxBytes: z.int().min(1_024).max(mostBytes).optional(),
  maxMessageBytes: z.int().min(1_024).max(mostBytes).optional(),
});

const defaultMaxTurns = 15;
const defaultRepeats = 2;
const defaultMaxReasks = 2;
const defaultMaxBytes = 64 * 1_048_576;
const defaultMaxMessageBytes = 16 * 1_048_576;

/** How often and after what waits a failed attempt is made again. `delayMs` is the first wait; it doubles, with jitter. */
export type RetryPolicy = { attempts: number; delayMs: number };

/**
 * At most `max` executions begin in any `perMs` over all workers, spread evenly.
 * - `burst`: so many may begin at once after a quiet time; default 1.
 */
export type RateLimit = { max: number; perMs: number; burst?: number | undefined };

export const rateSchema: z.ZodType<RateLimit> = z.strictObject({
  max: z.int().min(1).max(1_000_000),
  perMs: z
    .int()
    .min(1)
    .max(31 * 24 * 3_600_000),
  burst: z.int().min(1).max(1_000_000).optional(),
});

/** Switched off for `openMs` after so many failures in a row over all workers. */
export type BreakerPolicy = { failures: number; openMs: number };

/** What holds for one name over the whole fleet, be it a tool or a model. */
export type FleetLimits = {
  rate?: RateLimit | undefined;
  /** So many executions at once, over all workers. */
  concurrency?: number | undefined;
};

/** The form of a final answer: `schema` is a JSON Schema, `name` what servers call it. */
export type OutputSpec = { name: string; schema: Record<string, unknown> };

/** The stored, hashed form of an agent: everything that shapes a request, no code, no secret. */
export type AgentDefinition = {
  name: string;
  instructions: string;
  model: string;
  provider: string;
  tools: ToolSpec[];
  request: Record<string, unknown>;
  limits: Limits;
  /** What the final answer must be, as JSON Schema; see features H17. */
  output?: OutputSpec | undefined;
  /** Undefined in records of older versions: the defaults. */
  window?: WindowSettings | undefined;
  version?: string | undefined;
};

/** The smaller of two bounds, where undefined is no bound. */
export function stricter(a: number | undefined, b: number | undefined): number | undefined {
  if (a === undefined || b === undefined) return a ?? b;
  return Math.min(a, b);
}

/** Limits with their defaults filled in. */
export type LimitsInForce = Limits & {
  maxTurns: number;
  repeats: number;
  maxReasks: number;
  maxBytes: number;
  maxMessageBytes: number;
};

/** The stricter of two limits, field by field. */
export function tightenLimits(agent: Limits, producer: Limits): LimitsInForce {
  const { maxTurns = defaultMaxTurns, repeats = defaultRepeats, maxReasks = defaultMaxReasks } = agent;
  const { maxBytes = defaultMaxBytes, maxMessageBytes = defaultMaxMessageBytes } = agent;
  return {
    maxTurns: Math.min(maxTurns, producer.maxTurns ?? maxTurns),
    maxTokens: stricter(agent.maxTokens, producer.maxTokens),
    maxCostUsd: stricter(agent.maxCostUsd, producer.maxCostUsd),
    deadlineMs: stricter(agent.deadlineMs, producer.deadlineMs),
    repeats: Math.min(repeats, producer.repeats ?? repeats),
    maxReasks: Math.min(maxReasks, producer.maxReasks ?? maxReasks),
    maxBytes: Math.min(maxBytes, producer.maxBytes ?? maxBytes),
    maxMessageBytes: Math.min(maxMessageBytes, producer.maxMessageBytes ?? maxMessageBytes),
  };
}
