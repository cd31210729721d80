import { z } from "zod";

const shared = {
  tool: z.string(),
  runId: z.string(),
  callId: z.string(),
  /** Idempotency key: the same for every attempt of one call. */
  key: z.string(),
  attempt: z.int(),
  pid: z.int(),
  /** Epoch ms. */
  at: z.number(),
};

/**
 * What a tool did, noted outside of Redis by the process it ran in:
 * - `begun`: before its code ran;
 * - `ended`: after it; `retry` says that nothing happened. `result` is a hash of what it returned;
 * - `effect`: an effect took place, as the tool itself tells (`recordEffect` of drover/testing).
 */
export const executionSchema: z.ZodType<Execution> = z.discriminatedUnion("type", [
  z.object({ type: z.literal("begun"), ...shared, seq: z.int().optional() }),
  z.object({
    type: z.literal("ended"),
    ...shared,
    outcome: z.enum(["ok", "retry", "failed", "threw"]),
    result: z.string().optional(),
  }),
  z.object({ type: z.literal("effect"), key: z.string(), what: z.string(), pid: z.int(), at: z.number() }),
]);

export type Place = {
  tool: string;
  runId: string;
  callId: string;
  key: string;
  attempt: number;
  pid: number;
  at: number;
};
/** `seq`: the last entry of its run's feed that its step knew of. */
export type Begun = Place & { type: "begun"; seq?: number | undefined };
export type Ended = Place & {
  type: "ended";
  outcome: "ok" | "retry" | "failed" | "threw";
  result?: string | undefined;
};
export type EffectNoted = { type: "effect"; key: string; what: string; pid: number; at: number };
export type Execution = Begun | Ended | EffectNoted;
