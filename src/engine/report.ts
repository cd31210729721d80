// Reads what a run's report is told from, in pages.

import type { AgentDefinition } from "../core/agent.ts";
import { DroverError } from "../core/errors.ts";
import type { FeedEntry } from "../core/event.ts";
import type { AssistantMessage, Message, ToolMessage } from "../core/message.ts";
import type { Redaction } from "../core/redact-event.ts";
import type { RequestView, TurnPage } from "../core/report.ts";
import {
  cutsText,
  goalAt,
  overviewOf,
  rangesOf,
  remindsIn,
  type StoredRequest,
  wholeRequestOf,
} from "../core/report-request.ts";
import type { TurnEntries } from "../core/report-split.ts";
import { toTurnView } from "../core/report-turn.ts";
import { isEnded, type Run } from "../core/run.ts";
import type { RunStore, TokenCounter } from "../ports.ts";
import type { Client } from "./client.ts";
import { readResultSpec } from "./read-result.ts";
import { createReportContent, type ReportContent } from "./report-content.ts";
import { readTurnEntries } from "./report-feed.ts";

/**
 * - `from`: the first turn, from 1;
 * - `limit`: default 20, at most 200; a page ends sooner where its requests hold over 5,000 messages in all;
 * - `requests`: false: an overview of each request, without instructions, messages, tools and parameters. Default true.
 */
export type TurnsOptions = {
  from?: number | undefined;
  limit?: number | undefined;
  requests?: boolean | undefined;
};

const defaultLimit = 20;
const mostTurns = 200;
/** Each request repeats most of the one before: a page of late turns of a long run would be many times the run. */
const mostMessages = 5_000;

export type ReportDeps = {
  client: Pick<Client, "load">;
  store: RunStore;
  redaction: Redaction;
  /** Counts as the model of a definition does; undefined if nobody here can. */
  tokens(definition: AgentDefinition): Promise<TokenCounter | undefined>;
};

type Reading = { deps: ReportDeps; run: Run; content: ReportContent; whole: boolean };

/** Turns of a run with all that belongs to them. @throws DroverError "invalid" "not_found" */
export async function readTurns(deps: ReportDeps, runId: string, options: TurnsOptions = {}): Promise<TurnPage> {
  const { from = 1, limit = defaultLimit, requests: whole = true } = options;
  checkNumber("from", from, Number.MAX_SAFE_INTEGER);
  checkNumber("limit", limit, mostTurns);
  const run = await deps.client.load(runId);
  const { turns: all, total } = await readTurnEntries(deps.store, run, { from, to: from + limit - 1 });
  const turns = whole ? withinMessages(all) : all;
  const content = createReportContent(deps, run);
  // All at once: the windows of a page's turns are nearly the same messages.
  await content.read(turns.flatMap((turn) => [...indexesOf(turn), ...(whole ? windowOf(turn) : [])]));
  const early = await readEarly(content, turns);
  const reading = { deps, run, content, whole };
  const views = turns.map(async (turn) =>
    toTurnView(
      turn,
      {
        answer: turn.answer && (content.messages[turn.answer.message] as AssistantMessage | undefined),
        results: resultsOf(turn, content, early),
        input: [...inputOf(turn, content), ...waitingInput(turn, reading)],
        request: turn.answer && (await toRequest(reading, turn.answer)),
      },
      run,
      deps.redaction.redactor,
    ),
  );
  return { turns: await Promise.all(views), total };
}

function checkNumber(name: string, value: number, most: number): void {
  if (Number.isInteger(value) && value >= 1 && value <= most) return;
  const expected = most === Number.MAX_SAFE_INTEGER ? "of at least 1" : `from 1 to ${most}`;
  throw new DroverError("invalid", `${name}: expected a whole number ${expected}, got ${JSON.stringify(value)}.`);
}

/** As many of the first turns as a page can hold with their requests, at least one. */
function withinMessages(turns: readonly TurnEntries[]): TurnEntries[] {
  let messages = 0;
  const end = turns.findIndex((turn, index) => {
    messages += windowOf(turn).reduce((sum, [from, to]) => sum + to - from, 0);
    return index > 0 && messages > mostMessages;
  });
  return turns.slice(0, end === -1 ? turns.length : end);
}

type Finished = Extract<FeedEntry, { type: "tool_finished" }>;

