import type { Content, FullResult } from "../core/message.ts";
import { redactSaid } from "../core/redact-event.ts";
import { cutResult, mayExceed, resultTextOf } from "../core/result.ts";
import type { OpenCall, Run } from "../core/run.ts";
import type { AgentCode } from "../ports.ts";
import type { EngineDeps } from "./deps.ts";

/** What a model that knows of no limit gets at most. */
export const defaultMaxTokens = 2_000;

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
  const clean = redaction.stored ? redactSaid(given, redaction.redactor) : given;
  const maxTokens = agent.tools.maxResultTokens(open.tool) ?? defaultMaxTokens;
  const bytes = Buffer.byteLength(resultTextOf(clean));
  if (!mayExceed(bytes, maxTokens)) return { content: detach(clean) };
  const { runId } = run;
  const names = { name: resultName(run, open.callId), runId, ref: `${open.callId}.${ids.token()}` };
  const cut = cutResult(clean, { maxTokens, bytes, names, counter: await agent.tokens() });
  if (!cut) return { content: detach(clean) };
  await store.putOutput(runId, names.ref, cut.middle);
  return { content: detach(cut.content), full: cut.full };
}

/** A copy of a text: a part of one holds all of it in memory, and messages stay in caches. */
function detach(content: Content): Content {
  return typeof content === "string" ? (JSON.parse(JSON.stringify(content)) as string) : content;
}

/** What the model calls a result by: its call, and in a session, where calls of several runs have the same names, the run. */
function resultName({ runId, session }: Run, callId: string): string {
  return session === undefined ? callId : `${runId}/${callId}`;
}
