import { canonical } from "../../core/canonical.ts";
import { DroverError, isOutage } from "../../core/errors.ts";
import type { InputMessage } from "../../core/message.ts";
import type { ResponseRecord } from "../../ports.ts";
import { readHistory } from "./branch.ts";
import { badField, V1Error } from "./errors.ts";
import { toInput } from "./history.ts";
import { hashOf, newTail } from "./ids.ts";
import type { InputEntry } from "./input.ts";
import { type Asking, lastResults, type Planned, planChat, planResponse } from "./plan.ts";
import { type Kept, type KeptRequest, readKept } from "./record.ts";
import type { CallerTool } from "./request.ts";

/** A request to begin or go on with a run, read and checked. */
export type Creation = Pick<KeptRequest, "kind" | "echo" | "items" | "wantsJson" | "includeUsage" | "live"> & {
  body: Record<string, unknown>;
  entries: InputEntry[];
  instructions?: string | undefined;
  previous?: string | undefined;
  conversation?: string | undefined;
  tools: CallerTool[];
  /** Kept with the run, to be searched by. */
  metadata: Record<string, string>;
};

const prefixes = { response: "resp_", chat: "chatcmpl-" } as const;

/**
 * Begins what a request asks for, once: the same request with the same idempotency key gives the same response, however
 * often and wherever it is sent. Nothing waits for a model here.
 *
 * @returns what is kept of it, and whether it was not there before.
 * @throws V1Error "idempotency_error" if the key was used for another request.
 */
export async function create(asking: Asking, creation: Creation): Promise<Kept & { isNew: boolean }> {
  const { deps } = asking;
  const key = readKey(asking, creation);
  const id = toId(asking, creation.kind, key);
  const hash = hashRequest(creation.body);
  const known = key === undefined ? undefined : await deps.responses.get(id);
  if (known) {
    const kept = checkSame(readKept(known), hash);
    if (!(await hasBegun(asking, kept))) await begin(asking, creation, kept);
    return { ...kept, isNew: false };
  }
  const isRetry = key === undefined && isSentAgain(asking);
  const { record, claim } = await makeRecord(asking, creation, { id, hash, isRetry });
  const kept = checkSame(readKept(record), hash);
  try {
    await begin(asking, creation, kept);
  } catch (error) {
    // What never began is not kept, unless somebody may come back for it.
    if (key === undefined || !isOutage(error)) await forget(asking, [id, claim]);
    // The response was deleted, its run was not.
    if (key !== undefined && error instanceof DroverError && error.code === "conflict") throw keyUsed();
    throw error;
  }
  return { ...kept, isNew: record.id === id };
}

function toId({ context }: Asking, kind: Creation["kind"], key: string | undefined): string {
  const { tenant } = context.var.caller;
  return prefixes[kind] + newTail(key === undefined ? undefined : { endpoint: kind, tenant, key });
}

function checkSame(kept: Kept, hash: string): Kept {
  if (kept.request.hash === hash) return kept;
  throw keyUsed();
}

function keyUsed(): V1Error {
  const message = "This idempotency key was used for another request. Use a new one, or send the same request.";
  return new V1Error(400, message, { code: "idempotency_error" });
}

/** Answers are given again: each counts once. */
async function hasBegun({ deps }: Asking, { record, request }: Kept): Promise<boolean> {
  return request.plan.type !== "answer" && (await deps.store.load(record.runId)) !== null;
}

/** Best effort: it is the first error that is told. */
async function forget({ deps }: Asking, ids: (string | undefined)[]): Promise<void> {
  for (const id of ids) if (id !== undefined) await deps.responses.remove(id).catch(() => false);
}

const longestKey = 255;

function readKey({ context }: Asking, { metadata }: Creation): string | undefined {
  const header = context.req.header("idempotency-key");
  const key = header ?? metadata.idempotency_key;
  if (key === undefined) return undefined;
  const param = header === undefined ? "metadata.idempotency_key" : "Idempotency-Key";
  if (key === "" || key.length > longestKey) throw badField(param, `${param} must have 1 to ${longestKey} characters.`);
  return key;
}

/** Whether it is streamed is no part of what is asked for. */
function hashRequest({ stream: _stream, stream_options: _options, ...body }: Record<string, unknown>): string {
  return hashOf(canonical(body));
}

