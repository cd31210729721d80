// Catches: what models, servers and checks that behave badly do to windows, summaries, outputs and verifications.
import { describe, expect, expectTypeOf, test } from "vitest";
import { z } from "zod";
import { type AgentOptions, defineAgent } from "../../src/define-agent.ts";
import { PermanentError } from "../../src/index.ts";
import type { ModelOutcome, ModelRequest, Verdict } from "../../src/ports.ts";
import { createMemoryDrover, type ScriptedReply, scriptedModel } from "../../src/testing/index.ts";
import { defineTool } from "../../src/tools/define-tool.ts";
import { refusals } from "../core/window-support.ts";

type Told = { asked: ModelRequest[]; model: ReturnType<typeof scriptedModel> };

/** A model that says `reply` in every turn, and what it was asked, summaries apart. */
function modelOf(reply: (request: ModelRequest) => ScriptedReply): Told {
  const asked: ModelRequest[] = [];
  const entry = async (request: ModelRequest) => {
    asked.push(request);
    const said = reply(request);
    return typeof said === "function" ? said(request) : said;
  };
  return { asked, model: scriptedModel(Array.from({ length: 200 }, () => entry)) };
}

async function begin<O = undefined>(options: Omit<AgentOptions<O>, "name" | "instructions">, input = "go") {
  const agent = defineAgent<O>({ name: "a", instructions: "Do it.", ...options });
  const drover = createMemoryDrover({ agents: [agent] });
  await drover.work();
  return { drover, run: await drover.start(agent, input) };
}

const look = defineTool({
  name: "look",
  description: "Looks.",
  parameters: z.object({ n: z.unknown().describe("which") }),
  effect: "read",
  execute: () => "sand and stone ".repeat(40),
});

describe("a check of answers", () => {
  test.each([
    ["feedback that is no text", { ok: false, feedback: 42 }],
    ["feedback that is an object", { ok: false, feedback: { why: "short" } }],
    ["no verdict", { feedback: "short" }],
    ["null", null],
  ])("that gives %s fails the run in words", async (_name, verdict) => {
    const { model } = modelOf(() => "answer");
    const { run } = await begin({ model, verify: () => verdict as unknown as Verdict });
    const result = await run.result({ timeoutMs: 5_000 });
    expect(result).toMatchObject({ status: "failed", stopReason: "verify_failed" });
    expect(result.error?.message).toContain("the check gave something else");
  });

  test("that failed is made again by a retry, of the very answer that was given", async () => {
    let isBroken = true;
    const seen: string[] = [];
    const { model, asked } = modelOf(({ turn }) => `draft ${turn}`);
    const verify = (answer: string): boolean => {
      seen.push(answer);
      if (isBroken) throw new PermanentError("no database");
      return true;
    };
    const { run } = await begin({ model, verify });
    expect(await run.result({ timeoutMs: 5_000 })).toMatchObject({ stopReason: "verify_failed", turns: 1 });
    isBroken = false;
    await run.retry();
    expect(await run.result({ timeoutMs: 5_000 })).toMatchObject({ status: "completed", output: "draft 1", turns: 1 });
    expect(seen).toEqual(["draft 1", "draft 1"]);
    expect(asked).toHaveLength(1);
  });

  test("whose words are endless tells the model the beginning", async () => {
    const { model, asked } = modelOf(() => "draft");
    const { run } = await begin({
      model,
      verify: () => `wrong \ud800${"x".repeat(1_000_000)}`,
      limits: { maxReasks: 1 },
    });
    const result = await run.result({ timeoutMs: 5_000 });
    expect(result).toMatchObject({ stopReason: "verify_failed" });
    const told = String(asked[1]?.messages.at(-1)?.content);
    expect(told.length).toBeLessThan(30_000);
    expect(told.isWellFormed()).toBe(true);
    expect(told).toContain("answer again");
    expect(result.error?.message.length).toBeLessThan(2_000);
  });
});

describe("a server's refusals", () => {
  test("that name a number that is no limit do not end the run", async () => {
    let refused = 0;
    const { model } = modelOf(() => {
      refused++;
      const message = "too long";
      return refused > 1
        ? "done"
        : { fail: { class: "overflow", code: "context_overflow", message, limitTokens: 300 } };
    });
    const { run } = await begin({ model, request: { max_tokens: 400 } }, "word ".repeat(5_000));
    expect(await run.result({ timeoutMs: 5_000 })).toMatchObject({ status: "completed" });
  });

  test("that never end are few, end the run in words, and what they cost is counted", async () => {
    let asked = 0;
    const failure = { class: "overflow" as const, code: "context_overflow", message: "too long" };
    const usage = { inputTokens: 10, outputTokens: 0, cachedTokens: 0 };
    const call = async (): Promise<ModelOutcome> => {
      asked++;
      return { type: "failure", failure, usage, dropped: [] };
    };
    const { run } = await begin({ model: { ...scriptedModel([]), client: { call } } }, "word ".repeat(5_000));
    const result = await run.result({ timeoutMs: 10_000 });
    expect(result).toMatchObject({ status: "failed", stopReason: "model_error", error: { code: "context_overflow" } });
    expect(asked).toBeLessThan(40);
    expect(result.usage.inputTokens).toBe(10 * asked);
  });
});

