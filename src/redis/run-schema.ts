// What is stored of a run and its open calls. Objects are read loosely: what a newer version put in comes back as it was
// when this version writes.

import { z } from "zod";
import { childFailurePolicies } from "../core/child.ts";
import { decisionSchema, messageSchema } from "../core/message.ts";
import { stopReasons } from "../core/run.ts";

export const count: z.ZodInt = z.int().nonnegative();
export const time: z.ZodNumber = z.number();
const holdSchema = z.looseObject({ reason: z.string(), detail: z.string(), count, gate: z.string().optional() });
const errorSchema = z.looseObject({ code: z.string(), message: z.string() });
const stepFields = {
  attempt: z.int(),
  owedAt: count,
  crashes: count.optional(),
  isolatedStarts: count.optional(),
};

const limits = z.looseObject({
  maxTurns: z.number().optional(),
  maxTokens: z.number().optional(),
  maxCostUsd: z.number().optional(),
  deadlineMs: z.number().optional(),
  repeats: z.number().optional(),
  maxReasks: z.number().optional(),
  maxBytes: z.number().optional(),
  maxMessageBytes: z.number().optional(),
});

const headFields = z.object({
  agent: z.string(),
  agentHash: z.string().optional(),
  stopReason: z.enum(stopReasons).optional(),
  error: errorSchema.optional(),
  turns: count,
  model: z
    .looseObject({
      ...stepFields,
      task: z.enum(["summary", "verify"]).optional(),
      upTo: count.optional(),
      refused: count.optional(),
      notBefore: time.optional(),
      hold: holdSchema.optional(),
    })
    .optional(),
  pendingInput: z.array(messageSchema).default([]),
  inputIds: z.array(z.string()).default([]),
  messageCount: count,
  inputCount: count.optional(),
  baseMessage: count.optional(),
  earlierParts: z.array(z.tuple([count, count])).optional(),
  place: z
    .looseObject({
      state: z.enum(["delayed", "joined", "queued", "active", "leaving"]),
      round: count,
      owedAt: count,
      notBefore: time.optional(),
    })
    .optional(),
  bytes: count.optional(),
  eventSeq: count,
  limits: limits.default({}),
  retryLimits: limits.optional(),
  summary: z.looseObject({ id: count, text: z.string(), upTo: count }).optional(),
  windowBudget: count.optional(),
  repeatsFrom: count.optional(),
  structured: z.boolean().optional(),
  reasks: count.optional(),
  verifications: count.optional(),
  unchecked: z.boolean().optional(),
  usage: z.looseObject({
    inputTokens: z.number(),
    outputTokens: z.number(),
    cachedTokens: z.number(),
    costUsd: z.number().optional(),
    estimated: z.boolean().optional(),
  }),
  lateUsage: z.array(z.string()).default([]),
  deadlineAt: time.optional(),
  deadlineMs: z.number().optional(),
  wakeOwedAt: count,
  createdAt: time,
  updatedAt: time,
  startedAt: time.optional(),
  endedAt: time.optional(),
  inputHash: z.string(),
  metadata: z.record(z.string(), z.unknown()).default({}),
  session: z.string().optional(),
  priority: z.number().optional(),
  tenant: z.string().optional(),
  parent: z
    .looseObject({
      runId: z.string(),
      callId: z.string(),
      depth: count,
      retries: count.optional(),
      owedAt: count.optional(),
    })
    .optional(),
  leftChildren: z.looseObject({ runIds: z.array(z.string()), owedAt: count }).optional(),
  paused: z.looseObject({ by: z.string(), reason: z.string(), at: time }).optional(),
  dryRun: z.boolean().optional(),
  tools: z
    .array(z.looseObject({ name: z.string(), description: z.string(), parameters: z.record(z.string(), z.unknown()) }))
    .optional(),
  trace: z.looseObject({
    traceId: z.string(),
    rootSpanId: z.string(),
    parentSpanId: z.string().optional(),
    flags: z.number(),
  }),
});
export const headSchema: z.ZodType<Record<string, unknown>> = headFields;
/** What this version knows of a head; all else is written back as it came. */
export const knownFields: ReadonlySet<string> = new Set(Object.keys(headFields.shape));
const child = z.looseObject({
  agent: z.string(),
  onFailure: z.enum(childFailurePolicies),
  retries: count,
  runId: z.string(),
  since: time.optional(),
  begunBy: count.optional(),
  lookedFor: count.optional(),
  lost: count.optional(),
});
const callBase = {
  ...stepFields,
  callId: z.string(),
  toolCallId: z.string(),
  turn: count,
  position: count,
  tool: z.string(),
  effect: z.enum(["read", "write", "irreversible"]),
  repeatable: z.boolean(),
  onUnknown: z.enum(["tell", "ask"]),
  timeoutMs: z.number(),
  queue: z.string().optional(),
  question: z.looseObject({ argumentsHash: z.string(), description: z.string(), reason: z.string() }).optional(),
  decision: decisionSchema.optional(),
  approvalIds: z.array(z.string()).optional(),
  child: child.optional(),
};
const started = { ...callBase, startToken: z.string(), timeoutAt: time };
/** Runs for these readers and up are stored without what follows from the rest: ids in calls, the status counted under, a listing of all. */
export const compactReader = 5;
export const callSchema: z.ZodType<Record<string, unknown>> = z.discriminatedUnion("state", [
  z.looseObject({ ...callBase, state: z.literal("approval"), askedAt: time, expiresAt: time.optional() }),
  z.looseObject({ ...callBase, state: z.literal("ready"), notBefore: time.optional(), hold: holdSchema.optional() }),
  z.looseObject({ ...started, state: z.literal("started") }),
  z.looseObject({ ...started, state: z.literal("lost") }),
  z.looseObject({ ...callBase, state: z.literal("asking"), askedAt: time }),
  z.looseObject({
    ...callBase,
    state: z.literal("answer"),
    from: z.enum(["person", "caller"]),
    askedAt: time,
    expiresAt: time.optional(),
    answerSchema: z.record(z.string(), z.unknown()).optional(),
  }),
  z.looseObject({ ...callBase, state: z.literal("child"), child: child.extend({ since: time }), lookAt: time }),
  z.looseObject({ ...callBase, state: z.literal("settled") }),
]);
