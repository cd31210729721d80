import type { Run } from "../../core/run.ts";
import type { HttpContext, HttpDeps } from "../types.ts";
import { badField, V1Error } from "./errors.ts";
import { isLastOfSession } from "./extent.ts";
import { fromWireCallId, hashOf } from "./ids.ts";
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
  /** What says that this response is the one to go on from there. */
  claim?: string | undefined;
};

export type Asking = { deps: HttpDeps; context: HttpContext };

export async function planResponse(asking: Asking, wanted: Wanted): Promise<Planned> {
  const { id, previous, conversation, instructionsHash } = wanted;
  if (previous !== undefined) return planNext(asking, wanted, await readPrevious(asking, previous));
  const session = conversation === undefined ? id : `conv_${hashOf(conversation).slice(0, 40)}`;
  const plan: Plan = { type: "start", session };
  return planWaiting(asking, wanted, { plan, runId: id, afterSeq: 0, session, instructionsHash });
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
  if (!record || !isVisible(context, record)) throw notFound();
  return readKept(record);
}

function isVisible(context: HttpContext, { tenant }: { tenant?: string | undefined }): boolean {
  const { caller } = context.var;
  return caller.tenant === undefined || caller.tenant === tenant;
}

export async function readPrevious(asking: Asking, id: string): Promise<Kept> {
  const param = "previous_response_id";
  const notFound = (): V1Error =>
    new V1Error(400, `Previous response with id '${id}' not found.`, { param, code: "previous_response_not_found" });
  const kept = await readVisible(asking, id, notFound);
  if (kept.request.kind !== "response") throw notFound();
  return kept;
}

async function planNext(asking: Asking, wanted: Wanted, previous: Kept): Promise<Planned> {
  const { deps, context } = asking;
  const { id, instructionsHash } = wanted;
  const { record, request } = previous;
  const progress = await readProgress(deps, previous);
  if (progress.state.phase !== "ended") {
    const message = `Response '${record.id}' is still ${progress.response.status}. Wait for its end, then go on from it.`;
    throw badField("previous_response_id", message, "previous_response_not_ended");
  }
  const plan: Plan = { type: "branch", session: id, from: record.id };
  const branch: Planned = { plan, runId: id, afterSeq: 0, session: id, instructionsHash };
  const calls = callsOf(progress);
  if (calls.length > 0) return planAnswers(deps, wanted, { previous, progress, calls, branch });
  const isOwn = request.session !== null && !request.session.startsWith("conv_");
  const isSame = request.instructionsHash === instructionsHash && record.tenant === context.var.caller.tenant;
  // What went on from here and was deleted since still stands in the session, and is no part of this conversation.
  if (!isOwn || !isSame || !(await isLastOfSession(deps.store, progress.run, progress.state.upTo))) return branch;
  const claimed = `next_${record.id}`;
  const holder = await claim(deps, id, claimed, progress.run);
  // Going on twice with the same words may be meant; sending them again says that it isn't.
  if (holder !== id) return { ...branch, same: wanted.isRetry ? await findSame(deps, wanted, holder) : undefined };
  const session = request.session ?? undefined;
  return { ...branch, plan: { type: "start", session, goesOn: true }, session: request.session, claim: claimed };
}

type Answering = { previous: Kept; progress: Progressed; calls: string[]; branch: Planned };

/** Goes on from a response that left calls to its caller. */
async function planAnswers(deps: HttpDeps, wanted: Wanted, answering: Answering): Promise<Planned> {
  const { previous, progress, calls, branch } = answering;
  const { run, state } = progress;
  checkAnswers(calls, wanted.entries);
  const claimed = toClaimId(run, fromWireCallId(calls[0] ?? "")?.callId);
  // Somebody may have cancelled the run, or answered for the caller: then the results go on in a copy.
  const isWaiting = waitsFor(run, new Set(calls.map((id) => fromWireCallId(id)?.callId ?? id)));
  const holder = isWaiting ? await claim(deps, wanted.id, claimed, run) : (await deps.responses.get(claimed))?.runId;
  if (holder !== wanted.id || !isWaiting) return { ...branch, same: await findSame(deps, wanted, holder) };
  if (!canGoOn(run, wanted, previous.request.instructionsHash)) return { ...branch, left: run.runId, claim: claimed };
  return toAnswer(run, { ...previous.request, afterSeq: state.seq, claim: claimed });
}

