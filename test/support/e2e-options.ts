import { z } from "zod";
import { durabilitySchema } from "../../src/core/durability.ts";
import { operatorLimitsSchema } from "../../src/core/fleet-limits.ts";

/** How a worker process of the end-to-end tests is to be; it travels in its environment, as JSON. */
export const e2eVariable = "DROVER_E2E";

const optionsSchema = z.object({
  redisUrl: z.string(),
  prefix: z.string(),
  shards: z.int().optional(),
  /** Of the fake model server. */
  baseURL: z.string(),
  gateUrl: z.string(),
  ledgerDir: z.string(),
  /** Every step that ended is delivered once more at once. */
  redeliver: z.boolean().default(false),
  /** Model steps ask the gate between reading the run and going on. */
  holdLoads: z.boolean().default(false),
  /** Tool steps ask the gate between keeping what was cut out of a result and committing it. */
  holdOutputs: z.boolean().default(false),
  /** Where the process kills itself; see `withKillPoint`. */
  killAt: z
    .object({
      point: z.enum(["before_commit", "after_commit", "after_queue"]),
      /** The n-th commit of this process, from 1; with `runId`, of that run. */
      commit: z.int().min(1),
      runId: z.string().optional(),
    })
    .optional(),
  /** A module that its process loads before the program. */
  preload: z.string().optional(),
  /** Another program than this version's, to be run with the same options. */
  program: z.string().optional(),
  /** How wrong its clock is, in ms; `jumpMs` is added when it has run for `jumpAfterMs`. See `skewed-clock.ts`. */
  clock: z
    .object({ skewMs: z.int().default(0), jumpMs: z.int().default(0), jumpAfterMs: z.int().default(0) })
    .optional(),
  durability: durabilitySchema.optional(),
  graceMs: z.int().optional(),
  /** How long a lock outlives its worker; through the front door only. */
  lockMs: z.int().optional(),
  /** How many workers a step may lose before it runs alone; through the front door only. */
  isolateAfter: z.int().optional(),
  /** The heap that the process may have, in MB. */
  heapMb: z.int().optional(),
  concurrency: z.int().optional(),
  toolTimeoutMs: z.int().optional(),
  approvalExpiresMs: z.int().optional(),
  /** Settings of a worker started by the command line. */
  env: z.record(z.string(), z.string()).optional(),
  /** `DROVER_POLICY` of a worker started by the command line. */
  policy: z.string().optional(),
  /** What operators limit. */
  limits: operatorLimitsSchema.optional(),
  /** Each agent has a tool `browse` with that queue of its own. */
  ownQueue: z.string().optional(),
  /** Names of the agents it knows; each has all tools. */
  agents: z.array(z.string()).default(["e2e"]),
  /** Tools by which they hand work to the first of them, one for each policy: `hand_continue`, `hand_fail`, `hand_retry`. */
  handOn: z.boolean().default(false),
  /** Each agent asks for a model of its own name, instead of all for `fake`. */
  ownModels: z.boolean().default(false),
  /** Limits of those agents. */
  maxTurns: z.int().optional(),
  logLevel: z.enum(["debug", "info", "warn", "error"]).default("warn"),
});
export type E2eOptions = z.input<typeof optionsSchema>;
export type ParsedE2eOptions = z.output<typeof optionsSchema>;

export function readE2eOptions(): ParsedE2eOptions {
  return optionsSchema.parse(JSON.parse(process.env[e2eVariable] ?? "{}"));
}
