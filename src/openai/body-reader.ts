import { createParser } from "eventsource-parser";
import { type Accumulated, type Accumulator, createAccumulator } from "./accumulator.ts";

/** `finished`: the end of an answer, or an error object, was seen. `cut`: the body ended before, or made no sense. */
export type BodyEnd = { type: "finished" } | { type: "cut"; problem: string };

export type BodyReader = {
  /** Takes bytes as they come, split anywhere. */
  feed(bytes: Uint8Array): void;
  /** Says that no more bytes will come. */
  close(): BodyEnd;
  /** True once nothing more of the answer can come. */
  isDone(): boolean;
  /** True once the model has said why it stopped; only usage can follow. */
  hasFinishReason(): boolean;
  result(): Accumulated;
};

/** How one form of body is read. */
type Form = { feed(text: string): void; close(): BodyEnd; isDone(): boolean };
type Handlers = { onText: (text: string) => void; onData: () => void };

const maxEventLength = 16 * 1024 * 1024;
const maxJsonLength = 64 * 1024 * 1024;

/**
 * Reads an answer from its bytes, as server-sent events or as one JSON body: which of them it is shows in its first
 * character, since servers ignore what they were asked for and mislabel what they send. Never throws.
 *
 * @param onText called with each piece of the model's text.
 * @param toolNames names that were offered, as they were sent.
 * @param onData called for each sign of progress: a data event, or a piece of a JSON body; not for comments.
 */
export function createBodyReader(
  onText: (text: string) => void,
  onData: () => void,
  toolNames?: ReadonlySet<string>,
): BodyReader {
  const decoder = new TextDecoder();
  const accumulator = createAccumulator(toolNames);
  const handlers: Handlers = { onText: (text) => (text === "" ? undefined : onText(text)), onData };
  let form: Form | undefined;
  const take = (text: string): void => {
    const first = text.trimStart().charAt(0);
    if (first !== "")
      form ??= /[{[<]/.test(first) ? readJson(accumulator, handlers) : readEvents(accumulator, handlers);
    if (!form?.isDone()) form?.feed(text);
  };
  return {
    feed: (bytes) => take(decoder.decode(bytes, { stream: true })),
    close: () => {
      take(decoder.decode());
      return form?.close() ?? { type: "cut", problem: "the body is empty" };
    },
    isDone: () => form?.isDone() ?? false,
    hasFinishReason: () => accumulator.hasEnded().finished,
    result: () => accumulator.result(),
  };
}

function readEvents(accumulator: Accumulator, { onText, onData }: Handlers): Form {
  let done = false;
  let problem: string | undefined;
  const parser = createParser({
    maxBufferSize: maxEventLength,
    onEvent: ({ data, event }) => {
      if (done) return;
      if (data.startsWith("[DONE]")) {
        done = true;
        return;
      }
      const chunk = tryJson(data) ?? (event === "error" ? { error: data } : undefined);
      if (typeof chunk !== "object" || chunk === null) return;
      onData();
      onText(accumulator.addChunk(chunk));
      done = accumulator.hasEnded().failed;
    },
    onError: (error) => {
      if (error.type !== "max-buffer-size-exceeded") return;
      done = true;
      problem = "an event of the stream is too large";
    },
  });
  return {
    feed: (text) => parser.feed(text),
    close: () => {
      // A last event counts although its closing blank line is missing.
      if (!done) parser.feed("\n\n");
      if (problem !== undefined) return { type: "cut", problem };
      const sawEnd = done || accumulator.hasEnded().finished;
      return sawEnd ? { type: "finished" } : { type: "cut", problem: "the stream ended before the answer did" };
    },
    isDone: () => done,
  };
}

function readJson(accumulator: Accumulator, { onText, onData }: Handlers): Form {
  let text = "";
  const isTooLarge = (): boolean => text.length > maxJsonLength;
  return {
    feed: (piece) => {
      onData();
      text += piece;
    },
    close: () => {
      if (isTooLarge()) return { type: "cut", problem: "the body is too large" };
      const body = tryJson(text);
      if (typeof body === "object" && body !== null) onText(accumulator.addCompletion(body));
      else if (!readLines(text, accumulator, onText))
        return { type: "cut", problem: `the body is not JSON: ${start(text)}` };
      const { hasChoice, error, finishReason } = accumulator.result();
      // Lines without an end are an answer that was cut.
      if (error !== undefined || (hasChoice && (body !== undefined || finishReason !== undefined)))
        return { type: "finished" };
      return { type: "cut", problem: hasChoice ? "the answer has no end" : `the body holds no answer: ${start(text)}` };
    },
    isDone: isTooLarge,
  };
}

/** Chunks one to a line, without the framing of events. @returns false if it is something else. */
function readLines(text: string, accumulator: Accumulator, onText: Handlers["onText"]): boolean {
  const chunks = text
    .split("\n")
    .filter((line) => line.trim() !== "")
    .map(tryJson);
  if (chunks.length < 2 || !chunks.every((chunk) => typeof chunk === "object" && chunk !== null)) return false;
  for (const chunk of chunks) onText(accumulator.addChunk(chunk));
  return true;
}

const shownLength = 120;

function start(text: string): string {
  const line = text.replace(/\s+/g, " ").trim();
  return line.length > shownLength ? `${line.slice(0, shownLength)}…` : line;
}

/** Nesting that no answer has, and that whatever is done with it would have to follow. */
const maxDepth = 500;

function tryJson(text: string): unknown {
  try {
    return isTooDeep(text) ? undefined : (JSON.parse(text) as unknown);
  } catch {
    return undefined;
  }
}

/** Looks closely only where there are brackets enough. */
function isTooDeep(text: string): boolean {
  if (text.split(/[{[]/, maxDepth + 1).length <= maxDepth) return false;
  let depth = 0;
  for (const [token] of text.matchAll(/"(?:[^"\\]|\\.)*"|[[\]{}]/gs)) {
    if (token === "{" || token === "[") depth += 1;
    else if (token === "}" || token === "]") depth -= 1;
    if (depth > maxDepth) return true;
  }
  return false;
}
