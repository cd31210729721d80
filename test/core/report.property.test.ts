// Catches: a report that loses, doubles or misplaces anything, whatever befell the run.
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { FeedEntry } from "../../src/core/event.ts";
import type { Message, ToolMessage } from "../../src/core/message.ts";
import { noRedaction } from "../../src/core/redact.ts";
import type { TurnView } from "../../src/core/report.ts";
import { splitTurns, type TurnEntries, withNext } from "../../src/core/report-split.ts";
import { toTurnView } from "../../src/core/report-turn.ts";
import { isEnded } from "../../src/core/run.ts";
import { transition } from "../../src/core/transition.ts";
import { commit, type Move, makeWorld, moveArb, toEvent, type World } from "./support.ts";

const runs = { numRuns: 3_000 };
const moves = fc.array(moveArb, { maxLength: 40 });

type Played = { world: World; feed: FeedEntry[] };

function play(sequence: Move[]): Played {
  let world = makeWorld();
  const feed: FeedEntry[] = [{ type: "run_created", seq: 1, at: 1_000, turn: 0, messages: [0, 1] }];
  for (const move of sequence) {
    const clock = world.clock + 1 + (move.kind === 11 ? move.wait : 0);
    const next = { ...world, clock, count: world.count + 1 };
    const change = transition(world.run, toEvent(world.run, move, clock), { at: clock, token: `t${next.count}` });
    if (change) feed.push(...change.entries);
    world = change ? commit(next, change) : next;
  }
  return { world, feed };
}

const toTurns = ({ world, feed }: Played): TurnEntries[] => withNext(splitTurns(feed), world.run);

function toViews(played: Played): TurnView[] {
  const { messages, results, run } = played.world;
  return toTurns(played).map((turn) => {
    const settled = new Map<string, ToolMessage>(results);
    for (const message of messages) if (message.role === "tool") settled.set(message.callId, message);
    const answer = turn.answer && messages[turn.answer.message];
    const input = turn.input.flatMap(([from, to]) => messages.slice(from, to));
    const content = { ...(answer?.role === "assistant" ? { answer } : {}), results: settled, input };
    return toTurnView(turn, content, run, noRedaction);
  });
}

describe("any sequence of events", () => {
  test("is told turn by turn, each answer in its own, and every message of the transcript once", () => {
    fc.assert(
      fc.property(moves, (sequence) => {
        const played = play(sequence);
        const { run, messages } = played.world;
        const turns = toTurns(played);
        expect(turns.map(({ turn }) => turn)).toEqual(turns.map((_, index) => index + 1));
        expect(turns.filter(({ answer }) => answer).length).toBe(run.turns);
        expect(turns.length - run.turns).toBeLessThanOrEqual(1);
        const told = turns.flatMap(({ input, answer, entries }) => [
          ...input.flatMap(([from, to]) => Array.from({ length: to - from }, (_, index) => from + index)),
          ...(answer ? [answer.message] : []),
          ...entries.flatMap((entry) => (entry.type === "tool_finished" ? [entry.message] : [])),
        ]);
        // Results of open turns have their place already.
        const all = new Set([...messages.keys(), ...told.filter((index) => index >= messages.length)]);
        expect(told.toSorted((a, b) => a - b)).toEqual([...all].toSorted((a, b) => a - b));
      }),
      runs,
    );
  });

  test("is told alike from any part of the feed that begins with an answer", () => {
    fc.assert(
      fc.property(moves, fc.nat(10), (sequence, pick) => {
        const { feed } = play(sequence);
        const answers = feed.filter((entry) => entry.type === "model_answered");
        const from = answers[pick % Math.max(1, answers.length)];
        if (!from) return;
        const part = splitTurns(feed.slice(feed.indexOf(from)));
        const whole = splitTurns(feed).filter(({ turn }) => turn > from.turn);
        expect(part.slice(1)).toEqual(whole);
        expect(part[0]?.turn).toBe(from.turn);
      }),
      runs,
    );
  });

  test("leaves nothing open once the run has ended, and tells every call and all that was spent", () => {
    fc.assert(
      fc.property(moves, (sequence) => {
        const played = play(sequence);
        const { run, messages } = played.world;
        const views = toViews(played);
        const steps = views.flatMap((view) => view.steps);
        const open = steps.filter(({ outcome }) => outcome === "open");
        if (isEnded(run)) {
          expect(open).toEqual([]);
          expect(views.every(({ endedAt }) => endedAt !== undefined)).toBe(true);
        } else expect(open.length).toBeGreaterThan(0);
        for (const { startedAt, endedAt = startedAt } of views) expect(endedAt).toBeGreaterThanOrEqual(startedAt);
        const made = messages.flatMap((message: Message) =>
          message.role === "assistant" ? (message.toolCalls ?? []) : [],
        );
        expect(views.flatMap(({ calls }) => calls.map(({ callId }) => callId))).toEqual(
          made.map(({ callId }) => callId),
        );
        for (const { calls, steps: own } of views) {
          for (const { callId, outcome } of calls) {
            if (isEnded(run)) expect(outcome).toBeDefined();
            const isOpen = own.some((step) => step.callId === callId && step.outcome === "open");
            expect(isOpen).toBe(outcome === undefined);
          }
        }
        const spent = (name: "inputTokens" | "outputTokens"): number =>
          views.reduce((sum, { usage }) => sum + usage[name], 0);
        expect([spent("inputTokens"), spent("outputTokens")]).toEqual([run.usage.inputTokens, run.usage.outputTokens]);
      }),
      runs,
    );
  });
});
