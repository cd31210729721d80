import type { Run } from "../../core/run.ts";
import type { HttpContext, HttpDeps } from "../types.ts";
import { badField, V1Error } from "./errors.ts";
import { fromWireCallId, hashOf, toWireCallId } from "./ids.ts";
import type { Answered, InputEntry } from "./input.ts";
import { type Progressed, readProgress } from "./progress.ts";
import { type Kept, type Plan, readKept } from "./record.ts";

// What a request does: begin a run, go on in a session, branch off from what was said before, or give a waiting run its
// answers. Two requests that go on from the same place are told apart by a claim: the first goes on where it is, all
// others get a copy, so that their histories never mix.

export type Wanted = {
  /** Of the response that is being made. */
  id: string;
  /** Of the request's body. */
  hash: string;
  /** The client says that it sends this again, with no key to know it by. */
  isRetry: boolean;
  model: string;
  entries: InputEntry[];
  instructionsHash: string | null;
  previous?: string | undefined;
  conversation?: string | undefined;
};

export type Planned = {
  plan: Plan;
  runId: string;
  afterSeq: number;
  session: string | null;
  /** Of the instructions that the session begins with. */
  instructionsHash: string | null;
  /** Names of the caller's tools that the run was started with, where it goes on. */
  runTools?: string[] | undefined;
  /** A run that waits for answers and will get none: what it was about goes on in another. */
  left?: string | undefined;
  /** The response that an equal request has made from here already. */
  same?: Kept | undefined;
};

export type Asking = { deps: HttpDeps; context: HttpContext };

export async function planResponse(asking: Asking, wanted: Wanted): Promise<Planned> {
  const { id, previous, conversation, instructionsHash } = wanted;
  if (previous !== undefined) return planNext(asking, wanted, await readPrevious(asking, previous));
  if (conversation !== undefined) {
    const session = `conv_${hashOf(conversation).slice(0, 40)}`;
    return { plan: { type: "start", session }, runId: id, afterSeq: 0, session, instructionsHash };
  }
  return planWaiting(asking, wanted, {
    plan: { type: "start", session: id },
    runId: id,
    afterSeq: 0,
    session: id,
    instructionsHash,
  });
}

/** A chat completion has its whole history with it: it goes on with the run that waits for its last results, or begins one. */
export function planChat(asking: Asking, wanted: Wanted): Promise<Planned> {
  const { id: runId, instructionsHash } = wanted;
  return planWaiting(asking, wanted, { plan: { type: "start" }, runId, afterSeq: 0, session: null, instructionsHash });
}

/** @throws what `notFound` makes, for a response that is not there or not the caller's. */
export async function readVisible({ deps, context }: Asking, id: string, notFound: () => V1Error): Promise<Kept> {
  // Records of other things have other names.
  const record = /^(?:resp_|chatcmpl-)/.test(id) ? await deps.responses.get(id) : undefined;
  const { tenant } = context.var.caller;
  if (!record || (tenant !== undefined && record.tenant !== tenant)) throw notFound();
  return readKept(record);
}

export async function readPrevious(asking: Asking, id: string): Promise<Kept> {
  const param = "previous_response_id";
  const notFound = (): V1Error =>
    new V1Error(400, `Previous response with id '${id}' not found.`, { param, code: "previous_response_not_found" });
  const kept = await readVisible(asking, id, notFound);
  if (kept.request.kind !== "response") throw notFound();
  return kept;
}

async function planNext({ deps, context }: Asking, wanted: Wanted, previous: Kept): Promise<Planned> {
  const { id, entries, instructionsHash } = wanted;
  const { record, request } = previous;
  const progress = await readProgress(deps, previous);
  const { run, state } = progress;
  if (state.phase !== "ended") {
    const message = `Response '${record.id}' is still ${progress.response.status}. Wait for its end, then go on from it.`;
    throw badField("previous_response_id", message, "previous_response_not_ended");
  }
  const calls = callsOf(progress);
  const given = new Set(entries.map((entry) => (entry.type === "result" ? entry.id : "")));
  const missing = calls.find((callId) => !given.has(callId));
  if (missing) throw badField("input", `No tool output found for function call ${missing}.`);
  const plan: Plan = { type: "branch", session: id, from: record.id };
  const branch: Planned = { plan, runId: id, afterSeq: 0, session: id, instructionsHash };
  if (calls.length > 0) {
    const holder = await claimCalls(deps, id, run, calls);
    if (holder !== id) return { ...branch, same: await findSame(deps, wanted, holder) };
    if (!canGoOn(run, wanted, request.instructionsHash)) return { ...branch, left: run.runId };
    return toAnswer(run, { ...request, afterSeq: state.seq });
  }
  const isOwn = request.session !== null && !request.session.startsWith("conv_");
  const isSame = request.instructionsHash === instructionsHash && record.tenant === context.var.caller.tenant;
  if (!isOwn || !isSame) return branch;
  const holder = await claim(deps, id, `next_${record.id}`, run);
  // Going on twice with the same words may be meant; sending them again says that it isn't.
  if (holder !== id) return { ...branch, same: wanted.isRetry ? await findSame(deps, wanted, holder) : undefined };
  const session = request.session ?? undefined;
  return { ...branch, plan: { type: "start", session, goesOn: true }, session: request.session };
}

