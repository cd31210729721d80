// Finds a model that goes round in circles (features H8): the same calls with the same arguments *and* the same results,
// alone or in a cycle of several turns. Polling with changing results is no repetition.

import { canonical } from "./canonical.ts";
import { type Message, type ToolCall, type ToolMessage, textOf } from "./message.ts";

/** The longest cycle that is looked for, in turns. */
const longestCycle = 6;

/** A cycle at the end of a transcript: its length in turns, how often it came in a row, and its last call, quoted. */
export type Repetition = { length: number; rounds: number; quote: string };

/** The calls of one turn, each with its result. */
type Turn = { call: ToolCall; result: ToolMessage }[];

/**
 * The cycle that the last turns make, if it came `repeats` times or more.
 *
 * @param from turns before this transcript index do not count: those before a retry, say.
 * @param isPolling whether a tool is meant to be called again and again; a turn with such a call is no repetition.
 */
export function findRepetition(
  messages: readonly Message[],
  { repeats, from, isPolling }: { repeats: number; from: number; isPolling: (tool: string) => boolean },
): Repetition | null {
  const turnAt = createTurns(messages, from, isPolling);
  for (let length = 1; length <= longestCycle; length++) {
    let equal = 0;
    while (isSame(turnAt(equal), turnAt(equal + length))) equal++;
    const rounds = Math.floor((equal + length) / length);
    if (rounds >= repeats) return { length, rounds, quote: quoteOf(turnAt(0) as Turn) };
  }
  return null;
}

/**
 * The turns that the transcript ends with, the last one being number 0, back to the last word of somebody else and to the
 * last turn that polls. They are read as far as somebody asks: most transcripts need one look at a few.
 */
function createTurns(
  messages: readonly Message[],
  from: number,
  isPolling: (tool: string) => boolean,
): (number: number) => Turn | undefined {
  const turns: Turn[] = [];
  let index = messages.length;
  const next = (): Turn | undefined => {
    const end = index;
    while (index > from && messages[index - 1]?.role === "tool") index--;
    const answer = index > from ? messages[index - 1] : undefined;
    index--;
    if (answer?.role !== "assistant" || answer.toolCalls?.length !== end - index - 1) return undefined;
    const turn = answer.toolCalls.map((call, at) => ({ call, result: messages[index + 1 + at] as ToolMessage }));
    return turn.length === 0 || turn.some(({ call }) => isPolling(call.name)) ? undefined : turn;
  };
  let isOver = false;
  return (number) => {
    while (!isOver && turns.length <= number) {
      const turn = next();
      if (turn) turns.push(turn);
      else isOver = true;
    }
    return turns[number];
  };
}

function isSame(a: Turn | undefined, b: Turn | undefined): boolean {
  return a !== undefined && b !== undefined && mayBeSame(a, b) && toKey(a) === toKey(b);
}

function namesOf(turn: Turn): string {
  if (turn.length === 1) return (turn[0] as Turn[number]).call.name;
  const names = turn.map(({ call }) => call.name);
  return names.sort().join(" ");
}

/** A cheap look first: most turns differ in what they call, or in what a single call gave. */
function mayBeSame(a: Turn, b: Turn): boolean {
  if (a.length !== b.length || namesOf(a) !== namesOf(b)) return false;
  const [one, other] = [a[0] as Turn[number], b[0] as Turn[number]];
  const isText = typeof one.result.content === "string" && !one.result.full && !other.result.full;
  if (a.length > 1) return true;
  return (!isText || one.result.content === other.result.content) && callKey(one.call) === callKey(other.call);
}

/** Equal for turns whose calls and results are equal, in whatever order the calls were made. */
function toKey(turn: Turn): string {
  const calls = turn.map(({ call, result }) => JSON.stringify([callKey(call), result.outcome, comparable(result)]));
  return calls.sort().join("\n");
}

const callKeys = new WeakMap<ToolCall, string>();

/** Equal for calls of one tool whose arguments mean the same. Worked out once for each call while it is remembered. */
function callKey(call: ToolCall): string {
  let key = callKeys.get(call);
  if (key === undefined) {
    key = `${call.name} ${comparableArguments(call.arguments)}`;
    callKeys.set(call, key);
  }
  return key;
}

/** Arguments that cannot be read, or are nested too deeply to be gone through, are compared as they were written. */
function comparableArguments(text: string): string {
  try {
    return canonical(JSON.parse(text));
  } catch {
    return text;
  }
}

/** A result without what is new each time: the note on what is cut out names the call. */
function comparable({ content, full }: ToolMessage): unknown {
  if (!full) return content;
  const text = textOf(content);
  const parts = typeof content === "string" ? [] : content.filter((part) => part.type !== "text");
  return [full.chars, full.bytes, text.slice(0, full.head), text.slice(text.length - full.tail), parts];
}
const quotedLength = 300;

function quoteOf(turn: Turn): string {
  const { call, result } = turn.at(-1) as Turn[number];
  const shown = (words: string): string => (words.length > quotedLength ? `${words.slice(0, quotedLength)}…` : words);
  return `${call.name} with ${shown(call.arguments)}, which gave: ${shown(textOf(result.content))}`;
}

/** What is added to the last result that a model sees when it goes round in circles. */
export function repetitionNudge({ length, rounds, quote }: Repetition): string {
  const what = length === 1 ? "the same call" : `the same ${length} turns`;
  return (
    `Warning: you have made ${what} ${rounds} times in a row with the same result. Last: ${quote}\n` +
    "Another repetition ends the run. Use what you have, try something else, or give your final answer."
  );
}

/** Why a run that went on in circles ended. */
export function repetitionMessage({ length, rounds, quote }: Repetition): string {
  const what = length === 1 ? "the same call" : `the same ${length} turns`;
  return (
    `The model made ${what} ${rounds} times in a row with the same result, in spite of a warning. Last: ${quote} ` +
    'Retry the run with better instructions or a higher "repeats"; a tool that is meant to be polled says "polling".'
  );
}
