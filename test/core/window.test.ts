// Catches: a window that says something else than it should: goal, summary, notes, reminders and cuts word by word.
import { describe, expect, test } from "vitest";
import type { Message } from "../../src/core/message.ts";
import { summaryRequest } from "../../src/core/summary.ts";
import { type PlannedWindow, planWindow, type WindowInput } from "../../src/core/window-plan.ts";
import { renderWindow } from "../../src/core/window-render.ts";
import { toSegments } from "../../src/core/window-segments.ts";
import { count, countMessage, cutText, refusals } from "./window-support.ts";

const user = (content: Message["content"] & {}): Message => ({ role: "user", content });
const says = (content: string): Message => ({ role: "assistant", content });
function turn(n: number, result = `result ${n}`): Message[] {
  const call = { callId: `call-${n}-1`, id: `id${n}`, name: "look", arguments: `{"n":${n}}` };
  return [
    { role: "assistant", content: null, toolCalls: [call] },
    { role: "tool", callId: call.callId, toolCallId: call.id, name: "look", content: result, outcome: "ok" },
  ];
}
const turns = (from: number, to: number, words = 1): Message[] =>
  Array.from({ length: to - from + 1 }, (_, index) =>
    turn(from + index, `r${from + index} `.repeat(words).trim()),
  ).flat();
const defaults = { lastTurns: 6, remindEvery: 3, summarise: true };

function plan(
  messages: Message[],
  fields: Omit<Partial<WindowInput>, "settings"> & { settings?: Partial<WindowInput["settings"]> } = {},
): PlannedWindow {
  const settings = { ...defaults, ...fields.settings };
  return planWindow({ fixedTokens: 10, count, countMessage, goal: 0, ...fields, messages, settings });
}
function show(
  messages: Message[],
  planned: PlannedWindow,
  fields: { goal?: number | undefined; summaryText?: string } = {},
): Message[] {
  if (planned.type !== "window") throw new Error(`got ${planned.type}`);
  return renderWindow(planned.plan, { goal: 0, cutText, ...fields, messages });
}

describe("without a budget", () => {
  test("a plain transcript is sent as it is, the very same messages", () => {
    const messages = [user("go"), ...turns(1, 2), says("done")];
    const planned = plan(messages, { countMessage: () => expect.unreachable(), count: () => expect.unreachable() });
    expect(planned).toEqual({ type: "window", plan: { messages: [[0, 6]] }, tokens: 0 });
    show(messages, planned).forEach((message, index) => expect(message).toBe(messages[index]));
  });

  test("the goal is restated with every third turn's last result, for ever at the same places", () => {
    const messages = [user("find the needle"), ...turns(1, 7)];
    const shown = show(messages, plan(messages));
    const reminded = shown.flatMap(({ content }, index) => (String(content).includes("Reminder") ? [index] : []));
    expect(reminded).toEqual([6, 12]);
    expect(shown[6]?.content).toBe(
      "result 3\n\nReminder of the task: find the needle".replace("result", "r").replace(" 3", "3"),
    );
    const longer = [...messages, ...turns(8, 9)];
    expect(show(longer, plan(longer)).slice(0, shown.length)).toEqual(shown);
    expect(plan(messages, { settings: { remindEvery: 0 } })).toMatchObject({ plan: { messages: [[0, 15]] } });
  });

  test("a word of the user begins the count anew; a long goal is cut", () => {
    const goal = "needle ".repeat(500).trim();
    const messages = [user(goal), ...turns(1, 2), user("go on"), ...turns(3, 4)];
    expect(JSON.stringify(show(messages, plan(messages)))).not.toContain("Reminder");
    const more = [user(goal), ...turns(1, 3)];
    const text = String(show(more, plan(more)).at(-1)?.content);
    expect(text.endsWith("…")).toBe(true);
    expect(text.length).toBeLessThan(900);
    const feedback: Message = { role: "user", content: "no JSON", origin: "run" };
    const told = [user("goal"), ...turns(1, 2), feedback, ...turn(3)];
    expect(String(show(told, plan(told)).at(-1)?.content)).toContain("Reminder");
  });

  test("a nudge is added to the last message", () => {
    const messages = [user("go"), ...turn(1)];
    const shown = show(messages, plan(messages, { nudge: "You repeat yourself." }));
    expect(shown.at(-1)?.content).toBe("result 1\n\nYou repeat yourself.");
  });
});

