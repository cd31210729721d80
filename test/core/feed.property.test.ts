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

type Turn = { executions: { pieces: string[]; dies: boolean }[]; answer: string[]; rival: string[] };
type Item = { entry: ExpandedEntry } | { delta: FeedDelta };

const piece = fc.string({ minLength: 1, maxLength: 4 });
const turnArb: fc.Arbitrary<Turn> = fc.record({
  executions: fc.array(fc.record({ pieces: fc.array(piece, { maxLength: 4 }), dies: fc.boolean() }), { maxLength: 2 }),
  answer: fc.array(piece, { maxLength: 5 }),
  rival: fc.array(piece, { maxLength: 2 }),
});

/**
 * What is published and committed, in the order in which it happens. Executions that die leave text and no commit; one
 * of them goes on as a ghost while its heir answers. A rival begins after the winner and is overtaken by it.
 */
function makeHistory(turns: Turn[]): Item[] {
  const items: Item[] = [];
  let seq = 0;
  turns.forEach(({ executions, answer, rival }, index) => {
    const turn = index + 1;
    let attempt = 1;
    const ghosts: FeedDelta[] = [];
    executions.forEach(({ pieces, dies }, number) => {
      const execution = `${turn}a${number}`;
      for (const text of pieces) items.push({ delta: { turn, attempt, execution, text } });
      if (dies) {
        ghosts.push({ turn, attempt, execution, text: "boo" });
        return;
      }
      const error = { code: "x", message: "x" };
      items.push({
        entry: { type: "model_failed", seq: ++seq, at: seq, turn: index, attempt, execution, error, nextAt: 0 },
      });
      attempt += 1;
    });
    const execution = `${turn}b`;
    answer.forEach((text, at) => {
      items.push({ delta: { turn, attempt, execution, text } });
      const ghost = ghosts[at];
      if (ghost) items.push({ delta: ghost });
      const other = rival[at];
      if (other) items.push({ delta: { turn, attempt, execution: `${turn}c`, text: other } });
    });
    const manifest = { agentHash: "h", messages: [], tools: [], dropped: [] };
    const message: ExpandedEntry["answer"] = { role: "assistant", content: answer.join("") };
    const fields = { message: 0, calls: [], usage: noUsage, finishReason: "stop", manifest, answer: message };
    items.push({ entry: { type: "model_answered", seq: ++seq, at: seq, turn, attempt, execution, ...fields } });
  });
  return items;
}

/** Reads as `follow` does: entries first, live text when there are none, live text before an entry that confirms it. */
function readAll(state: FeedState, visible: Item[], liveKept: boolean): RunFeedEvent[] {
  const events: RunFeedEvent[] = [];
  const deltas = liveKept ? visible.flatMap((item) => ("delta" in item ? [item.delta] : [])) : [];
  let current = state;
  let next = 0;
  const drain = (winner?: string): void => {
    for (; next < deltas.length; next += 1) {
      const fed = feedDelta(current, deltas[next] as FeedDelta, winner);
      if (!fed) return;
      current = fed.state;
      events.push(...fed.events);
    }
  };
  for (const item of visible) {
    if (!("entry" in item) || item.entry.seq <= state.seq) continue;
    if (item.entry.type === "model_answered") drain(item.entry.execution);
    if (item.entry.type === "model_failed") drain();
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

/** No character of an execution twice, and none after it was superseded, unless it wins after all: then all of it. */
function checkTexts(got: RunFeedEvent[], items: Item[]): void {
  const given = new Map<string, string>();
  const dead = new Set<string>();
  const publishedBy = (execution: string): string =>
    items.flatMap((item) => ("delta" in item && item.delta.execution === execution ? [item.delta.text] : [])).join("");
  for (const event of got) {
    if (event.type === "text_superseded") {
      expect(dead.has(event.execution)).toBe(false);
      dead.add(event.execution);
    } else if (event.type === "text") {
      const { execution, text } = event;
      if (dead.has(execution)) expect(text).toBe(publishedBy(execution));
      else given.set(execution, (given.get(execution) ?? "") + text);
    }
  }
  for (const [execution, text] of given) expect(publishedBy(execution).startsWith(text)).toBe(true);
}

describe("a reader of the feed", () => {
  test("[D7] is left with exactly each turn's answer, and each entry once, over any disconnections", () => {
    const cuts = fc.array(fc.record({ at: fc.nat(8), give: fc.nat(6) }), { maxLength: 20 });
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

        checkTexts(got, items);
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
