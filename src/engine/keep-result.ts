import { defaultMaxResultTokens } from "../core/defaults.ts";
import { toError } from "../core/errors.ts";
import { effectiveLimits } from "../core/limits.ts";
import type { Content, FullResult } from "../core/message.ts";
import { redactSaid } from "../core/redact-event.ts";
import { cutResult, mayExceed, resultTextOf } from "../core/result.ts";
import type { OpenCall, Run } from "../core/run.ts";
import type { AgentCode } from "../ports.ts";
import { fitResult } from "./byte-limits.ts";
import type { EngineDeps } from "./deps.ts";
import type { StepContext } from "./step.ts";

/** What is cut out and no longer than this, in characters, is kept with the message: it costs no write of its own. */
const mostInMessage = 8_192;

/**
 * Cuts a result that is too long for the model, and keeps what is left out. Kept before the commit and under a name of this
 * execution: a commit that is refused leaves text that nothing points at, and never touches the winner's.
 */
export async function keepResult(
  { store, ids, redaction }: Pick<EngineDeps, "store" | "ids" | "redaction">,
  agent: AgentCode,
  { run, open }: { run: Run; open: OpenCall },
  given: Content,
): Promise<{ content: Content; full?: FullResult }> {
  const { maxBytes, maxMessageBytes } = effectiveLimits(agent.limits, run);
  const room = Math.min(maxMessageBytes, Math.max(0, maxBytes - (run.bytes ?? 0)));
  const clean = fitResult(redaction.stored ? redactSaid(given, redaction.redactor) : given, room);
  const maxTokens = agent.tools.maxResultTokens(open.tool) ?? defaultMaxResultTokens;
  const bytes = Buffer.byteLength(resultTextOf(clean));
  if (!mayExceed(bytes, maxTokens)) return { content: detach(clean) };
  const { runId } = run;
  const names = { name: resultName(run, open.callId), runId, ref: `${open.callId}.${ids.token()}` };
  const cut = cutResult(clean, { maxTokens, bytes, names, counter: await agent.tokens() });
  if (!cut) return { content: detach(clean) };
  const kept = { content: detach(cut.content), full: cut.full };
  if (cut.middle.length <= mostInMessage)
    return { ...kept, full: { ...cut.full, ref: "", middle: detach(cut.middle) } };
  await store.putOutput(runId, names.ref, cut.middle);
  return kept;
}

/**
 * Drops kept text that nothing points at: this execution's own if its result was not taken, and if it was, those of
 * deliveries before it whose workers were lost. Best effort.
 */
export async function dropUnusedText(
  { store, logger }: Pick<EngineDeps, "store" | "logger">,
  { run: { runId }, open: { callId }, context }: { run: Run; open: OpenCall; context: StepContext },
  kept: FullResult | undefined,
  isTaken: boolean,
): Promise<void> {
  try {
    if (!isTaken && kept && kept.ref !== "") await store.dropOutputs(runId, kept.ref);
    if (isTaken && context.delivery.deliveries > 1) await store.dropOutputs(runId, `${callId}.`, kept?.ref);
  } catch (error) {
    logger.debug({ runId, callId, error: toError(error).message }, "kept text of a lost execution stays");
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
