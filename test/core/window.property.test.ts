// Catches: windows over their budget, or that some server refuses, and refusals that name a budget which does not do.
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { Message } from "../../src/core/message.ts";
import { summaryRequest } from "../../src/core/summary.ts";
import type { Summary } from "../../src/core/window.ts";
import { type PlannedWindow, planWindow, type Reminders, type WindowInput } from "../../src/core/window-plan.ts";
import { type Rendering, renderWindow } from "../../src/core/window-render.ts";
import { count, countMessage, cutText, refusals, transcriptArb } from "./window-support.ts";

const fixedTokens = 40;

type Case = {
  messages: Message[];
  goal: number | undefined;
  settings: WindowInput["settings"];
  nudge: string | undefined;
  /** Of every summary that is asked for. */
  summaryText: string;
};
const caseArb = fc
  .record({
    messages: transcriptArb,
    pick: fc.nat(),
    budgetTokens: fc.option(fc.integer({ min: 100, max: 3_000 }), { nil: undefined }),
    lastTurns: fc.integer({ min: 1, max: 8 }),
    remindEvery: fc.nat(4),
    summarise: fc.boolean(),
    nudge: fc.option(fc.constant("you repeat yourself"), { nil: undefined }),
    summaryWords: fc.oneof(fc.constant(4), fc.nat(1_500)),
  })
  .map(({ messages, pick, nudge, summaryWords, ...settings }): Case => {
    const users = messages.flatMap(({ role }, index) => (role === "user" ? [index] : []));
    return { messages, goal: users[pick % users.length], settings, nudge, summaryText: "fact ".repeat(summaryWords) };
  });

/** Makes the summaries that are asked for until there is a window. */
function settle(
  input: Case,
  budgetTokens = input.settings.budgetTokens,
): { planned: PlannedWindow; summary: Summary | undefined; rounds: number } {
  let summary: Summary | undefined;
  for (let rounds = 0; ; rounds++) {
    const settings = { ...input.settings, budgetTokens };
    const planned = planWindow({ ...input, settings, fixedTokens, count, countMessage, summary });
    if (planned.type !== "summarise") return { planned, summary, rounds };
    expect(planned.upTo).toBeGreaterThan(summary?.upTo ?? 0);
    expect(planned.upTo).toBeLessThanOrEqual(input.messages.length);
    summary = { id: rounds + 1, upTo: planned.upTo, text: input.summaryText };
  }
}

function render(input: Case, planned: PlannedWindow, summary: Summary | undefined): Message[] {
  if (planned.type !== "window") throw new Error(planned.type);
  const plan = JSON.parse(JSON.stringify(planned.plan)) as typeof planned.plan;
  return renderWindow(plan, { ...input, summaryText: summary?.text, cutText });
}

const sizeOf = (messages: Message[]): number =>
  messages.reduce((sum, message) => sum + countMessage(message), fixedTokens);

describe("any transcript and any budget", () => {
  test("give a window within the budget that every server takes, or a refusal that names the smallest budget", () => {
    fc.assert(
      fc.property(caseArb, (input) => {
        const { planned, summary } = settle(input);
        if (planned.type === "window") {
          const shown = render(input, planned, summary);
          expect(refusals(shown)).toEqual([]);
          const { budgetTokens } = input.settings;
          if (budgetTokens !== undefined) {
            expect(planned.tokens).toBeLessThanOrEqual(budgetTokens);
            expect(sizeOf(shown)).toBeLessThanOrEqual(planned.tokens);
          }
          return;
        }
        if (planned.type !== "too_small") throw new Error(planned.type);
        const smallest = planned.smallestTokens;
        expect(smallest).toBeGreaterThan(input.settings.budgetTokens ?? Number.POSITIVE_INFINITY);
        // With the summary that there is: a budget that needs none from the start may do with less.
        const planWith = (budgetTokens: number): PlannedWindow => {
          const settings = { ...input.settings, budgetTokens };
          return planWindow({ ...input, settings, fixedTokens, count, countMessage, summary });
        };
        expect(planWith(smallest).type).toBe("window");
        expect(planWith(smallest - 1).type).toBe("too_small");
        expect(settle(input, smallest).planned.type).toBe("window");
      }),
      { numRuns: 4_000 },
    );
  });

  test("are shown in the same way each time, with every result beside its call and the goal in it", () => {
    fc.assert(
      fc.property(caseArb, (input) => {
        const { planned, summary } = settle(input);
        if (planned.type !== "window") return;
        const shown = render(input, planned, summary);
        expect(render(input, planned, summary)).toEqual(shown);
        const { goal } = input;
        if (goal === undefined) return;
        const inside = planned.plan.messages.some(([from, to]) => goal >= from && goal < to);
        expect(inside || planned.plan.goal === goal).toBe(true);
      }),
      { numRuns: 2_000 },
    );
  });
});