/** Ids of the calls that a Response left to its caller. */
function callsOf({ response }: Progressed): string[] {
  return response.output.flatMap((item) => (item.type === "function_call" ? [item.call_id] : []));
}

/** Whether the run may go on with this request's answers; one with other instructions is not meant for it. */
function canGoOn(run: Run, { model, instructionsHash }: Wanted, begun: string | null): boolean {
  return run.agent === model && (instructionsHash === null || instructionsHash === begun);
}

/**
 * Finds the run that waits for the last results of an input, by the calls' names alone: for callers who send the whole
 * history each time.
 *
 * @param fresh what to do if there is none, or it cannot go on: then the history begins a new run.
 */
async function planWaiting({ deps, context }: Asking, wanted: Wanted, fresh: Planned): Promise<Planned> {
  const results = lastResults(wanted.entries);
  const run = results[0] ? await deps.store.load(results[0].runId) : null;
  const { tenant } = context.var.caller;
  if (!run || (tenant !== undefined && run.tenant !== tenant)) return fresh;
  const holder = await deps.responses.get(toClaimId(run, results[0]?.callId));
  if (holder && holder.runId !== wanted.id) return { ...fresh, same: await findSame(deps, wanted, holder.runId) };
  const open = run.calls.filter(({ state }) => state !== "settled");
  const waitsFor = open.map(({ callId }) => toWireCallId(run.runId, callId));
  const given = new Set(results.map(({ id }) => id));
  const isFor = open.length > 0 && waitsFor.every((id) => given.has(id));
  const isCallers = open.every((call) => call.state === "answer" && call.from === "caller");
  if (!isFor || !isCallers || (await claimCalls(deps, wanted.id, run, waitsFor)) !== wanted.id) return fresh;
  // The response that began the run is named like it.
  const begun = await deps.responses.get(run.runId);
  const { session, instructionsHash } = begun ? readKept(begun).request : { session: null, instructionsHash: null };
  if (!canGoOn(run, wanted, instructionsHash)) return { ...fresh, left: run.runId };
  return toAnswer(run, { session, instructionsHash, afterSeq: run.eventSeq });
}

/** The results of the turn that the last one in an input belongs to, if it is one of a run here. */
export function lastResults(entries: readonly InputEntry[]): (Answered & { runId: string; callId: string })[] {
  const results = entries.flatMap((entry) => {
    const name = entry.type === "result" ? fromWireCallId(entry.id) : undefined;
    return entry.type === "result" && name ? [{ ...entry, ...name }] : [];
  });
  const last = results.at(-1);
  const turnOf = (callId: string | undefined): string | undefined => callId?.split("-")[1];
  return results.filter(({ runId, callId }) => runId === last?.runId && turnOf(callId) === turnOf(last?.callId));
}

type Place = Pick<Planned, "session" | "instructionsHash" | "afterSeq">;

function toAnswer(run: Run, { session, instructionsHash, afterSeq }: Place): Planned {
  const runTools = (run.tools ?? []).map(({ name }) => name);
  return { plan: { type: "answer" }, runId: run.runId, afterSeq, session, instructionsHash, runTools };
}

/** Claims the right to answer a turn's calls. @returns the id of the response that has it */
function claimCalls(deps: HttpDeps, by: string, run: Run, [call = ""]: readonly string[]): Promise<string> {
  return claim(deps, by, toClaimId(run, fromWireCallId(call)?.callId), run);
}

function toClaimId({ runId }: Run, callId: string | undefined): string {
  return `next_${runId}_${callId?.split("-")[1] ?? "0"}`;
}

/** Whoever asks first goes on from there. @returns the id of the response that does */
async function claim({ responses, now }: HttpDeps, by: string, id: string, { tenant }: Run): Promise<string> {
  const record = { id, runId: by, tenant, createdAt: now(), afterSeq: 0, request: {} };
  return (await responses.create(record)).runId;
}

/** The response that an equal request has made. */
async function findSame({ responses }: HttpDeps, { hash }: Wanted, id: string): Promise<Kept | undefined> {
  const record = await responses.get(id);
  const kept = record && readKept(record);
  return kept?.request.hash === hash ? kept : undefined;
}
