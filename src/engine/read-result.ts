// The built-in tool by which a model reads on in a result that was cut. It needs nothing but what is kept, so its calls are
// settled with the answer that makes them, and cost no step of their own.

import type { ToolSpec } from "../core/agent.ts";
import { defaultMaxResultTokens } from "../core/defaults.ts";
import type { CallPlan } from "../core/event.ts";
import { type CutMessage, type FullResult, isCut, type Message, type ToolCall } from "../core/message.ts";
import {
  joinRange,
  planRange,
  type ReadResultArguments,
  type ResultRange,
  rangeText,
  readResultName,
  readResultSchema,
  wholeCharacters,
} from "../core/result.ts";
import { findPlaces, type Place, placesText } from "../core/result-search.ts";
import type { Run } from "../core/run.ts";
import type { AgentCode, RunStore, TokenCounter } from "../ports.ts";

export const readResultSpec: ToolSpec = {
  name: readResultName,
  description:
    "Reads on in a result of an earlier call that was cut for its length, or finds words in it. Gives so many characters " +
    'from a position on, as much as fits. Examples: {"result":"call-3-1","from":12000}, {"result":"call-3-1","find":"total"}',
  parameters: {
    type: "object",
    properties: {
      result: { type: "string", description: "Name of the result, as its cut says it, e.g. call-3-1" },
      from: { type: "integer", minimum: 0, description: "First character to read, from 0; default 0" },
      length: { type: "integer", minimum: 1, description: "How many characters, e.g. 4000; default: as many as fit" },
      find: { type: "string", description: "In place of reading: find where these very words are, from there on" },
    },
    required: ["result"],
    additionalProperties: false,
  },
};

/** What the line above a piece takes. */
const headingTokens = 60;
/** More characters than a token has, but in runs of one character. */
const charsPerToken = 16;
/** Characters that are looked through at a time. */
const searchLength = 500_000;
/** Places that are told of at a time, at most. */
const maxPlaces = 40;
/** No piece is shorter than this, so that it has a whole character wherever it begins. */
const minChars = 4;

/** The agent's tools, its caller's, and if a result was cut in the transcript the one that reads on. */
export function offeredTools(agent: AgentCode, run: Pick<Run, "tools">, hasCut: boolean): ToolSpec[] {
  const tools = run.tools ? [...agent.definition.tools, ...run.tools] : agent.definition.tools;
  return hasCut && isReadResult(agent, readResultName) ? [...tools, readResultSpec] : tools;
}

/** Whether a call of this name is of the built-in tool, and not of one of the agent's own. */
export function isReadResult({ definition }: AgentCode, name: string): boolean {
  return name === readResultName && !definition.tools.some((tool) => tool.name === readResultName);
}

type Given = { store: RunStore; agent: AgentCode; messages: readonly Message[] };

/** What becomes of a call of `read_result`, whose arguments are a JSON object: text for the model, whatever it asked for. */
export async function planReadResult({ store, agent, messages }: Given, call: ToolCall): Promise<CallPlan> {
  const parsed = readResultSchema.safeParse(JSON.parse(call.arguments));
  if (!parsed.success) {
    const problems = parsed.error.issues.map(({ path, message }) => `${path.join(".") || "arguments"}: ${message}`);
    return refused(`its arguments do not fit: ${problems.join("; ")}.`);
  }
  const { result } = parsed.data;
  const cut = messages.filter(isCut);
  const found = cut.findLast(({ full }) => full.name === result);
  if (!found) {
    const names = cut.slice(-listed).map(({ full }) => full.name);
    return refused(
      `no result that was cut is named ${JSON.stringify(result.slice(0, 100))}. There are: ${names.join(", ")}.`,
    );
  }
  const { full, name } = found;
  // As much as its tool gives at a time.
  const maxTokens = (agent.tools.maxResultTokens(name) ?? defaultMaxResultTokens) - headingTokens;
  const given = { counter: await agent.tokens(), maxTokens };
  const content = await (parsed.data.find ? search : read)(store, found, parsed.data, given);
  if (content === undefined)
    return refused(`what was cut out of ${full.name} is not kept any more. Call its tool again.`);
  return { type: "settle", content, outcome: "ok" };
}

type Limit = { counter: TokenCounter; maxTokens: number };

async function read(
  store: RunStore,
  message: CutMessage,
  { from, length }: ReadResultArguments,
  { counter, maxTokens }: Limit,
): Promise<string | undefined> {
  const wanted = Math.max(minChars, Math.min(length, maxTokens * charsPerToken));
  const range = await readPiece(store, message, { from, length: wanted });
  if (!range) return undefined;
  const whole = wholeCharacters(range);
  const text = counter.cut(whole.text, maxTokens);
  return rangeText({ ...whole, text, to: whole.from + text.length });
}

/** Looks through the result piece by piece until there is as much as fits. */
async function search(
  store: RunStore,
  message: CutMessage,
  { from, find: words = "" }: ReadResultArguments,
  { counter, maxTokens }: Limit,
): Promise<string | undefined> {
  const { chars } = message.full;
  const places: Place[] = [];
  let at = from;
  while (at < chars && places.length < maxPlaces) {
    const piece = await readPiece(store, message, { from: at, length: searchLength + words.length - 1 });
    if (!piece) return undefined;
    places.push(...findPlaces(piece, words, searchLength));
    at += searchLength;
  }
  const shown = places.slice(0, maxPlaces);
  const isAll = at >= chars && places.length <= maxPlaces;
  return placesText({ places: shown, isAll, words, chars }, (text) => counter.count(text) <= maxTokens);
}

async function readPiece(
  store: RunStore,
  { content, full }: CutMessage,
  range: { from: number; length: number },
): Promise<ResultRange | undefined> {
  const plan = planRange(full, range);
  const middle = await readMiddle(store, full, plan.middle);
  return middle === undefined ? undefined : joinRange(content, full, plan, middle);
}

/** A part of what was cut out; undefined if it is gone. What needs nothing of it is not asked for. */
export async function readMiddle(
  store: RunStore,
  { runId, ref, middle }: FullResult,
  [from, to]: [from: number, to: number],
): Promise<string | undefined> {
  if (middle !== undefined) return middle.slice(from, to);
  return from === to ? "" : store.readOutput(runId, ref, from, to);
}

const listed = 20;

function refused(why: string): CallPlan {
  return { type: "settle", content: `${readResultName} gave nothing: ${why}` };
}
