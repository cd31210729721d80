import type { Change } from "../core/change.ts";
import { defaultMaxResultTokens } from "../core/defaults.ts";
import { DroverError, toError } from "../core/errors.ts";
import { fitToBytes } from "../core/fit-bytes.ts";
import { effectiveLimits } from "../core/limits.ts";
import type { Content, FullResult } from "../core/message.ts";
import { redactSaid } from "../core/redact-event.ts";
import { cutResult, mayExceed, resultTextOf } from "../core/result.ts";
import type { OpenCall, Run } from "../core/run.ts";
import type { AgentCode, RunStore } from "../ports.ts";
import type { AdvanceResult } from "./advance.ts";
import type { EngineDeps } from "./deps.ts";
import { findResult } from "./read-kept.ts";
import type { StepContext } from "./step.ts";

/** What is cut out and no longer than this, in characters, is kept with the message: it costs no write of its own. */
const mostInMessage = 8_192;

/**
 * Cuts a result that is too long for the model, and keeps what is left out. Kept before the commit and under a name of this
 * execution: a commit that is refused leaves text that nothing points at, and never touches the winner's.
 *
 * @returns what to report, with what the run may hold: the commit sees what it holds by then
 */
export async function keepResult(
  { store, ids, redaction }: Pick<EngineDeps, "store" | "ids" | "redaction">,
  agent: AgentCode,
  { run, open }: { run: Run; open: OpenCall },
  given: Content,
): Promise<{ content: Content; full?: FullResult; maxBytes: number }> {
  const { maxBytes, maxMessageBytes } = effectiveLimits(agent.limits, run);
  const room = Math.min(maxMessageBytes, Math.max(0, maxBytes - (run.bytes ?? 0)));
  const clean = fitToBytes(redaction.stored ? redactSaid(given, redaction.redactor) : given, room);
  const maxTokens = agent.tools.maxResultTokens(open.tool) ?? defaultMaxResultTokens;
  const bytes = Buffer.byteLength(resultTextOf(clean));
  if (!mayExceed(bytes, maxTokens)) return { content: detach(clean), maxBytes };
  const { runId } = run;
  const names = { name: resultName(run, open.callId), runId, ref: `${open.callId}.${ids.token()}` };
  const cut = cutResult(clean, { maxTokens, bytes, names, counter: await agent.tokens() });
  if (!cut) return { content: detach(clean), maxBytes };
  const kept = { content: detach(cut.content), full: cut.full, maxBytes };
  if (cut.middle.length <= mostInMessage)
    return { ...kept, full: { ...cut.full, ref: "", middle: detach(cut.middle) } };
  await store.putOutput(runId, names.ref, cut.middle);
  return kept;
}

/**
 * Drops kept text that nothing points at: this execution's own if its result was not taken, or not whole, and if it was
 * taken, those of deliveries before it whose workers were lost. Best effort.
 */
export async function dropUnusedText(
  { store, logger }: Pick<EngineDeps, "store" | "logger">,
  { run: { runId }, open: { callId }, context }: { run: Run; open: OpenCall; context: StepContext },
  kept: FullResult | undefined,
  { run, change }: AdvanceResult,
): Promise<void> {
  const own = kept?.ref ? kept.ref : undefined;
  try {
    const inUse =
      own !== undefined && (change ? isKeptBy(change, callId, own) : await isInRecord(store, run, callId, own));
    if (own !== undefined && !inUse) await store.dropOutputs(runId, own);
    if (change && context.delivery.deliveries > 1)
      await store.dropOutputs(runId, `${callId}.`, inUse ? own : undefined);
  } catch (error) {
    logger.debug({ runId, callId, error: toError(error).message }, "kept text of a lost execution stays");
  }
}

/** Whether a result that a change brings, or that goes into the transcript by it, points at that text. */
function isKeptBy({ results, append }: Change, callId: string, ref: string): boolean {
  const appended = append.flatMap((item) => (item.type === "message" ? [item.message] : []));
  return [...results, ...appended].some(
    (message) => message.role === "tool" && message.callId === callId && message.full?.ref === ref,
  );
}

/** A commit that was made and never answered is not known as ours any more once others came after it. */
async function isInRecord(store: RunStore, run: Run | null, callId: string, ref: string): Promise<boolean> {
  if (!run) return false;
  try {
    return (await findResult(store, run, callId)).full?.ref === ref;
  } catch (error) {
    if (error instanceof DroverError && error.code === "not_found") return false;
    throw error;
  }
}

/** A copy of a text: a part of one holds all of it in memory, and messages stay in caches. */
function detach<T extends Content>(content: T): T {
  return typeof content === "string" ? (JSON.parse(JSON.stringify(content)) as T) : content;
}

/** What the model calls a result by: its call, and in a session, where calls of several runs have the same names, the run. */
function resultName({ runId, session }: Run, callId: string): string {
  return session === undefined ? callId : `${runId}/${callId}`;
}
