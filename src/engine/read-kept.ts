import { DroverError } from "../core/errors.ts";
import type { ToolMessage } from "../core/message.ts";
import { joinRange, planRange, type ResultRange, resultTextOf } from "../core/result.ts";
import type { Run } from "../core/run.ts";
import { ownParts, transcriptOf } from "../core/session.ts";
import type { RunStore } from "../ports.ts";
import { readMiddle } from "./read-result.ts";

const defaultLength = 65_536;

/** A piece of the whole result of one call, cut for the model or not. @throws DroverError "not_found" */
export async function readKept(
  store: RunStore,
  run: Run,
  callId: string,
  { from = 0, length = defaultLength }: { from?: number; length?: number } = {},
): Promise<ResultRange> {
  const message = await findResult(store, run, callId);
  const { content, full } = message;
  const { length: chars } = resultTextOf(content);
  const whole = full ?? { name: callId, runId: run.runId, ref: "", chars, bytes: 0, head: chars, tail: 0 };
  const plan = planRange(whole, { from, length });
  const middle = await readMiddle(store, whole, plan.middle);
  if (middle === undefined)
    throw new DroverError("not_found", `The rest of the result of ${callId} is gone from Redis.`);
  return joinRange(content, whole, plan, middle);
}

/** The result of a call, by the run's head as it was or has become. @throws DroverError "not_found" */
export async function findResult(store: RunStore, run: Run, callId: string): Promise<ToolMessage> {
  const found = await lookFor(store, run, callId);
  if (found) return found;
  // The last call's result may have taken the early ones into the transcript since the head was read.
  const now = await store.load(run.runId);
  const moved = now && now.revision !== run.revision ? await lookFor(store, now, callId) : undefined;
  if (moved) return moved;
  throw new DroverError(
    "not_found",
    `Run "${run.runId}" has no result of ${callId}. "drover show ${run.runId}" lists its calls.`,
  );
}

async function lookFor(store: RunStore, run: Run, callId: string): Promise<ToolMessage | undefined> {
  const results = await store.readResults(run.runId);
  // A caller's word: every object has something under "constructor".
  const early = Object.hasOwn(results, callId) ? results[callId] : undefined;
  if (early) return early;
  for (const [from, to] of ownParts(run).reverse()) {
    const messages = await store.readMessages(transcriptOf(run), from, to);
    const found = messages.findLast((message) => message.role === "tool" && message.callId === callId);
    if (found?.role === "tool") return found;
  }
  return undefined;
}
