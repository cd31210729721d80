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
        "rate_limited",
        "internal",
      ])
      .describe("For programs to switch on"),
    errors: z
      .array(z.object({ field: z.string().describe("Such as `body.limits.maxTurns`"), message: z.string() }))
      .optional(),
    requestId: z.string().optional().describe("Also in `X-Request-Id`, and in the server's log"),
  })
  .meta({ id: "Problem", description: "RFC 9457 problem details" });

const usageSchema: z.ZodType = z
  .object({
    inputTokens: z.number(),
    outputTokens: z.number(),
    cachedTokens: z.number(),
    costUsd: z.number().optional(),
    estimated: z.boolean().optional().describe("Some of it was counted by Drover, not by the provider"),
  })
  .meta({ id: "Usage" });

const errorSchema = z.object({ code: z.string(), message: z.string() }).meta({ id: "RunError" });

const openCallSchema: z.ZodType = z
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
    child: z.object({ runId: z.string(), agent: z.string() }).optional().describe("The run that is its execution"),
    notBefore: epochMs("The next attempt, or what time alone will do").optional(),
  })
  .meta({ id: "OpenCall", description: "Something the run waits for" });

const pauseSchema = z
  .object({ by: z.string(), reason: z.string(), at: epochMs("Since when") })
  .meta({ id: "Pause", description: "Who paused it and why" });

export const pausedFleetSchema: z.ZodType = z
  .object({
    by: z.string(),
    reason: z.string(),
    at: epochMs("Since when"),
    applied: z.boolean().describe("False: it was paused before, as the other fields say"),
    workers: z.int(),
    taking: z.int().describe("Workers that have not said yet that they take no more steps"),
  })
  .meta({ id: "PausedFleet" });

export const resumedFleetSchema: z.ZodType = z
  .object({ applied: z.boolean().describe("False: it was not paused") })
  .meta({ id: "ResumedFleet" });

export const runSchema: z.ZodType = z
  .looseObject({
    runId: z.string(),
    agent: z.string(),
    status: z.enum(runStatuses),
    stopReason: z.enum(stopReasons).optional(),
    error: errorSchema.optional(),
    session: z.string().optional(),
    tenant: z.string().optional(),
    parent: z
      .object({ runId: z.string(), callId: z.string() })
      .optional()
      .describe("Whose call it is the execution of"),
    paused: pauseSchema.optional(),
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

export const runsSchema: z.ZodType = z
  .object({ runs: z.array(runSchema), cursor: z.string().optional() })
  .meta({ id: "RunPage" });

export const resultSchema: z.ZodType = z
  .looseObject({
    runId: z.string(),
    status: z.enum(["completed", "failed", "cancelled", "rejected"]),
    stopReason: z.enum(stopReasons).optional(),
    output: z.string().optional().describe("The final answer; JSON text if the agent has an `output`"),
    error: errorSchema.optional(),
    turns: z.int(),
    usage: usageSchema,
    dryRun: z.literal(true).optional(),
    described: z.array(z.looseObject({})).optional().describe("Of a dry run: what it would have done"),
  })
  .meta({ id: "Result" });

const contentSchema = z.union([z.string(), z.array(z.looseObject({ type: z.string() }))]);

const messageSchema: z.ZodType = z
  .looseObject({
    role: z.enum(["system", "developer", "user", "assistant", "tool"]),
    content: contentSchema.nullable(),
    toolCalls: z
      .array(z.looseObject({ callId: z.string(), id: z.string(), name: z.string(), arguments: z.string() }))
      .optional()
      .describe("Of an assistant's message"),
    callId: z.string().optional().describe("Of a tool's message, as the rest"),
    name: z.string().optional(),
    outcome: z.enum(["ok", "failed", "denied", "cancelled", "unknown"]).optional(),
  })
  .meta({ id: "Message" });

export const transcriptSchema: z.ZodType = z
  .object({
    from: z.int(),
    total: z.int().describe("Messages that there are"),
    next: z.int().optional().describe("Where the next page begins, if there is one"),
    messages: z.array(messageSchema),
  })
  .meta({ id: "Transcript" });

export const sessionSchema: z.ZodType = z
  .object({ session: z.string(), active: runSchema.optional(), queued: z.array(runSchema) })
  .meta({ id: "Session" });

export const pieceSchema: z.ZodType = z
  .object({
    from: z.int(),
    to: z.int(),
    chars: z.int().describe("Length of the whole"),
    text: z.string().describe("Secrets redacted, so that it may be shorter or longer than the piece"),
  })
  .meta({ id: "Piece" });

export const auditSchema: z.ZodType = z
  .object({
    entries: z.array(
      z.looseObject({
        at: epochMs("When"),
        by: z.string().describe("A key's name; `drover` for what nobody ordered"),
        action: z.string(),
        callId: z.string().optional(),
        tool: z.string().optional(),
        argumentsHash: z.string().optional(),
        reason: z.string().optional(),
      }),
    ),
  })
  .meta({ id: "Audit" });

const stepSchema = z.looseObject({
  kind: z.enum(["model", "tool", "summary", "verify", "approval", "answer"]),
  attempt: z.int(),
  outcome: z.string(),
  callId: z.string().optional(),
  tool: z.string().optional(),
  startedAt: z.int().optional(),
  endedAt: z.int().optional(),
  queueWaitMs: z.number().optional(),
  performMs: z.number().optional(),
  deliveries: z.int().optional(),
});

export const turnsSchema: z.ZodType = z
  .object({
    total: z.int(),
    turns: z.array(
      z.looseObject({
        turn: z.int(),
        startedAt: epochMs("When its first step was owed"),
        endedAt: epochMs("When it was over").optional(),
        steps: z.array(stepSchema),
        request: z.looseObject({}).optional().describe("What the model was sent"),
        answer: messageSchema.optional(),
        calls: z.array(z.looseObject({ callId: z.string(), tool: z.string(), arguments: z.string() })),
        usage: usageSchema,
        input: z.array(messageSchema),
      }),
    ),
  })
  .meta({ id: "Turns" });

export const countsSchema: z.ZodType = z
  .object(Object.fromEntries(runStatuses.map((status) => [status, z.int()])))
  .meta({ id: "Counts" });

export const agentsSchema: z.ZodType = z.object({
  agents: z.array(
    z.looseObject({
      name: z.string(),
      model: z.string(),
      tools: z.array(z.string()),
      version: z.string().optional(),
      seenAt: epochMs("When a worker told of it last"),
    }),
  ),
});

export const fleetSchema: z.ZodType = z
  .looseObject({
    at: epochMs("Of this view"),
    redis: z.looseObject({ version: z.string(), usedMemoryBytes: z.int(), clients: z.int(), roundTripMs: z.number() }),
    workers: z.array(z.looseObject({ id: z.string(), host: z.string(), pid: z.int(), running: z.int() })),
    queues: z.array(
      z.looseObject({
        name: z.string(),
        waiting: z.int(),
        active: z.int(),
        delayed: z.int(),
        oldestAgeMs: z.number().optional(),
        paused: z.boolean().optional(),
        workers: z.int(),
      }),
    ),
    gates: z.array(z.looseObject({ key: z.string(), inside: z.int(), waiting: z.int() })),
    counts: countsSchema,
    owing: z.object({ count: z.int(), oldestSince: z.int().optional() }),
    paused: pauseSchema.optional(),
  })
  .meta({ id: "FleetView" });
