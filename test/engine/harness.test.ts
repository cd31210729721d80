// Catches: a harness that decides rightly on paper and is not asked: loops, windows, outputs and checks in whole runs.
import { describe, expect, test } from "vitest";
import { z } from "zod";
import type { Message } from "../../src/core/message.ts";
import { renderWindow } from "../../src/core/window-render.ts";
import { type AgentOptions, defineAgent } from "../../src/define-agent.ts";
import { PermanentError, RetryableError } from "../../src/index.ts";
import type { ModelFailure, ModelRequest, Telemetry } from "../../src/ports.ts";
import { createNoTelemetry } from "../../src/telemetry/no-telemetry.ts";
import { createMemoryDrover, scriptedModel } from "../../src/testing/index.ts";
import { tokenCounter } from "../../src/tokens/token-counter.ts";
import { defineTool } from "../../src/tools/define-tool.ts";
import { refusals } from "../core/window-support.ts";

type Reply = Parameters<typeof scriptedModel>[0][number];
/** A model that says `reply` in every turn, and what it was asked. */
function modelOf(reply: (request: ModelRequest) => Reply): {
  model: ReturnType<typeof scriptedModel>;
  asked: ModelRequest[];
} {
  const asked: ModelRequest[] = [];
  const model = scriptedModel(
    Array.from({ length: 1_000 }, () => (request: ModelRequest) => {
      asked.push(request);
      const said = reply(request);
      return typeof said === "function" ? said(request) : said;
    }),
  );
  return { model, asked };
}

const parameters = z.object({ n: z.number().describe("which") });
const look = defineTool({
  name: "look",
  description: "Looks.",
  parameters,
  effect: "read",
  execute: ({ n }) => `nothing at ${n}`,
});
const calls = (n: number): Reply => ({ toolCalls: [{ name: "look", arguments: { n } }] });

async function play<O = undefined>(options: Omit<AgentOptions<O>, "name" | "instructions">, input = "go") {
  const agent = defineAgent<O>({ name: "a", instructions: "Do it.", ...options });
  const drover = createMemoryDrover({ agents: [agent] });
  await drover.work();
  const run = await drover.start(agent, input);
  const result = await run.result({ timeoutMs: 60_000 });
  const events = [];
  for await (const event of run.events()) events.push(event);
  return { drover, run, result, events, transcript: await run.transcript() };
}
const lastText = ({ messages }: ModelRequest): string => String(messages.at(-1)?.content);

describe("a model that goes round in circles", () => {
  test("is warned with the result, then stopped; a retry goes on", async () => {
    const { model, asked } = modelOf(() => calls(1));
    const { result, run } = await play({ model, tools: [look] });
    expect(result).toMatchObject({ status: "failed", stopReason: "repeated_calls", turns: 3 });
    expect(result.error?.message).toContain("nothing at 1");
    expect(asked.map(lastText).map((text) => text.includes("Warning"))).toEqual([false, false, true]);
    expect(lastText(asked[2] as ModelRequest)).toContain("which gave: nothing at 1");
    await run.retry({ limits: { repeats: 4 } });
    expect(await run.result()).toMatchObject({ stopReason: "repeated_calls", turns: 8 });
  });

  test("may listen to the warning", async () => {
    const { model } = modelOf((request) => (lastText(request).includes("Warning") ? "I give up." : calls(1)));
    expect((await play({ model, tools: [look] })).result).toMatchObject({ status: "completed", output: "I give up." });
  });

  test("may poll: a tool that says so, or one whose results change", async () => {
    let count = 0;
    const changing = defineTool({ ...look, parameters, execute: () => `${++count} %` });
    const polling = defineTool({ ...look, parameters, polling: true });
    for (const tool of [changing, polling]) {
      const { model } = modelOf(({ turn }) => (turn > 8 ? "done" : calls(1)));
      expect((await play({ model, tools: [tool] })).result).toMatchObject({ status: "completed", turns: 9 });
    }
  });

  test("is found in cycles of several turns", async () => {
    const { model } = modelOf(({ turn }) => calls(turn % 3));
    expect((await play({ model, tools: [look] })).result).toMatchObject({ stopReason: "repeated_calls", turns: 9 });
  });
});