test("a window that goes on from the one before is the one that is made anew, however the transcript grows or is another", () => {
  const growthArb = fc.array(fc.record({ cut: fc.nat(), goal: fc.nat(3), nudged: fc.nat(5) }), { maxLength: 12 });
  fc.assert(
    fc.property(transcriptArb, transcriptArb, growthArb, fc.nat(3), (first, second, growth, remindEvery) => {
      const memo: { reminders?: Reminders; rendering?: Rendering } = {};
      const settings = { budgetTokens: undefined, lastTurns: 6, remindEvery, summarise: true };
      const isGrowing = growth.length % 3 > 0;
      const cuts = growth.map(({ cut }) => cut % (first.length + 1)).sort((a, b) => a - b);
      for (const [at, { goal: pick, nudged }] of growth.entries()) {
        const whole = isGrowing || at % 2 === 0 ? first : second;
        const messages = whole.slice(0, cuts[at]);
        const users = messages.flatMap(({ role }, index) => (role === "user" ? [index] : []));
        // Mostly the same one: another is asked for when somebody says something.
        const goal = users[Math.max(0, pick - 2) % Math.max(1, users.length)];
        const nudge = nudged === 0 ? "you repeat yourself" : undefined;
        const given = { messages, goal, settings, fixedTokens, count, countMessage, nudge };
        const [again, anew] = [planWindow({ ...given, memo }), planWindow(given)];
        expect(again).toEqual(anew);
        if (again.type !== "window") throw new Error(again.type);
        const shown = renderWindow(again.plan, { messages, goal, cutText }, memo);
        expect(shown).toEqual(renderWindow(again.plan, { messages, goal, cutText }));
      }
    }),
    { numRuns: 2_000 },
  );
});

test("a run of 300 turns over ten times its budget: each window within it, few summaries, a flat cost per turn", () => {
  const messages: Message[] = [{ role: "user", content: "find the needle" }];
  const settings = { budgetTokens: 2_000, lastTurns: 6, remindEvery: 3, summarise: true };
  let summary: Summary | undefined;
  const condensed: number[] = [];
  const sent: number[] = [];
  for (let turn = 1; turn <= 300; turn++) {
    for (;;) {
      const planned = planWindow({ messages, goal: 0, settings, fixedTokens, count, countMessage, summary });
      if (planned.type === "too_small") throw new Error("too small");
      if (planned.type === "summarise") {
        const request = summaryRequest({
          messages,
          upTo: planned.upTo,
          previous: summary,
          budgetTokens: 2_000,
          count,
          cutText,
        });
        condensed.push(request.messages.reduce((sum, message) => sum + countMessage(message), 0));
        summary = { id: turn, upTo: planned.upTo, text: `${"fact ".repeat(100)}${turn}` };
        continue;
      }
      const shown = renderWindow(planned.plan, { messages, goal: 0, summaryText: summary?.text, cutText });
      sent.push(sizeOf(shown));
      expect(sizeOf(shown)).toBeLessThanOrEqual(2_000);
      expect(refusals(shown)).toEqual([]);
      break;
    }
    const call = { callId: `call-${turn}-1`, id: `${turn}`, name: "look", arguments: `{"at":${turn}}` };
    messages.push(
      { role: "assistant", content: null, toolCalls: [call] },
      {
        role: "tool",
        callId: call.callId,
        toolCallId: call.id,
        name: "look",
        content: `w${turn} `.repeat(60),
        outcome: "ok",
      },
    );
  }
  expect(messages.reduce((sum, message) => sum + countMessage(message), 0)).toBeGreaterThan(20_000);
  expect(condensed.length).toBeLessThan(40);
  expect(Math.max(...condensed)).toBeLessThanOrEqual(2_000);
  const half = (list: number[], from: number): number => list.slice(from, from + 100).reduce((a, b) => a + b, 0);
  expect(half(sent, 200) / half(sent, 100)).toBeLessThan(1.1);
});