function finishedOf({ entries }: TurnEntries): Finished[] {
  return entries.filter((entry) => entry.type === "tool_finished");
}

/** Transcript ranges of what a turn's entries point at. */
function indexesOf(turn: TurnEntries): [number, number][] {
  const { answer, input } = turn;
  const single = [...(answer ? [answer] : []), ...finishedOf(turn)];
  return [...input, ...single.map(({ message }): [number, number] => [message, message + 1])];
}

function windowOf({ answer }: TurnEntries): [number, number][] {
  return answer ? rangesOf(answer.manifest) : [];
}

/** Results that wait for the others of their turn, unless they were moved into the transcript in this moment. */
async function readEarly(content: ReportContent, turns: readonly TurnEntries[]): Promise<Record<string, ToolMessage>> {
  const missing = turns.flatMap(finishedOf).filter((entry) => findResult(entry, content, {}) === undefined);
  if (missing.length === 0) return {};
  const early = await content.readEarly();
  const moved = missing.filter(({ callId }) => early[callId] === undefined);
  await content.read(moved.map(({ message }) => [message, message + 1]));
  return early;
}

function findResult(
  { callId, message }: Finished,
  { messages }: ReportContent,
  early: Record<string, ToolMessage>,
): ToolMessage | undefined {
  const found = messages[message];
  return found?.role === "tool" && found.callId === callId ? found : early[callId];
}

function resultsOf(
  turn: TurnEntries,
  content: ReportContent,
  early: Record<string, ToolMessage>,
): Map<string, ToolMessage> {
  const results = finishedOf(turn).map((entry) => [entry.callId, findResult(entry, content, early)] as const);
  return new Map(results.flatMap(([callId, result]) => (result ? [[callId, result]] : [])));
}

function inputOf({ input }: TurnEntries, { messages }: ReportContent): Message[] {
  return input.flatMap(([from, to]) => messages.slice(from, to).filter((message) => message !== undefined));
}

/** Input that waits to enter before the next model call. */
function waitingInput({ turn }: TurnEntries, { run, content }: Reading): Message[] {
  return turn === run.turns + 1 && !isEnded(run) ? run.pendingInput.map(content.redact) : [];
}

/** What the model was sent; undefined if the agent's definition is gone. */
async function toRequest(reading: Reading, answered: StoredRequest["answered"]): Promise<RequestView | undefined> {
  const { run, content, whole } = reading;
  const { agentHash, window } = answered.manifest;
  const definition = await content.definition(agentHash);
  if (!definition) return undefined;
  const summary = window?.summary === undefined ? undefined : await content.summary(window.summary);
  const stored = { answered, definition, summary };
  const cutText = whole ? await toCutText(reading, stored) : undefined;
  if (!cutText) return overviewOf(stored);
  const { messages } = content;
  const goal = goalAt(run, answered.message);
  const restated: [number, number][] = goal !== undefined && remindsIn(answered.manifest) ? [[goal, goal + 1]] : [];
  if (!hasAll(messages, [...rangesOf(answered.manifest), ...restated])) return overviewOf(stored);
  return wholeRequestOf(stored, { messages, goal, cutText, builtIn: [...content.callerTools, readResultSpec] });
}

function hasAll(
  messages: readonly (Message | undefined)[],
  ranges: readonly [number, number][],
): messages is Message[] {
  return ranges.every(([from, to]) => {
    for (let index = from; index < to; index++) if (messages[index] === undefined) return false;
    return true;
  });
}

/** How texts were cut for that request; undefined if nobody here counts as its model does. */
async function toCutText(
  reading: Reading,
  { answered, definition }: StoredRequest,
): Promise<((text: string, tokens: number) => string) | undefined> {
  const { manifest } = answered;
  const budgeted = remindsIn(manifest) && (await hadBudget(reading, { definition, answered }));
  if (!cutsText(manifest, budgeted)) return (text) => text;
  return (await reading.deps.tokens(definition))?.cut;
}

/** Whether requests had a budget at that time: the agent's own, or one learned from a refusal before. */
async function hadBudget(
  { run, content }: Reading,
  { definition, answered }: Pick<StoredRequest, "definition" | "answered">,
): Promise<boolean> {
  if (definition.window?.budgetTokens !== undefined) return true;
  if (run.windowBudget === undefined) return false;
  return answered.seq > (await content.firstShrunk());
}
