import { z } from "zod";
import { DamagedRecord, DroverError } from "../core/errors.ts";
import type { FeedEntry } from "../core/event.ts";
import { contentSchema, type Message, messageSchema, type ToolMessage } from "../core/message.ts";
import { minReader, type OpenCall, type Run, runStatuses, schemaVersion } from "../core/run.ts";
import { callSchema, compactReader, count, headSchema, knownFields, time } from "./run-schema.ts";

// A run's head is a hash: what the commit script compares in fields of its own, one field per open call so that a commit
// writes only the calls it changed, the rest as JSON in `head`. Objects are read loosely: what a newer version put in
// comes back as it was when this version writes.

const fixedSchema = z.object({
  v: z.coerce.number().int().positive(),
  min: z.coerce.number().int().positive(),
  rev: z.coerce.number().int().positive(),
  tok: z.string().min(1),
  status: z.enum(runStatuses),
});

const objectSchema = z.record(z.string(), z.unknown());
const entrySchema = z.looseObject({ type: z.string(), at: time, turn: count });
const toolMessageSchema = z.looseObject({ role: z.literal("tool"), callId: z.string(), content: contentSchema });

/** Fields that stay as the run was created with them. They lie apart, so that a commit does not write them again. */
const fixedFields = [
  "agent",
  "inputHash",
  "metadata",
  "session",
  "priority",
  "tenant",
  "dryRun",
  "tools",
  "trace",
  "createdAt",
  "limits",
] as const;

const callPrefix = "call:";

/** What `head` does not hold of a run. */
type Apart =
  | ("schemaVersion" | "minReader" | "revision" | "token" | "status" | "runId" | "calls" | "unknown" | "summary")
  | (typeof fixedFields)[number];

/** The fields of a head hash beside revision and token that `run` needs and `previous` has not, and those it must lose. */
export type HeadChange = { set: [string, string][]; remove: string[] };

/** What turns the stored head of `previous` (null: nothing is stored) into that of `run`. */
export function encodeHead(previous: Run | null, run: Run): HeadChange {
  const { schemaVersion: v, minReader: min, status, summary } = run;
  const { set, remove } = encodeCalls(previous, run);
  if (previous?.schemaVersion !== v) set.push(["v", String(v)]);
  if (previous?.minReader !== min) set.push(["min", String(min)]);
  if (previous?.status !== status) set.push(["status", status]);
  if (fixedFields.some((field) => previous?.[field] !== run[field])) set.push(["fixed", JSON.stringify(fixedOf(run))]);
  if (summary && previous?.summary !== summary) set.push(["summary", JSON.stringify(summary)]);
  set.push(["head", JSON.stringify(run.unknown ? { ...run.unknown, ...moving(run) } : moving(run))]);
  return { set, remove };
}

function fixedOf(run: Run): Partial<Run> {
  const { metadata, limits } = run;
  const fixed = Object.fromEntries(fixedFields.map((field) => [field, run[field]]));
  return run.minReader >= leanReader ? { ...fixed, ...withoutEmpty({ metadata, limits }) } : fixed;
}

function encodeCalls(previous: Run | null, { calls, minReader }: Run): HeadChange {
  const set: [string, string][] = [];
  if (previous?.calls === calls) return { set, remove: [] };
  const before = new Map(previous?.calls.map((call) => [call.callId, call]));
  for (const call of calls) {
    // Transitions replace a call they change and pass on the object of one they do not.
    if (before.get(call.callId) !== call) {
      const stored = minReader >= compactReader ? { ...call, callId: undefined } : call;
      set.push([callPrefix + call.callId, JSON.stringify(stored)]);
    }
    before.delete(call.callId);
  }
  return { set, remove: Array.from(before.keys(), (callId) => callPrefix + callId) };
}

/**
 * What `head` holds. Named one by one, with what is not there as undefined, which JSON leaves out: a copy of the run
 * without the rest costs several times as much, at every commit.
 */
function moving(run: Run): { [field in Exclude<keyof Run, Apart>]: Run[field] | undefined } {
  const isLean = run.minReader >= leanReader;
  const list = <T>(items: T[]): T[] | undefined => (isLean && items.length === 0 ? undefined : items);
  return {
    turns: run.turns,
    model: run.model,
    messageCount: run.messageCount,
    inputCount: run.inputCount,
    bytes: run.bytes,
    eventSeq: run.eventSeq,
    usage: run.usage,
    wakeOwedAt: run.wakeOwedAt,
    updatedAt: run.updatedAt,
    startedAt: run.startedAt,
    agentHash: run.agentHash,
    stopReason: run.stopReason,
    error: run.error,
    endedAt: run.endedAt,
    pendingInput: list(run.pendingInput),
    inputIds: list(run.inputIds),
    lateUsage: list(run.lateUsage),
    baseMessage: run.baseMessage,
    earlierParts: run.earlierParts,
    place: run.place,
    retryLimits: run.retryLimits,
    deadlineAt: run.deadlineAt,
    deadlineMs: run.deadlineMs,
    windowBudget: run.windowBudget,
    structured: run.structured,
    reasks: run.reasks,
    verifications: run.verifications,
    unchecked: run.unchecked,
    repeatsFrom: run.repeatsFrom,
    parent: run.parent,
    leftChildren: run.leftChildren,
    paused: run.paused,
  };
}

