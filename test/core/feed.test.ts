import { describe, expect, test } from "vitest";
import { type ExpandedEntry, type FeedState, feedDelta, feedEntry, feedStart, startFeed } from "../../src/core/feed.ts";
import { textOf } from "../../src/core/message.ts";
import { noUsage } from "../../src/core/run.ts";

const error = { code: "x", message: "x" };
const manifest = { agentHash: "h", messages: [], tools: [], dropped: [] };
const answered = (text: string): ExpandedEntry => ({
  ...{ type: "model_answered", seq: 2, at: 5, turn: 1, attempt: 1, execution: "x1", message: 1, calls: [] },
  ...{ usage: noUsage, finishReason: "stop", manifest, answer: { role: "assistant", content: text } },
});

/** A reader that has had some text of execution x1. */
function reading(text: string): FeedState {
  const fed = feedDelta(startFeed(feedStart, 0), { turn: 1, attempt: 1, execution: "x1", text });
  if (!fed) throw new Error("the text was not taken");
  return fed.state;
}

const types = (state: FeedState, entry: ExpandedEntry): string[] =>
  feedEntry(state, entry, textOf).events.map(({ type }) => type);

describe("text that was given out", () => {
  test("is completed by its answer", () => {
    const { events } = feedEntry(reading("Hel"), answered("Hello"), textOf);
    expect(events).toMatchObject([
      { type: "text", text: "lo", id: "0.x1.5" },
      { type: "model_answered", id: "2" },
    ]);
    expect(types(reading("Hello"), answered("Hello"))).toEqual(["model_answered"]);
  });

  test("is superseded by an answer that reads otherwise, which follows whole", () => {
    const { events } = feedEntry(reading("<think>hm"), answered("Hello"), textOf);
    expect(events).toMatchObject([
      { type: "text_superseded" },
      { type: "text", text: "Hello" },
      { type: "model_answered" },
    ]);
  });

  test.each<[ExpandedEntry, boolean]>([
    [{ type: "model_failed", seq: 2, at: 5, turn: 0, attempt: 1, execution: "x1", error, nextAt: 9 }, true],
    [{ type: "model_failed", seq: 2, at: 5, turn: 0, attempt: 1, execution: "other", error, nextAt: 9 }, false],
    [{ type: "step_crashed", seq: 2, at: 5, turn: 0, error, nextAt: 9 }, true],
    [{ type: "step_crashed", seq: 2, at: 5, turn: 0, callId: "call-1-1", error, nextAt: 9 }, false],
    [{ type: "run_ended", seq: 2, at: 5, turn: 0, status: "cancelled", stopReason: "cancelled" }, true],
    [{ type: "run_began", seq: 2, at: 5, turn: 0, agentHash: "h" }, false],
  ])("by %j is void: %s", (entry, isVoid) => {
    expect(types(reading("Hel"), entry)).toEqual(isVoid ? ["text_superseded", entry.type] : [entry.type]);
  });

  test("of an answer without any is nothing", () => {
    expect(types(startFeed(feedStart, 0), { ...answered(""), answer: undefined } as ExpandedEntry)).toEqual([
      "model_answered",
    ]);
  });

  test("of a later turn waits for the entries between", () => {
    expect(feedDelta(startFeed(feedStart, 0), { turn: 2, attempt: 1, execution: "x", text: "a" })).toBeNull();
    expect(feedDelta(startFeed(feedStart, 2), { turn: 2, attempt: 1, execution: "x", text: "a" })?.events).toEqual([]);
  });
});

test("a reader in the middle of a text can have all of it again, and learns if it is void", () => {
  const again = startFeed({ seq: 1, execution: "x1", length: 2 }, 0, true);
  const fed = feedDelta(again, { turn: 1, attempt: 1, execution: "x1", text: "Hello" });
  expect(fed?.events).toMatchObject([{ type: "text", text: "Hello", id: "1.x1.5" }]);
  const { events } = feedEntry(again, answered("Hello"), textOf);
  expect(events).toMatchObject([{ type: "text", text: "Hello" }, { type: "model_answered" }]);
  const other = feedDelta(again, { turn: 1, attempt: 1, execution: "x2", text: "Bye" });
  expect(other?.events).toMatchObject([
    { type: "text_superseded", execution: "x1" },
    { type: "text", text: "Bye" },
  ]);
});
