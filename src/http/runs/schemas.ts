import { z } from "zod";
import { runStatuses, stopReasons } from "../../core/run.ts";

// What the API gives out. These document; what comes in is validated by the schemas of core.

const epochMs = (of: string): z.ZodType<number> => z.int().describe(`${of}, epoch ms by Redis's clock`);

export const problemSchema: z.ZodType = z
  .object({
    type: z.literal("about:blank"),
    title: z.string(),
    status: z.int(),
    detail: z.string().describe("What happened and what to do next"),
    code: z
      .enum([
        "invalid",
        "conflict",
        "not_found",
        "not_allowed",
        "too_large",
        "timeout",
        "queue_unavailable",
        "unsupported",
        "stopped",
        "unauthorized",
        "forbidden",
        "internal",
      ])
      .describe("For programs to switch on"),
    errors: z
      .array(z.object({ field: z.string().describe("Such as `body.limits.maxTurns`"), message: z.string() }))
      .optional(),
    requestId: z.string().optional().describe("Also in `X-Request-Id`, and in the server's log"),
  })
  .meta({ id: "Problem", description: "RFC 9457 problem details" });

export const usageSchema: z.ZodType = z
  .object({
    inputTokens: z.number(),
    outputTokens: z.number(),
    cachedTokens: z.number(),
    costUsd: z.number().optional(),
    estimated: z.boolean().optional().describe("Some of it was counted by Drover, not by the provider"),
  })
  .meta({ id: "Usage" });

const errorSchema = z.object({ code: z.string(), message: z.string() }).meta({ id: "RunError" });

export const openCallSchema: z.ZodType = z
  .looseObject({
    callId: z.string().describe("Such as `call-2-1`: turn and position"),
    tool: z.string(),
    state: z.string().describe("`approval` and `asking` wait for a person, `ready` and `started` for a worker"),
    attempt: z.int(),
    effect: z.enum(["read", "write", "irreversible"]),
    arguments: z.string().describe("JSON text, secrets redacted"),
    argumentsHash: z.string().optional().describe("What `approve` can be bound to"),
    description: z.string().optional().describe("What it would do, in its tool's words"),
    reason: z.string().optional().describe("Why a person is asked"),
    askedAt: epochMs("Since when").optional(),
    expiresAt: epochMs("Until when").optional(),
    notBefore: epochMs("The next attempt, or what time alone will do").optional(),
  })
  .meta({ id: "OpenCall", description: "Something the run waits for" });

export const runSchema: z.ZodType = z
  .looseObject({
    runId: z.string(),
    agent: z.string(),
    status: z.enum(runStatuses),
    stopReason: z.enum(stopReasons).optional(),
    error: errorSchema.optional(),
    session: z.string().optional(),
    tenant: z.string().optional(),
    metadata: z.record(z.string(), z.unknown()),
    ahead: z.int().optional().describe("Runs of its session that go first"),
    waitingFor: z.string().optional(),
    dryRun: z.literal(true).optional(),
    turns: z.int(),
    openCalls: z.array(openCallSchema),
    usage: usageSchema,
    createdAt: epochMs("When it was created"),
    updatedAt: epochMs("When it last changed"),
    endedAt: epochMs("When it ended").optional(),
    traceId: z.string(),
  })
  .meta({ id: "Run", description: "A run as it is now, secrets redacted" });