/** Older readers want every field; for the others what is empty, as most of it is in most runs, is not stored. */
const leanReader = 4;

/** Each of the fields that is empty as undefined, which JSON leaves out. */
function withoutEmpty<T extends Record<string, object>>(fields: T): Partial<T> {
  const kept: Partial<T> = {};
  for (const name in fields) {
    const value = fields[name] as T[typeof name];
    kept[name] = (Array.isArray(value) ? value.length : Object.keys(value).length) > 0 ? value : undefined;
  }
  return kept;
}

/**
 * A head hash as a run; null if the hash is empty.
 *
 * @throws DroverError `unsupported` if a newer version wrote it and says that this one must not touch it;
 *   `invalid` if it cannot be read.
 */
export function decodeHead(runId: string, fields: Record<string, string>): Run | null {
  if (Object.keys(fields).length === 0) return null;
  // First: the rest of what a newer version keeps may look damaged here.
  const min = Number(fields.min);
  if (min > schemaVersion) throw newer(runId, min);
  const fixed = parse(fixedSchema, fields, `run ${runId}`);
  const raw = {
    ...parseObject(fields.fixed, `run ${runId}`, "fixed"),
    ...parseObject(fields.head, `run ${runId}`, "head"),
    ...(fields.summary === undefined ? {} : { summary: parseObject(fields.summary, `run ${runId}`, "summary") }),
  };
  const head = parse(headSchema, raw, `run ${runId}`);
  const unknown = Object.entries(raw).filter(([name]) => !knownFields.has(name));
  const calls = Object.entries(fields)
    .filter(([name]) => name.startsWith(callPrefix))
    .map(([name, json]) => decodeCall(runId, name, json))
    .sort((a, b) => a.turn - b.turn || a.position - b.position);
  return {
    ...(head as unknown as Omit<
      Run,
      "runId" | "schemaVersion" | "minReader" | "revision" | "token" | "status" | "calls"
    >),
    schemaVersion: fixed.v,
    minReader: fixed.min,
    runId,
    revision: fixed.rev,
    token: fixed.tok,
    status: fixed.status,
    calls,
    ...(unknown.length > 0 ? { unknown: Object.fromEntries(unknown) } : {}),
  };
}

/** The id of a call is in the name of its field. */
function decodeCall(runId: string, name: string, json: string): OpenCall {
  const call = { ...parseObject(json, `run ${runId}`, name), callId: name.slice(callPrefix.length) };
  return parse(callSchema, call, `${name} of run ${runId}`) as unknown as OpenCall;
}

function newer(runId: string, min: number): DroverError {
  return new DroverError(
    "unsupported",
    `Run ${runId} was written by a newer version of Drover (needs reader ${min}, this is ${schemaVersion}; it writes for ` +
      `reader ${minReader} and up). Upgrade this process; the run is left as it is.`,
  );
}

/** A transcript entry as stored: the token of its commit, and the message. */
export function encodeEntry(token: string, message: Message): string {
  return `${token} ${JSON.stringify(message)}`;
}

/** A stored transcript entry: the token of its commit, and the message. */
export function decodeEntry(entry: string, where: string): { token: string; message: Message } {
  const space = entry.indexOf(" ");
  if (space < 1) throw new DamagedRecord(where, "an entry has no token");
  return {
    token: entry.slice(0, space),
    message: parse(messageSchema, parseJson(entry.slice(space + 1), where), where),
  };
}

export function encodeResult(result: ToolMessage): string {
  return JSON.stringify(result);
}

export function decodeResult(json: string, where: string): ToolMessage {
  return parse(toolMessageSchema, parseJson(json, where), where) as unknown as ToolMessage;
}

/** A feed entry without its sequence number, which its place in the feed tells. */
export function encodeFeedEntry(entry: FeedEntry): string {
  return JSON.stringify({ ...entry, seq: undefined });
}

export function decodeFeedEntry(seq: number, json: string, where: string): FeedEntry {
  return { seq, ...parse(entrySchema, parseJson(json, where), where) } as FeedEntry;
}

/** The entries of one commit in the feed of a run that an older version made; `id` is that of the last one. */
export function decodeFeedRow(id: string, json: string, where: string): FeedEntry[] {
  const entries = parse(z.array(entrySchema), parseJson(json, where), where);
  const first = Number(id.split("-")[0]) - entries.length + 1;
  return entries.map((entry, index) => ({ seq: first + index, ...entry }) as FeedEntry);
}

/** Parses stored JSON by a schema. `where` names the record in the error. */
export function parseStored<T>(schema: z.ZodType<T>, json: string, where: string): T {
  return parse(schema, parseJson(json, where), where);
}

function parseObject(json: string | undefined, where: string, field: string): Record<string, unknown> {
  if (json === undefined) throw new DamagedRecord(where, `${field} is gone`);
  return parse(objectSchema, parseJson(json, where, field), where);
}

function parseJson(json: string, where: string, what = "it"): unknown {
  try {
    return JSON.parse(json);
  } catch {
    throw new DamagedRecord(where, `${what} is not JSON`);
  }
}

function parse<T>(schema: z.ZodType<T>, value: unknown, where: string): T {
  const result = schema.safeParse(value);
  if (result.success) return result.data;
  const issue = result.error.issues[0];
  throw new DamagedRecord(
    where,
    `${issue?.path.join(".") || "it"} does not fit: ${issue?.message ?? "unknown problem"}`,
  );
}