/** OpenAI's clients count how often they have sent a request again. */
function isSentAgain({ context }: Asking): boolean {
  return Number(context.req.header("x-stainless-retry-count") ?? 0) > 0;
}

type Identity = { id: string; hash: string; isRetry: boolean };

/** Keeps what the request does, unless somebody has: then that is what it does. */
async function makeRecord(
  asking: Asking,
  creation: Creation,
  { id, hash, isRetry }: Identity,
): Promise<{ record: ResponseRecord; claim?: string | undefined }> {
  const { deps, context } = asking;
  const { kind, echo, items, wantsJson, includeUsage, live, entries, instructions, previous, conversation } = creation;
  const instructionsHash = instructions === undefined ? null : hashOf(instructions);
  const wanted = { id, hash, isRetry, model: echo.model, entries, instructionsHash, previous, conversation };
  const planned = await (kind === "chat" ? planChat : planResponse)(asking, wanted);
  if (planned.same) return { record: planned.same.record };
  const request: KeptRequest = {
    kind,
    hash,
    echo: deps.redactor.value(echo),
    items: deps.redactor.value(items),
    callerTools: planned.runTools ?? creation.tools.map(({ name }) => name),
    wantsJson,
    instructionsHash: planned.instructionsHash,
    plan: planned.plan,
    session: planned.session,
    ...(includeUsage ? { includeUsage } : {}),
    ...(live ? { live } : {}),
  };
  await leave(asking, planned, id);
  const { tenant } = context.var.caller;
  const { runId, afterSeq, claim } = planned;
  const record = { id, runId, tenant, createdAt: deps.now(), afterSeq, request };
  return { record: await deps.responses.create(record), claim };
}

async function leave({ context }: Asking, { left }: Planned, id: string): Promise<void> {
  if (left === undefined) return;
  await context.var.runs.get(left).cancel({ reason: `what it was about goes on in ${id}` });
}

async function begin(asking: Asking, creation: Creation, { record, request }: Kept): Promise<void> {
  const { plan } = request;
  if (plan.type === "answer") return giveAnswers(asking, creation, record);
  const { context } = asking;
  const { metadata, tools } = creation;
  const instructions = plan.type === "start" && plan.goesOn ? undefined : creation.instructions;
  const before = plan.type === "branch" ? await readHistory(asking, plan.from) : [];
  const input: InputMessage[] = [
    ...(instructions === undefined ? [] : [{ role: "developer" as const, content: instructions }]),
    ...toInput([...before, ...creation.entries]),
  ];
  await context.var.runs.start(request.echo.model, input, {
    runId: record.runId,
    ...(plan.session === undefined ? {} : { session: plan.session }),
    metadata,
    ...(tools.length > 0 ? { tools } : {}),
    ...traceOf(context.req.header("traceparent")),
  });
}

function traceOf(traceparent: string | undefined): { traceparent?: string } {
  const isOne = traceparent !== undefined && /^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$/.test(traceparent);
  return isOne ? { traceparent } : {};
}

/**
 * What is said beside the answers comes first: it enters the transcript after them, when the last one is there. Once some
 * of it was given, a part that is refused ends the run: what is sent instead then goes on in a copy, and nothing twice.
 */
async function giveAnswers({ context }: Asking, creation: Creation, { id, runId }: ResponseRecord): Promise<void> {
  const { entries, previous } = creation;
  const run = context.var.runs.get(runId);
  const results = lastResults(entries);
  // Without a previous response all before the results is what the run knows already.
  const from = previous === undefined ? entries.findIndex((entry) => "id" in entry && entry.id === results[0]?.id) : 0;
  const said = entries.slice(from).filter((entry) => entry.type === "message");
  let given = 0;
  try {
    for (const [index, { role, content }] of said.entries()) {
      await run.send({ role, content } as InputMessage, { inputId: `${id}-${index}` });
      given += 1;
    }
    for (const { callId, value } of results) {
      await run.answer(callId, value, { decisionId: id });
      given += 1;
    }
  } catch (error) {
    if (given > 0 && isMisfit(error)) {
      await run.cancel({ reason: "a part of what it waited for was refused" }).catch(() => {});
    }
    throw error;
  }
}

/** Whether what was given can never be taken; else it is only too late, or may be taken yet. */
function isMisfit(error: unknown): boolean {
  return error instanceof DroverError && (error.code === "invalid" || error.code === "too_large");
}
