import fc from "fast-check";
import { expect, test } from "vitest";
import { type BodyEnd, createBodyReader } from "../../src/openai/body-reader.ts";

type Read = { end: BodyEnd; texts: string[]; data: number; done: boolean; content: unknown; calls: number };

function read(pieces: readonly (string | Uint8Array)[]): Read {
  const texts: string[] = [];
  let data = 0;
  const reader = createBodyReader(
    (text) => texts.push(text),
    () => {
      data += 1;
    },
  );
  for (const piece of pieces) reader.feed(typeof piece === "string" ? Buffer.from(piece) : piece);
  const done = reader.isDone();
  const end = reader.close();
  const { content, toolCalls } = reader.result().reply;
  return { end, texts, data, done, content, calls: toolCalls.length };
}

const chunk = (delta: unknown, finishReason: string | null = null): string =>
  JSON.stringify({ choices: [{ index: 0, delta, finish_reason: finishReason }] });
const event = (data: string): string => `data: ${data}\n\n`;
const hello = event(chunk({ content: "hé" })) + event(chunk({ content: "llo 🌧" }));
const stop = event(chunk({}, "stop"));
const cut = (problem: string): BodyEnd => ({ type: "cut", problem: expect.stringContaining(problem) as string });

test.each<[string, string[], BodyEnd, unknown]>([
  ["a stream with all its ends", [hello, stop, event("[DONE]")], { type: "finished" }, "héllo 🌧"],
  ["a stream without [DONE]", [hello, stop], { type: "finished" }, "héllo 🌧"],
  ["a stream without finish reason", [hello, event("[DONE]")], { type: "finished" }, "héllo 🌧"],
  ["a last event without its blank line", [hello, stop.trimEnd()], { type: "finished" }, "héllo 🌧"],
  ["a stream that just ends", [hello], cut("ended before"), "héllo 🌧"],
  ["a last event cut in two", [hello, stop.slice(0, 30)], cut("ended before"), "héllo 🌧"],
  ["comments alone", [": ping\n\n: ping\n\n"], cut("ended before"), null],
  ["nothing", [], cut("empty"), null],
  ["space alone", [" \n"], cut("empty"), null],
  ["an error event", [hello, event('{"error":{"message":"no"}}'), hello], { type: "finished" }, "héllo 🌧"],
  ["events after the end", [hello, event("[DONE]"), hello], { type: "finished" }, "héllo 🌧"],
  [
    "legal and nearly legal framing",
    [
      "\uFEFF: hi\r\nid: 1\r\nretry: 10\r\n",
      `event: ping\r\ndata: null\r\n\r\ndata:${chunk({ content: "hi" })}\r\n\r\n`,
      `data: ping\n\ndata: {"choices":\ndata: [{"delta":{},"finish_reason":"stop"}]}\n\n`,
      "data:[DONE]\n\n",
    ],
    { type: "finished" },
    "hi",
  ],
  [
    "a JSON body instead of a stream",
    ['\n {"choices":[{"message":{"content":"hi"},', '"finish_reason":"stop"}]}'],
    { type: "finished" },
    "hi",
  ],
  ["a JSON error instead of a stream", ['{"error":{"message":"no"}}'], { type: "finished" }, null],
  ["a JSON body cut in two", ['{"choices":[{"message":{"con'], cut("not JSON"), null],
  ["a JSON body about something else", ['{"hello":1}'], cut("no answer"), null],
  ["a page", ["<html></html>"], cut("not JSON"), null],
])("%s", (_, pieces, end, content) => {
  const result = read(pieces);
  expect(result.end).toEqual(end);
  expect(result.content).toBe(content);
  expect(result.texts.join("")).toBe(content ?? "");
});

test("comments are no progress, data events are", () => {
  expect(read([": a\n\n", ": b\n\n", event("null"), event("[DONE]")]).data).toBe(0);
  expect(read([hello]).data).toBe(2);
});

test("it is done at [DONE], whether or not the connection closes", () => {
  expect(read([hello, stop]).done).toBe(false);
  expect(read([hello, stop, event("[DONE]")]).done).toBe(true);
});

test("an event without end is given up", () => {
  const piece = `data: ${"x".repeat(1024 * 1024)}`;
  const result = read(Array.from({ length: 18 }, (_, index) => (index === 0 ? piece : piece.slice(6))));
  expect(result).toMatchObject({ done: true, end: { type: "cut", problem: "an event of the stream is too large" } });
});

test("the answer is the same however the bytes are split", () => {
  const call = { index: 0, id: "a", function: { name: "add", arguments: '{"x":"é🌧"}' } };
  const streams = [
    `: hi\r\n\r\n${hello}${event(chunk({ tool_calls: [call] }))}${stop}${event("[DONE]")}`,
    hello.replaceAll("\n", "\r\n") + stop,
    JSON.stringify({ choices: [{ message: { content: "héllo 🌧", tool_calls: [call] }, finish_reason: "stop" }] }),
    hello,
  ];
  fc.assert(
    fc.property(fc.constantFrom(...streams), fc.array(fc.nat(), { maxLength: 40 }), (text, cuts) => {
      const bytes = Buffer.from(text);
      const places = [0, ...cuts.map((place) => place % bytes.length).sort((a, b) => a - b), bytes.length];
      const pieces = places.slice(1).map((place, index) => bytes.subarray(places[index], place));
      const { end, content, calls, texts } = read(pieces);
      const whole = read([text]);
      expect({ end, content, calls, text: texts.join("") }).toEqual({
        end: whole.end,
        content: whole.content,
        calls: whole.calls,
        text: whole.texts.join(""),
      });
    }),
    { numRuns: 1_000 },
  );
});

test("never throws, whatever bytes come", () => {
  const line = fc.oneof(fc.string(), fc.json().map(event), fc.constantFrom("data: ", "\n", "[DONE]", "{"));
  fc.assert(
    fc.property(fc.array(fc.oneof(line, fc.uint8Array()), { maxLength: 10 }), (pieces) => {
      expect(["finished", "cut"]).toContain(read(pieces).end.type);
    }),
    { numRuns: 1_000 },
  );
});