describe("structured output", () => {
  const output = z.object({ city: z.string(), degrees: z.number().default(0) });

  test("is asked for again with what is wrong, then typed with its defaults", async () => {
    const { model, asked } = modelOf(
      ({ turn }) => ["It is cold.", '{"city":7}', '```json\n{"city":"Oslo"}\n```'][turn - 1] ?? "",
    );
    const { result } = await play({ model, output });
    expect(result).toMatchObject({ status: "completed", output: { city: "Oslo", degrees: 0 }, turns: 3 });
    const { city } = result.output ?? { city: "" };
    expect(city.toUpperCase()).toBe("OSLO");
    expect(lastText(asked[1] as ModelRequest)).toMatch(/not JSON.*"city"/s);
    expect(lastText(asked[2] as ModelRequest)).toMatch(/city: expected/);
    expect(asked[0]?.output?.schema).toMatchObject({ type: "object", required: ["city"] });
  });

  test("that never fits fails the run as bad_output, after as many re-asks as allowed", async () => {
    for (const maxReasks of [0, 2]) {
      const { model } = modelOf(() => "no");
      const { result } = await play({ model, output, limits: { maxReasks } });
      expect(result).toMatchObject({ status: "failed", stopReason: "bad_output", turns: maxReasks + 1 });
    }
  });

  test("is text for whoever does not give the agent", async () => {
    const { model } = modelOf(() => 'So: \n```\n{"city": "Oslo"}\n```');
    const { drover, run } = await play({ model, output });
    expect((await drover.get(run.id).result()).output).toBe('{"city":"Oslo"}');
  });
});

describe("verified completion", () => {
  test("feeds back what is wrong and takes the answer that stands", async () => {
    const { model, asked } = modelOf(({ turn }) => `draft ${turn}`);
    const seen: unknown[] = [];
    const { result, events } = await play({
      model,
      verify: (answer, { attempt, turn, messages }) => {
        seen.push([answer, attempt, turn, messages.length]);
        return answer === "draft 2" || "it is a draft";
      },
    });
    expect(result).toMatchObject({ status: "completed", output: "draft 2", turns: 2 });
    expect(lastText(asked[1] as ModelRequest)).toContain("it is a draft");
    expect(seen).toEqual([
      ["draft 1", 1, 1, 2],
      ["draft 2", 1, 2, 4],
    ]);
    expect(events.map(({ type }) => type)).toEqual(expect.arrayContaining(["answer_refused", "answer_verified"]));
  });

  test.each([
    ["false", () => false as const],
    ["an object", () => ({ ok: false, feedback: "no good" })],
    ["an assertion", () => expect(1).toBe(2) as never],
  ])("gives up on an answer refused too often, by %s", async (_name, verify) => {
    const { model } = modelOf(() => "draft");
    const { result } = await play({ model, verify, limits: { maxReasks: 1 } });
    expect(result).toMatchObject({ status: "failed", stopReason: "verify_failed", turns: 2 });
  });

  test.each([
    ["says it is for good", () => Promise.reject(new PermanentError("no database")), "no database"],
    ["gives nothing", () => undefined as never, "something else than true"],
    ["is too slow", () => new Promise<never>(() => {}), "did not finish"],
    ["fails for the moment again and again", () => Promise.reject(new RetryableError("busy", { delayMs: 1 })), "busy"],
  ])("fails the run when the check itself %s", async (_name, verify, message) => {
    const { model } = modelOf(() => "answer");
    const { result } = await play({ model, verify, verifyTimeoutMs: 30 });
    expect(result).toMatchObject({ status: "failed", stopReason: "verify_failed", turns: 1 });
    expect(result.error?.message).toContain(message);
  });

  test("is given structured answers as values", async () => {
    const { model } = modelOf(() => '{"n":"3"}');
    const output = z.object({ n: z.string().transform(Number) });
    const { result } = await play({ model, output, verify: ({ n }) => n === 3 });
    expect(result).toMatchObject({ status: "completed", output: { n: 3 } });
  });
});

/** A model that counts words and refuses more than `most` of them. */
function strictModel(most: number, turns: number) {
  const sizes: number[] = [];
  const tooLong: ModelFailure = {
    class: "overflow",
    code: "context_length_exceeded",
    message: "too long",
    limitTokens: most,
  };
  const words = (messages: Message[]): number => JSON.stringify(messages).length / 4;
  const { model, asked } = modelOf((request) => {
    const size = words(request.messages);
    expect(refusals(request.messages)).toEqual([]);
    if (size > most) return { fail: tooLong };
    sizes.push(size);
    return request.turn > turns ? "found" : { toolCalls: [{ name: "dig", arguments: { n: request.turn } }] };
  });
  return { model, asked, sizes };
}
const dig = defineTool({
  ...look,
  name: "dig",
  parameters,
  execute: ({ n }) => `${n}: ${"sand and stone ".repeat(40)}`,
});

