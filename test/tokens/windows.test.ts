// Catches: windows that keep to their budget by a simple count, but not as the tokenizers of real models count.
import fc from "fast-check";
import { expect, test } from "vitest";
import type { Message } from "../../src/core/message.ts";
import { summaryRequest } from "../../src/core/summary.ts";
import type { Summary } from "../../src/core/window.ts";
import { type PlannedWindow, planWindow, type WindowInput } from "../../src/core/window-plan.ts";
import { renderWindow } from "../../src/core/window-render.ts";
import type { TokenCounter } from "../../src/ports-tokens.ts";
import { tokenCounter } from "../../src/tokens/token-counter.ts";
import { refusals, transcriptArb } from "../core/window-support.ts";

const fixedTokens = 40;
/** What joins, splits and cuts in the ways that tokenizers are known to trip over. */
const pieces = [
  "needle ",
  "🎉",
  "我们的系统",
  '{"id":12345}',
  "\n\n",
  "   ",
  "getUserById",
  "=".repeat(80),
  "7".repeat(60),
];
const odd = ["\ud800", "👨‍👩‍👧‍👦", "aGVsbG8gd29ybGQgZm9vIGJhcjEyMw", "'s", "0xDEADBEEF "];
const textArb = fc
  .tuple(fc.array(fc.constantFrom(...pieces, ...odd), { maxLength: 8 }), fc.constantFrom(1, 1, 4, 12))
  .map(([list, times]) => list.join("").repeat(times));

/** The transcript with other texts in place of its own. */
function withTexts(messages: Message[], texts: string[]): Message[] {
  return messages.map((message, index) =>
    typeof message.content === "string" ? { ...message, content: texts[index % texts.length] as string } : message,
  );
}

/** Each message is counted once, as in the engine. */
function remembering(counter: TokenCounter): TokenCounter {
  const known = new WeakMap<Message, number>();
  const countMessage = (message: Message): number => {
    const tokens = known.get(message) ?? counter.countMessage(message);
    known.set(message, tokens);
    return tokens;
  };
  return { ...counter, countMessage };
}

type Case = { messages: Message[]; goal: number | undefined; settings: WindowInput["settings"]; summaryText: string };
const caseArb: fc.Arbitrary<Case> = fc
  .record({
    transcript: transcriptArb,
    texts: fc.array(textArb, { minLength: 1, maxLength: 12 }),
    budgetTokens: fc.integer({ min: 150, max: 4_000 }),
    lastTurns: fc.integer({ min: 1, max: 8 }),
    remindEvery: fc.nat(4),
    summarise: fc.boolean(),
    summaryText: textArb,
  })
  .map(({ transcript, texts, summaryText, ...settings }) => {
    const goal = transcript.findIndex(({ role }) => role === "user");
    return { messages: withTexts(transcript, texts), goal: goal === -1 ? undefined : goal, settings, summaryText };
  });

const sizeOf = (messages: Message[], counter: TokenCounter): number =>
  messages.reduce((sum, message) => sum + counter.countMessage(message), 0);

/** Makes the summaries that are asked for, each request within the budget, until there is a window or a refusal. */
function settle(input: Case, counter: TokenCounter): { planned: PlannedWindow; summary: Summary | undefined } {
  const { count, countMessage, cut: cutText } = counter;
  const { budgetTokens = 0 } = input.settings;
  let summary: Summary | undefined;
  for (let id = 1; ; id++) {
    const planned = planWindow({ ...input, fixedTokens, count, countMessage, summary });
    if (planned.type !== "summarise") return { planned, summary };
    const { upTo } = planned;
    const request = summaryRequest({ ...input, upTo, previous: summary, budgetTokens, count, cutText });
    // Below this the instructions alone leave hardly any room.
    if (budgetTokens > 600)
      expect(count(request.instructions) + sizeOf(request.messages, counter)).toBeLessThanOrEqual(budgetTokens);
    summary = { id, upTo, text: input.summaryText };
  }
}

test.each(["gpt-5", "gpt-4", "some-local-model"])("windows keep to their budget as %s counts", async (model) => {
  const counter = remembering(await tokenCounter(model));
  let windows = 0;
  fc.assert(
    fc.property(caseArb, (input) => {
      const { planned, summary } = settle(input, counter);
      if (planned.type !== "window") return;
      const shown = renderWindow(planned.plan, { ...input, summaryText: summary?.text, cutText: counter.cut });
      expect(refusals(shown)).toEqual([]);
      expect(planned.tokens).toBeLessThanOrEqual(input.settings.budgetTokens ?? 0);
      expect(fixedTokens + sizeOf(shown, counter)).toBeLessThanOrEqual(planned.tokens);
      windows++;
    }),
    { numRuns: 200 },
  );
  expect(windows).toBeGreaterThan(40);
});