/** @throws V1Error unless there is one result for each call, and none for a call that nobody made. */
function checkAnswers(calls: readonly string[], entries: readonly InputEntry[]): void {
  const given = entries.flatMap((entry) => (entry.type === "result" ? [entry.id] : []));
  const missing = calls.find((id) => !given.includes(id));
  if (missing) throw badField("input", `No tool output found for function call ${missing}.`);
  const twice = calls.find((id) => given.indexOf(id) !== given.lastIndexOf(id));
  if (twice) throw badField("input", `There is more than one output for function call ${twice}.`);
  const made = new Set([...calls, ...entries.flatMap((entry) => (entry.type === "call" ? [entry.id] : []))]);
  const stray = given.find((id) => !made.has(id));
  if (stray) throw badField("input", `No tool call found for function call output with call_id ${stray}.`);
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
  const [first] = results;
  const run = first && (await deps.store.load(first.runId));
  if (!run || !isVisible(context, run)) return fresh;
  const claimed = toClaimId(run, first.callId);
  const given = new Set(results.map(({ callId }) => callId));
  const isWaiting = given.size === results.length && waitsFor(run, given);
  const holder = isWaiting ? await claim(deps, wanted.id, claimed, run) : (await deps.responses.get(claimed))?.runId;
  if (holder !== wanted.id || !isWaiting) return { ...fresh, same: await findSame(deps, wanted, holder) };
  // The response that began the run is named like it.
  const begun = await deps.responses.get(run.runId);
  const { session, instructionsHash } = begun ? readKept(begun).request : { session: null, instructionsHash: null };
  if (!canGoOn(run, wanted, instructionsHash)) return { ...fresh, left: run.runId, claim: claimed };
  return toAnswer(run, { session, instructionsHash, afterSeq: run.eventSeq, claim: claimed });
}

/** Whether the run waits for its caller alone, and for no more than these results. */
function waitsFor({ calls }: Run, given: ReadonlySet<string>): boolean {
  const open = calls.filter(({ state }) => state !== "settled");
  return (
    open.length > 0 && open.every((call) => call.state === "answer" && call.from === "caller" && given.has(call.callId))
  );
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

type Place = Pick<Planned, "session" | "instructionsHash" | "afterSeq" | "claim">;

function toAnswer(run: Run, { session, instructionsHash, afterSeq, claim: claimed }: Place): Planned {
  const runTools = (run.tools ?? []).map(({ name }) => name);
  const place = { session, instructionsHash, afterSeq, claim: claimed };
  return { plan: { type: "answer" }, runId: run.runId, ...place, runTools };
}

/** Names the right to answer a turn's calls. */
function toClaimId({ runId }: Run, callId: string | undefined): string {
  return `next_${runId}_${callId?.split("-")[1] ?? "0"}`;
}

/** It takes a moment to keep the response that a claim is for. Whoever has not by then has died. */
const longestClaimMs = 60_000;

/** Whoever asks first goes on from there. @returns the id of the response that does */
async function claim({ responses, now }: HttpDeps, by: string, id: string, { tenant }: Run): Promise<string> {
  const record = { id, runId: by, tenant, createdAt: now(), afterSeq: 0, request: {} };
  const held = await responses.create(record);
  const isOld = held.createdAt < record.createdAt - longestClaimMs;
  if (held.runId === by || !isOld || (await responses.get(held.runId))) return held.runId;
  await responses.remove(id);
  return (await responses.create(record)).runId;
}

/** The response that an equal request has made. */
async function findSame({ responses }: HttpDeps, { hash }: Wanted, id = ""): Promise<Kept | undefined> {
  const record = await responses.get(id);
  const kept = record && readKept(record);
  return kept?.request.hash === hash ? kept : undefined;
}
