import { z } from "zod";
import { type Limits, limitsSchema, type ToolSpec } from "./agent.ts";
import { feedEntryBytes, messageBytes } from "./bytes.ts";
import { callerToolsSchema } from "./caller-tools.ts";
import type { RunParent } from "./child.ts";
import { type InputMessage, inputSchema, type Message } from "./message.ts";
import { minReader, noUsage, type Run, type RunTrace, type SessionPlace, schemaVersion } from "./run.ts";

const runIdPattern: RegExp = /^(?=.*[A-Za-z])[A-Za-z0-9._-]{1,128}$/;

/** Letters, digits, `-`, `_`, `.`; a letter among them; at most 128. It is also the id of the job that starts the run. */
export const runIdSchema: z.ZodType<string> = z
  .string()
  .regex(runIdPattern, "must be 1 to 128 letters, digits, '-', '_' or '.', with a letter among them");

/** The public contract of the `runs` queue: the data of a job named `start`, whose job id is the run id. */
const startFields = z.strictObject({
  agent: z.string().min(1).max(128),
  input: inputSchema,
  session: runIdSchema.optional(),
  whenBusy: z.enum(["queue", "inject"]).optional(),
  metadata: z.record(z.string(), z.json()).optional(),
  limits: limitsSchema.optional(),
  dryRun: z.boolean().optional(),
  tools: callerToolsSchema.optional(),
  by: z.string().min(1).max(1_000).optional(),
  tenant: runIdSchema.optional(),
  traceparent: z
    .string()
    .regex(/^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$/, "must be a W3C traceparent")
    .optional(),
});
export const startPayloadSchema: z.ZodType<StartPayload> = startFields.refine(
  ({ session, whenBusy }) => whenBusy === undefined || session !== undefined,
  { path: ["session"], message: "must be the id of a session, since whenBusy is given" },
) as z.ZodType<StartPayload>;
export type StartPayload = {
  agent: string;
  input: string | InputMessage[];
  session?: string | undefined;
  /** While a run of the session is active: wait in line (default), or enter that run between its turns. */
  whenBusy?: "queue" | "inject" | undefined;
  metadata?: Record<string, unknown> | undefined;
  limits?: Limits | undefined;
  dryRun?: boolean | undefined;
  /** Tools of the producer, offered to the model after the agent's own; whoever watches the run gives their results. */
  tools?: ToolSpec[] | undefined;
  by?: string | undefined;
  /** Whose run it is: keys of a tenant see its own runs only. */
  tenant?: string | undefined;
  traceparent?: string | undefined;
};

/** What is wrong with a start, in words; undefined if nothing. */
export function problemOfStart(payload: unknown): string | undefined {
  const [issue] = startPayloadSchema.safeParse(payload).error?.issues ?? [];
  return issue && `${issue.path.join(".") || "input"}: ${issue.message}`;
}

/** Where a start goes: its run's id, its place among others (lower goes first), and a wait before its first step. */
export const startPlaceSchema: z.ZodType<StartPlace> = z.object({
  runId: runIdSchema,
  priority: z.int().min(1).max(2_097_152).optional(),
  delayMs: z.int().min(0).optional(),
});
export type StartPlace = { runId: string; priority?: number | undefined; delayMs?: number | undefined };

/** What a new run is made of. Times are epoch ms by Redis's clock; `token` is random. */
export type NewRun = {
  runId: string;
  agent: string;
  messages: Message[];
  inputHash: string;
  limits?: Limits | undefined;
  metadata?: Record<string, unknown> | undefined;
  session?: string | undefined;
  tenant?: string | undefined;
  priority?: number | undefined;
  delayMs?: number | undefined;
  dryRun?: boolean | undefined;
  tools?: ToolSpec[] | undefined;
  parent?: RunParent | undefined;
  trace: RunTrace;
  at: number;
  token: string;
};

/**
 * The only way to make a run that will be worked on. Its messages and first event are committed with it; in a session
 * its input waits in the head until it comes to its turn, and no message is committed.
 */
export function makeRun(input: NewRun): Run {
  const limits = input.limits ?? {};
  const notBefore = input.delayMs ? input.at + input.delayMs : undefined;
  const common = makeCommon(input, limits);
  if (input.session !== undefined) {
    return {
      ...common,
      pendingInput: input.messages,
      baseMessage: 0,
      messageCount: 0,
      place: makePlace(notBefore),
    };
  }
  return {
    ...common,
    model: { attempt: 1, owedAt: 1, ...(notBefore === undefined ? {} : { notBefore }) },
    messageCount: input.messages.length,
    inputCount: input.messages.length,
  };
}

function makePlace(notBefore: number | undefined): SessionPlace {
  if (notBefore === undefined) return { state: "joined", round: 1, owedAt: 1 };
  return { state: "delayed", round: 1, owedAt: 1, notBefore };
}

function makeCommon(input: NewRun, limits: Limits): Run {
  const tools = input.tools?.length ? input.tools : undefined;
  return {
    schemaVersion,
    minReader,
    runId: input.runId,
    agent: input.agent,
    revision: 1,
    token: input.token,
    status: "queued",
    turns: 0,
    calls: [],
    pendingInput: [],
    inputIds: [],
    messageCount: 0,
    bytes: input.messages.reduce((sum, message) => sum + messageBytes(message), feedEntryBytes({})),
    eventSeq: 1,
    limits,
    usage: noUsage,
    lateUsage: [],
    ...(limits.deadlineMs ? { deadlineMs: limits.deadlineMs, deadlineAt: input.at + limits.deadlineMs } : {}),
    wakeOwedAt: 1,
    createdAt: input.at,
    updatedAt: input.at,
    inputHash: input.inputHash,
    metadata: input.metadata ?? {},
    session: input.session,
    priority: input.priority,
    ...(input.dryRun ? { dryRun: true } : {}),
    ...(tools ? { tools } : {}),
    ...(input.tenant === undefined ? {} : { tenant: input.tenant }),
    ...(input.parent ? { parent: input.parent } : {}),
    trace: input.trace,
  };
}

/** A record of input that could not become a run: readable, with the reason; its id stays free. */
export function makeRejectedRun(input: {
  runId: string;
  agent: string;
  reason: string;
  trace: RunTrace;
  at: number;
  token: string;
}): Run {
  return {
    ...makeRun({ ...input, messages: [], inputHash: "" }),
    status: "rejected",
    model: undefined,
    error: { code: "rejected", message: input.reason },
    endedAt: input.at,
  };
}
