// Catches: text lost, doubled or left standing after its execution died, however a reader connects and disconnects.
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  type ExpandedEntry,
  type FeedDelta,
  type FeedState,
  feedDelta,
  feedEntry,
  feedStart,
  fromFeedId,
  type RunFeedEvent,
  startFeed,
  toFeedId,
} from "../../src/core/feed.ts";
import { textOf } from "../../src/core/message.ts";
import { noUsage } from "../../src/core/run.ts";

type Turn = { executions: { pieces: string[]; dies: boolean }[]; answer: string[] };
type Item = { entry: ExpandedEntry } | { delta: FeedDelta };

const piece = fc.string({ minLength: 1, maxLength: 4 });
const turnArb: fc.Arbitrary<Turn> = fc.record({
  executions: fc.array(fc.record({ pieces: fc.array(piece, { maxLength: 4 }), dies: fc.boolean() }), { maxLength: 2 }),
  answer: fc.array(piece, { maxLength: 5 }),
});

/** What is published and committed, in the order in which it happens. Dead executions leave text and no commit. */
function makeHistory(turns: Turn[]): Item[] {
  const items: Item[] = [];
  let seq = 0;
  turns.forEach(({ executions, answer }, index) => {
    const turn = index + 1;
    let attempt = 1;
    executions.forEach(({ pieces, dies }, number) => {
      const execution = `x${turn}n${number}`;
      for (const text of pieces) items.push({ delta: { turn, attempt, execution, text } });
      if (dies) return;
      const error = { code: "x", message: "x" };
      items.push({
        entry: { type: "model_failed", seq: ++seq, at: seq, turn: index, attempt, execution, error, nextAt: 0 },
      });
      attempt += 1;
    });
    const execution = `win${turn}`;
    for (const text of answer) items.push({ delta: { turn, attempt, execution, text } });
    const manifest = { agentHash: "h", messages: [], tools: [], dropped: [] };
    items.push({
      entry: {
        type: "model_answered",
        seq: ++seq,
        at: seq,
        turn,
        attempt,
        execution,
        message: 0,
        calls: [],
        usage: noUsage,
        finishReason: "stop",
        manifest,
        answer: { role: "assistant", content: answer.join("") },
      },
    });
  });
  return items;
}

/** Reads as `follow` does: entries first, live text when there are none, live text before an entry that confirms it. */
function readAll(state: FeedState, visible: Item[], liveKept: boolean): RunFeedEvent[] {
  const events: RunFeedEvent[] = [];
  const deltas = liveKept ? visible.flatMap((item) => ("delta" in item ? [item.delta] : [])) : [];
  let current = state;
  let next = 0;
  const drain = (): void => {
    for (; next < deltas.length; next += 1) {
      const fed = feedDelta(current, deltas[next] as FeedDelta);
      if (!fed) return;
      current = fed.state;
      events.push(...fed.events);
    }
  };
  for (const item of visible) {
    if (!("entry" in item) || item.entry.seq <= state.seq) continue;
    if (item.entry.type === "model_answered" || item.entry.type === "model_failed") drain();
    const fed = feedEntry(current, item.entry, textOf);
    current = fed.state;
    events.push(...fed.events);
  }
  drain();
  return events;
}

function turnsAt(items: Item[], seq: number): number {
  const answered = items.flatMap((item) =>
    "entry" in item && item.entry.type === "model_answered" && item.entry.seq <= seq ? [item.entry.turn] : [],
  );
  return answered.at(-1) ?? 0;
}

/** The text that a person who follows the events is left with, by turn. */
function textByTurn(events: RunFeedEvent[]): Map<number, string> {
  const texts = new Map<number, string>();
  for (const event of events) {
    if (event.type === "text") texts.set(event.turn, (texts.get(event.turn) ?? "") + event.text);
    if (event.type === "text_superseded") texts.set(event.turn, "");
  }
  return texts;
}

describe("a reader of the feed", () => {
  test("[D7] is left with exactly each turn's answer, and each entry once, over any disconnections", () => {
    const cuts = fc.array(fc.record({ at: fc.nat(60), give: fc.nat(20), kept: fc.boolean() }), { maxLength: 5 });
    fc.assert(
      fc.property(fc.array(turnArb, { minLength: 1, maxLength: 4 }), cuts, fc.boolean(), (turns, visits, keptLast) => {
        const items = makeHistory(turns);
        const got: RunFeedEvent[] = [];
        let visible = 0;
        let kept = true;
        const visit = (upTo: number, take: number): void => {
          const position = got.length === 0 ? feedStart : fromFeedId(got.at(-1)?.id ?? 0);
          if (!position) throw new Error("an event's id is no position");
          const state = startFeed(position, turnsAt(items, position.seq));
          got.push(...readAll(state, items.slice(0, upTo), kept).slice(0, take));
        };
        for (const { at, give } of visits) {
          visible = Math.min(items.length, visible + at);
          visit(visible, give);
        }
        kept = keptLast;
        visit(items.length, Number.POSITIVE_INFINITY);

        const entries = got.flatMap((event) =>
          event.type === "text" || event.type === "text_superseded" ? [] : [event.seq],
        );
        expect(entries).toEqual(items.flatMap((item) => ("entry" in item ? [item.entry.seq] : [])));
        const texts = textByTurn(got);
        turns.forEach(({ answer }, index) => expect(texts.get(index + 1) ?? "").toBe(answer.join("")));
      }),
      { numRuns: 10_000 },
    );
  });

  test("reads back the ids it writes, and nothing else", () => {
    fc.assert(
      fc.property(
        fc.nat(),
        fc.stringMatching(/^[A-Za-z0-9]{1,18}$/),
        fc.integer({ min: 1, max: 1e9 }),
        (seq, execution, length) => {
          expect(fromFeedId(toFeedId({ seq, execution, length }))).toEqual({ seq, execution, length });
          expect(fromFeedId(toFeedId({ seq, length: 0 }))).toEqual({ seq, execution: undefined, length: 0 });
        },
      ),
    );
    for (const bad of ["", "a", "-1", "1.2", "1.x.", "1.x.y", "1.5.-2", "1 ", Number.NaN])
      expect(fromFeedId(bad)).toBeNull();
  });
});