describe("a summary", () => {
  test("longer than the window is cut to its share, and the run goes on", async () => {
    const base = modelOf(({ turn }) =>
      turn > 20 ? "found" : { toolCalls: [{ name: "look", arguments: { n: turn } }] },
    );
    const endless = {
      ...scriptedModel([]),
      client: {
        call: async () => ({
          type: "reply" as const,
          reply: { content: "and then ".repeat(5_000) } as never,
          finishReason: "stop",
          usage: { inputTokens: 1, outputTokens: 1, cachedTokens: 0 },
          dropped: [],
        }),
      },
    };
    const window = { budgetTokens: 2_500, summarise: { model: endless } };
    const { run } = await begin({ model: base.model, tools: [look], window, limits: { maxTurns: 100, repeats: 50 } });
    expect(await run.result({ timeoutMs: 20_000 })).toMatchObject({ status: "completed", turns: 21 });
    for (const { messages } of base.asked) expect(refusals(messages)).toEqual([]);
  });
});

describe("a cancel", () => {
  const never = ({ signal }: { signal: AbortSignal }): Promise<never> =>
    new Promise((_, reject) => signal.addEventListener("abort", () => reject(new Error("aborted")), { once: true }));

  test("is heard by a check within a tenth of a second", async () => {
    const { model } = modelOf(() => "answer");
    const entered = Promise.withResolvers<void>();
    const aborted = Promise.withResolvers<number>();
    const { run } = await begin({
      model,
      verify: (_answer, { signal }) => {
        entered.resolve();
        signal.addEventListener("abort", () => aborted.resolve(performance.now()));
        return never({ signal });
      },
    });
    await entered.promise;
    expect(await run.status()).toMatchObject({ status: "running" });
    const cancelledAt = performance.now();
    await run.cancel({ by: "p" });
    expect((await aborted.promise) - cancelledAt).toBeLessThan(1_000);
    expect(await run.result({ timeoutMs: 5_000 })).toMatchObject({ status: "cancelled" });
  });

  test("is heard by a summary, whose tokens are counted", async () => {
    const base = modelOf(({ turn }) => ({ toolCalls: [{ name: "look", arguments: { n: turn } }] }));
    const entered = Promise.withResolvers<void>();
    const aborted = Promise.withResolvers<number>();
    const call = async ({ signal, onText }: ModelRequest): Promise<ModelOutcome> => {
      onText("half a summ");
      entered.resolve();
      await never({ signal }).catch(() => aborted.resolve(performance.now()));
      const failure = { class: "aborted" as const, code: "aborted", message: "aborted" };
      return {
        type: "failure",
        failure,
        usage: { inputTokens: 1_000_000, outputTokens: 0, cachedTokens: 0 },
        dropped: [],
      };
    };
    const window = { budgetTokens: 2_500, summarise: { model: { ...scriptedModel([]), client: { call } } } };
    const { run } = await begin({ model: base.model, tools: [look], window, limits: { maxTurns: 100, repeats: 50 } });
    const texts: string[] = [];
    const watching = (async () => {
      for await (const event of run.events()) if (event.type === "text") texts.push(event.text);
    })();
    await entered.promise;
    const cancelledAt = performance.now();
    await run.cancel({ by: "p" });
    expect((await aborted.promise) - cancelledAt).toBeLessThan(1_000);
    await run.result({ timeoutMs: 5_000 });
    await watching;
    expect(texts.join("")).not.toContain("half a summ");
    await expect.poll(async () => (await run.status()).usage.inputTokens).toBeGreaterThan(1_000_000);
  });
});

describe("an output", () => {
  const output = z.object({ city: z.string(), degrees: z.number().default(0) });

  test("is typed by the agent that is given, text without one", async () => {
    const agent = defineAgent({ name: "a", instructions: "", model: modelOf(() => '{"city":"Oslo"}').model, output });
    const plain = defineAgent({ name: "a", instructions: "", model: modelOf(() => "text").model });
    const drover = createMemoryDrover({ agents: [agent] });
    await drover.work();
    const typed = await drover.start(agent, "go");
    const named = await drover.start("a", "go");
    const result = await typed.result();
    expectTypeOf(result.output).toEqualTypeOf<{ city: string; degrees: number } | undefined>();
    expectTypeOf((await named.result()).output).toEqualTypeOf<string | undefined>();
    expectTypeOf((await drover.get(named.id).result()).output).toEqualTypeOf<string | undefined>();
    const got = (await drover.get(named.id, agent).result()).output;
    expectTypeOf(got).toEqualTypeOf<{ city: string; degrees: number } | undefined>();
    const text = (await drover.get(named.id, plain).result()).output;
    expectTypeOf(text).toEqualTypeOf<string | undefined>();
    expect([result.output, got, text]).toEqual([
      { city: "Oslo", degrees: 0 },
      { city: "Oslo", degrees: 0 },
      '{"city":"Oslo"}',
    ]);
  });

  test("of a run that another version ended with text is no value of this one", async () => {
    const { run, drover } = await begin({ model: modelOf(() => "It is cold.").model });
    await run.result({ timeoutMs: 5_000 });
    const agent = defineAgent({ name: "a", instructions: "", model: modelOf(() => "").model, output });
    await expect(drover.get(run.id, agent).result()).rejects.toThrow("Another version of the agent wrote it");
  });
});