describe("the window", () => {
  test("[G6] keeps a long run within its budget, with summaries of its own, and can be shown again", async () => {
    const { model, asked } = modelOf(({ turn }) =>
      turn > 60 ? "found" : { toolCalls: [{ name: "dig", arguments: { n: turn } }] },
    );
    const { result, events, transcript } = await play(
      { model, tools: [dig], window: { budgetTokens: 2_500 }, limits: { maxTurns: 100 } },
      "find the needle",
    );
    expect(result).toMatchObject({ status: "completed", turns: 61 });
    const summaries = events.filter(({ type }) => type === "summarised");
    expect(summaries.length).toBeGreaterThan(3);
    expect(summaries.length).toBeLessThan(30);
    for (const { messages } of asked) {
      expect(refusals(messages)).toEqual([]);
      expect(JSON.stringify(messages).length / 4).toBeLessThan(2_500);
    }
    const last = asked.at(-1)?.messages ?? [];
    expect(last[0]).toMatchObject({ role: "system", content: expect.stringContaining("Summary of what was said") });
    expect(last[1]).toMatchObject({ role: "user", content: "find the needle" });
    expect(JSON.stringify(last)).toContain("Reminder of the task: find the needle");
    const { cut } = await tokenCounter(model.model);
    for (const event of events) {
      if (event.type !== "model_answered") continue;
      const { window, messages } = event.manifest;
      const summary = events.find(({ type, seq }) => type === "summarised" && seq === window?.summary);
      const summaryText = summary?.type === "summarised" ? summary.text : undefined;
      const shown = renderWindow({ messages, ...window }, { messages: transcript, goal: 0, summaryText, cutText: cut });
      expect(shown).toEqual(asked[event.turn - 1]?.messages);
    }
  });

  test("shrinks when the server says that it is too long, and the run goes on", async () => {
    const { model, sizes } = strictModel(1_500, 20);
    const { result, events } = await play({ model, tools: [dig], limits: { maxTurns: 100 } }, "find the needle");
    expect(result).toMatchObject({ status: "completed", turns: 21 });
    expect(Math.max(...sizes)).toBeLessThanOrEqual(1_500);
    const shrunk = events.filter(({ type }) => type === "window_shrunk");
    expect(shrunk.length).toBeGreaterThan(0);
    expect(shrunk.length).toBeLessThan(5);
  });

  test("without summaries leaves the older part out and says so", async () => {
    const { model, asked } = modelOf(({ turn }) =>
      turn > 20 ? "found" : { toolCalls: [{ name: "dig", arguments: { n: turn } }] },
    );
    const window = { budgetTokens: 2_500, summarise: false };
    const { result } = await play({ model, tools: [dig], window, limits: { maxTurns: 100 } });
    expect(result.status).toBe("completed");
    expect(asked.at(-1)?.messages[0]).toMatchObject({
      role: "system",
      content: expect.stringMatching(/\d+ earlier messages/),
    });
  });

  test("that cannot be made names the smallest budget", async () => {
    const { model } = modelOf(() => "never");
    const { result, run } = await play(
      { model, window: { budgetTokens: 400 } },
      "word ".repeat(100) + "x".repeat(3_000),
    );
    expect(result).toMatchObject({ status: "completed" });
    expect((await run.transcript())[0]?.content).toHaveLength(3_500);
    const refused = await play({ model, window: { budgetTokens: 200 }, request: { max_tokens: 180 } });
    expect(refused.result).toMatchObject({
      status: "failed",
      stopReason: "model_error",
      error: { code: "window_too_small" },
    });
    const smallest = Number(/is (\d+) tokens/.exec(refused.result.error?.message ?? "")?.[1]);
    const request = { max_tokens: 180 };
    expect((await play({ model, request, window: { budgetTokens: smallest } })).result.status).toBe("completed");
    expect((await play({ model, request, window: { budgetTokens: smallest - 1 } })).result.status).toBe("failed");
  });

  test("whose summary fails for good goes on without it", async () => {
    const broken = scriptedModel([]);
    const failure: ModelFailure = { class: "permanent", code: "invalid_api_key", message: "no" };
    const summariser = {
      ...broken,
      client: {
        call: async () => ({
          type: "failure" as const,
          failure,
          usage: { inputTokens: 0, outputTokens: 0, cachedTokens: 0 },
          dropped: [],
        }),
      },
    };
    const { model, asked } = modelOf(({ turn }) =>
      turn > 20 ? "found" : { toolCalls: [{ name: "dig", arguments: { n: turn } }] },
    );
    const window = { budgetTokens: 2_500, summarise: { model: summariser } };
    const { result } = await play({ model, tools: [dig], window, limits: { maxTurns: 100 } });
    expect(result.status).toBe("completed");
    expect(asked.at(-1)?.messages[0]).toMatchObject({
      content: expect.stringContaining("no summary of them could be made"),
    });
  });

  test("whose summaries another model makes says so in their spans", async () => {
    const { model } = modelOf(({ turn }) =>
      turn > 20 ? "found" : { toolCalls: [{ name: "dig", arguments: { n: turn } }] },
    );
    const spans: string[] = [];
    const telemetry: Telemetry = {
      ...createNoTelemetry(),
      recordStep: (span) => {
        if (span.kind === "model") spans.push(span.definition.model);
      },
    };
    const summarise = { model: scriptedModel([], { model: "small" }) };
    const agent = defineAgent({
      name: "a",
      instructions: "Do it.",
      model,
      tools: [dig],
      window: { budgetTokens: 2_500, summarise },
      limits: { maxTurns: 100 },
    });
    const drover = createMemoryDrover({ agents: [agent], telemetry });
    await drover.work();
    await (await drover.start(agent, "go")).result({ timeoutMs: 60_000 });
    expect(new Set(spans)).toEqual(new Set(["scripted", "small"]));
  });
});
