import { createParser } from "eventsource-parser";
import { type Accumulated, createAccumulator } from "./accumulator.ts";

/**
 * What the body of a 200 turned out to be.
 * - `finished`: an answer, or an error object, with its end seen;
 * - `cut`: it ended, or could not be read on, before its end was seen.
 */
export type BodyEnd = { type: "finished" | "cut"; problem?: string | undefined };

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

const maxEventLength = 16 * 1024 * 1024;
const maxJsonLength = 64 * 1024 * 1024;

/**
 * Reads an answer from its bytes, as server-sent events or as one JSON body: which of them it is shows in its first
 * character, since servers ignore what they were asked for and mislabel what they send. Never throws.
 *
 * @param onText called with each piece of the model's text.
 * @param onData called for each sign of progress: a data event, or a piece of a JSON body; not for comments.
 */
export function createBodyReader(onText: (text: string) => void, onData: () => void): BodyReader {
  const decoder = new TextDecoder();
  const accumulator = createAccumulator();
  let form: "unknown" | "events" | "json" = "unknown";
  let json = "";
  let done = false;
  let problem: string | undefined;

  const parser = createParser({
    maxBufferSize: maxEventLength,
    onEvent: ({ data }) => {
      if (done) return;
      if (data.startsWith("[DONE]")) {
        done = true;
        return;
      }
      const chunk = tryJson(data);
      if (typeof chunk !== "object" || chunk === null) return;
      onData();
      emit(accumulator.addChunk(chunk));
      if (accumulator.hasEnded().failed) done = true;
    },
    onError: (error) => {
      if (error.type !== "max-buffer-size-exceeded") return;
      done = true;
      problem = "an event of the stream is too large";
    },
  });
  const emit = (text: string): void => {
    if (text !== "") onText(text);
  };
  const take = (text: string): void => {
    if (done || text === "") return;
    if (form === "unknown") {
      const first = text.trimStart().charAt(0);
      if (first === "") return;
      form = first === "{" || first === "[" || first === "<" ? "json" : "events";
    }
    if (form === "events") parser.feed(text);
    else {
      onData();
      json += text;
      if (json.length > maxJsonLength) {
        done = true;
        problem = "the body is too large";
      }
    }
  };

  return {
    feed: (bytes) => take(decoder.decode(bytes, { stream: true })),
    close: () => {
      take(decoder.decode());
      // A last event counts although its closing blank line is missing.
      if (form === "events" && !done) parser.feed("\n\n");
      if (form === "json" && problem === undefined) {
        const body = tryJson(json);
        if (typeof body !== "object" || body === null) return { type: "cut", problem: "the body is not JSON" };
        emit(accumulator.addCompletion(body));
        const { hasChoice, error } = accumulator.result();
        if (!hasChoice && error === undefined) return { type: "cut", problem: "the body holds no answer" };
        return { type: "finished" };
      }
      if (problem !== undefined) return { type: "cut", problem };
      const sawEnd = done || accumulator.hasEnded().finished;
      return sawEnd ? { type: "finished" } : { type: "cut", problem: "the stream ended before the answer did" };
    },
    isDone: () => done,
    hasFinishReason: () => accumulator.hasEnded().finished,
    result: () => accumulator.result(),
  };
}

function tryJson(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return undefined;
  }
}