describe("turn taking", () => {
  const render = (messages: Message[]): Message[] =>
    show(messages, plan(messages, { goal: undefined }), { goal: undefined });

  test("joins what was said in a row, and keeps its parts", () => {
    const image = { type: "image_url", image_url: { url: "data:," } };
    expect(render([user("a"), user("b"), says("c"), says("d")])).toEqual([user("a\n\nb"), says("c\n\nd")]);
    expect(render([user("a"), user([image])])).toEqual([user([{ type: "text", text: "a" }, image])]);
    expect(render([user([image]), user("b")])).toEqual([user([image, { type: "text", text: "b" }])]);
  });

  test("parts a user's words from a turn without an answer", () => {
    const shown = render([user("a"), ...turn(1), user("b")]);
    expect(shown.map(({ role }) => role)).toEqual(["user", "assistant", "tool", "assistant", "user"]);
    expect(refusals(shown)).toEqual([]);
  });

  test("lets the user begin, and puts system messages in front", () => {
    const shown = render([says("Hello."), { role: "system", content: "Be brief." }, user("a"), ...turn(1)]);
    expect(shown.map(({ role }) => role)).toEqual(["system", "user", "assistant", "user", "assistant", "tool"]);
    expect(render([...turn(1), says("done")])[0]).toMatchObject({ role: "user" });
  });

  test("leaves out what says nothing, but keeps refusals and joins an answer with the calls after it", () => {
    const refusal: Message = { role: "assistant", content: null, refusal: "No." };
    const blank: Message = { role: "assistant", content: null };
    expect(render([user(" "), user("a"), blank, refusal])).toEqual([user("a"), refusal]);
    expect(render([user("a"), refusal, blank])).toEqual([user("a"), refusal]);
    const [call, result] = turn(1) as [Message, Message];
    const joined = render([user("a"), says("Let me see."), call, result, says("Done.")]);
    expect(joined).toMatchObject([{ role: "user" }, { content: "Let me see.", toolCalls: [{ id: "id1" }] }, {}, {}]);
    expect(refusals(joined)).toEqual([]);
    expect(render([user("a"), refusal, call, result])[1]).toMatchObject({ refusal: "No.", content: null });
    expect(render([user("a"), user([])])).toEqual([user("a")]);
  });
});

describe("with a budget", () => {
  const budget = { budgetTokens: 400 };

  test("everything is sent as long as it fits", () => {
    const messages = [user("go"), ...turns(1, 6, 10)];
    expect(plan(messages, { settings: budget })).toMatchObject({ type: "window", plan: { messages: [[0, 13]] } });
  });

  test("a summary is asked for once it does not, and stands in front with the goal after it", () => {
    const messages = [user("find the needle"), ...turns(1, 20, 20)];
    const wanted = plan(messages, { settings: budget });
    if (wanted.type !== "summarise") throw new Error(wanted.type);
    let summary = { id: 1, text: "nothing yet", upTo: wanted.upTo };
    let planned = plan(messages, { settings: budget, summary });
    for (; planned.type === "summarise"; planned = plan(messages, { settings: budget, summary })) {
      expect(planned.upTo).toBeGreaterThan(summary.upTo);
      summary = { id: summary.id + 1, text: "nothing yet", upTo: planned.upTo };
    }
    const shown = show(messages, planned, { summaryText: summary.text });
    expect(shown[0]).toMatchObject({ role: "system", content: expect.stringContaining("nothing yet") });
    expect(shown[1]).toEqual(user("find the needle"));
    expect(planned).toMatchObject({ plan: { goal: 0, summary: summary.id } });
    expect(show(messages, planned)[0]?.content).toMatch(/:\n$/);
  });

  test("without summaries a note says how much is left out; system messages stay", () => {
    const system: Message = { role: "system", content: "Be brief." };
    const messages = [user("go"), system, ...turns(1, 20, 20)];
    const planned = plan(messages, { settings: { ...budget, summarise: false } });
    const shown = show(messages, planned);
    expect(shown[0]).toEqual(system);
    expect(shown[1]?.content).toMatch(/^\[\d+ earlier messages/);
    expect(shown[2]).toEqual(user("go"));
    expect(refusals(shown)).toEqual([]);
  });

  test("the last turn's texts are cut when it is too long alone, the goal's last", () => {
    const messages = [user("go"), ...turn(1, "word ".repeat(900)), ...turn(2, "word ".repeat(900))];
    const planned = plan(messages, { settings: { ...budget, summarise: false } });
    expect(planned).toMatchObject({ type: "window", plan: { cuts: [[4, expect.any(Number)]] } });
    expect(show(messages, planned).at(-1)?.content).toMatch(/\[cut here; 4500 characters in all\]$/);
    const goals = [user("goal ".repeat(900))];
    expect(plan(goals, { settings: budget })).toMatchObject({
      type: "window",
      plan: { cuts: [[0, expect.any(Number)]] },
    });
    expect(plan(goals, { settings: { budgetTokens: 150 } })).toMatchObject({ type: "too_small" });
    const summary = { id: 1, text: "word ".repeat(500), upTo: 1 };
    const shortened = plan(goals, { settings: budget, summary });
    expect(shortened).toMatchObject({ type: "window", plan: { summary: 1, summaryTokens: expect.any(Number) } });
    expect(plan([user([{ type: "text", text: "x ".repeat(999) }])], { settings: budget }).type).toBe("too_small");
  });
});

test("a transcript that begins with results of a call cut off begins after them", () => {
  const [, result] = turn(1) as [Message, Message];
  expect(toSegments([result, user("a"), says("b")], 0)).toEqual([{ from: 1, to: 3 }]);
});

describe("a summary's request", () => {
  const ask = (messages: Message[], fields: Partial<Parameters<typeof summaryRequest>[0]> = {}) =>
    summaryRequest({ messages, upTo: messages.length, budgetTokens: 1_000, count, cutText, ...fields });
  const textOf = ({ messages }: ReturnType<typeof summaryRequest>): string => String(messages[0]?.content);

  test("holds who said and did what, and the summary before it", () => {
    const image = { type: "image_url", image_url: { url: "data:," } };
    const messages = [
      user("go"),
      { role: "system", content: "hidden" } as Message,
      user(["text"].map((text) => ({ type: "text", text }))),
      user([image]),
      says("Well."),
      ...turn(1),
    ];
    const request = ask(messages, { previous: { id: 1, text: "It began.", upTo: 1 }, instructions: "Condense." });
    expect(request.instructions).toBe("Condense.");
    expect(textOf(request)).toBe(
      'Summary of what came before:\nIt began.\n\nLog:\n[user] text\n[user] [image]\n[assistant] Well.\n[calls look] {"n":1}\n[result of look] result 1\n\nWrite the summary of both, as one text.',
    );
    expect(textOf(ask([user("go")]))).toContain("Write the summary of it.");
    expect(ask([user("go")]).instructions).toContain("is data");
  });

  test("cuts long texts first, then leaves the oldest lines out", () => {
    const cut = textOf(ask([user("short"), user("word ".repeat(2_000))]));
    expect(count(cut)).toBeLessThan(1_000);
    expect(cut).toContain("[user] short");
    const many = textOf(ask(Array.from({ length: 200 }, (_, n) => user(`${n} ${"word ".repeat(50)}`))));
    expect(count(many)).toBeLessThan(1_000);
    expect(many).toMatch(/\[\d+ lines left out\]/);
    expect(many).toContain("[user] 199");
  });
});

test("a stored plan with reminders of a goal that is not known any more is rendered without them", () => {
  const messages = [user("go"), ...turn(1)];
  const stored = { messages: [[0, 3]] satisfies [number, number][], reminders: [2] };
  expect(renderWindow(stored, { messages, goal: undefined, cutText })).toEqual(messages);
});
