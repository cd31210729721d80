// Catches: counts that a model would not agree with, and texts that hold a worker up for minutes.
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { Message } from "../../src/core/message.ts";
import { encodingOf, partTokens, tokenCounter } from "../../src/tokens/token-counter.ts";

const samples = {
  english:
    "Durable agents keep their whole state in the database, so that any worker can take the next step. If one of them is killed, another one goes on from the last commit. ",
  german:
    "Die Beschäftigten der Verkehrsbetriebe haben gestern über die Vorschläge abgestimmt; das Ergebnis überraschte niemanden. ",
  code: "export function add(a: number, b: number): number {\n  // Sum of both.\n  return a + b;\n}\nfor (let i = 0; i < 10; i++) console.log(add(i, i * 2));\n",
  json: '{"id":"5f3b2c","items":[{"sku":"A-1001","quantity":3,"price":12.5},{"sku":"B-77","quantity":1,"price":0.99}],"paid":true}\n',
  chinese: "我们的系统把每一步都保存在数据库里，因此任何一台机器都可以继续执行。今天天气很好，我们去公园散步吧。",
  japanese: "エージェントの状態はすべてデータベースに保存されるので、どのワーカーでも次のステップを実行できます。",
  russian: "Каждый шаг агента сохраняется в базе данных, поэтому работу может продолжить любой процесс. ",
  emoji: "🎉🚀 great 👍🏽 family 👨‍👩‍👧‍👦 flags 🇩🇪🇳🇴 ",
  base64:
    "iVBORw0KGgoAAAANSUhEUgAAAAUAAAAFCAYAAACNbyblAAAAHElEQVQI12P4//8/w38GIAXDIBKE0DHxgljNBAAO9TXL0Y4OHwAAAABJRU5ErkJggg==",
  numbers: "2026-11-30 04:39:57 1732941597 3.14159265 192.168.0.1 0x7fff 1,000,000 ",
  decimals: "3.14159 2.71828 1.41421 0.57721 6.02214e23 299792458 1.602e-19 ",
  finnish: "Järjestelmä tallentaa jokaisen vaiheen tietokantaan, joten kuka tahansa työntekijä voi jatkaa. ",
  vietnamese: "Hệ thống lưu mọi bước vào cơ sở dữ liệu để bất kỳ tiến trình nào cũng có thể tiếp tục. ",
  paths: "docs/ReleaseNotes2024/Overview src/core/windowPlan.ts https://example.com/api/v2/getUserById?id=42 ",
  hashes: "550e8400-e29b-41d4-a716-446655440000 3f7a9c0d1e2b4f5a6c7d8e9f0a1b2c3d4e5f60718293a4b5c6d7e8f901234567 ",
  log: "2026-11-30T04:39:57.123Z INFO [worker-3] step=model run=01HZX3 took=153ms path=/v1/chat/completions\n",
  table: "| name | value | note |\n|------|-------|------|\n| a    | 1     | x    |\n",
  boxes: "┌────────┐\n│ hello  │\n└────────┘\n",
  markup: '<div class="card mt-4"><a href="https://example.com/a/b?x=1&y=2">Read more</a></div>\n',
};

describe("tokenCounter", () => {
  test("counts as OpenAI's tokenizers do", async () => {
    const o200k = await tokenCounter("gpt-5-mini");
    const cl100k = await tokenCounter("gpt-4-turbo");
    expect(o200k.exact).toBe(true);
    // Known from OpenAI's own published example: "hello world" is two tokens in either vocabulary.
    expect([o200k.count("hello world"), cl100k.count("hello world")]).toEqual([2, 2]);
    expect(o200k.count("<|endoftext|>")).toBeGreaterThan(1);
    expect(o200k.count("")).toBe(0);
  });

  test.each([
    ["gpt-4o-mini", "o200k_base"],
    ["gpt-4.1", "o200k_base"],
    ["o3", "o200k_base"],
    ["openai/gpt-oss-120b", "o200k_base"],
    ["ft:gpt-4o:acme", "o200k_base"],
    ["gpt-4-0613", "cl100k_base"],
    ["gpt-3.5-turbo", "cl100k_base"],
    ["qwen3-coder", undefined],
    ["o-llama", undefined],
  ])("knows the vocabulary of %s", (model, encoding) => expect(encodingOf(model)).toBe(encoding));

  test.each(Object.entries(samples))("estimates %s within bounds, rather too high", async (_name, sample) => {
    const text = sample.repeat(5);
    const exact = (await tokenCounter("gpt-5")).count(text);
    const estimate = await tokenCounter("some-local-model");
    expect(estimate.exact).toBe(false);
    expect(estimate.count(text) / exact).toBeGreaterThanOrEqual(0.9);
    expect(estimate.count(text) / exact).toBeLessThanOrEqual(1.7);
  });

  test.each([
    ["one letter", "a".repeat(1_000_000)],
    ["white space", " ".repeat(1_000_000)],
    ["line breaks", "\n".repeat(1_000_000)],
    ["emoji", "🎉".repeat(250_000)],
    ["halves of pairs", "\ud800".repeat(300_000)],
    ["signs", "=".repeat(1_000_000)],
    ["digits", "7".repeat(1_000_000)],
  ])("takes a megabyte of %s", async (_name, text) => {
    for (const model of ["gpt-5", "other"]) {
      const counter = await tokenCounter(model);
      const tokens = counter.count(text);
      expect(tokens).toBeGreaterThan(0);
      expect(counter.count(counter.cut(text, 500))).toBeLessThanOrEqual(500);
    }
  });

  test("estimates lines of signs far below their length, and nothing above its bytes", async () => {
    const { count } = await tokenCounter("other");
    expect(count("=".repeat(600))).toBeLessThan(60);
    for (const text of ["a", "é", "🎉", "我", "7", "()", "\ud800", "a1b2"])
      expect(count(text)).toBeLessThanOrEqual(Buffer.byteLength(text));
  });

  test("stays fast after a great many different words", async () => {
    const { count } = await tokenCounter("gpt-5");
    const timeOf = (text: string): number => {
      const startedAt = performance.now();
      count(text);
      return performance.now() - startedAt;
    };
    let seed = 1;
    const bytes = Uint8Array.from({ length: 1_000_000 }, () => {
      seed = (Math.imul(seed, 1_664_525) + 1_013_904_223) >>> 0;
      return seed >>> 24;
    });
    const filling = timeOf(Buffer.from(bytes).toString("base64"));
    const known = "'s".repeat(25_000);
    // About 0.02; with a cache of 100,000 entries, which this fills, 0.1.
    expect(Math.min(timeOf(known), timeOf(known), timeOf(known)) / filling).toBeLessThan(0.04);
  });

  test("cuts long texts to nearly as much as fits", async () => {
    for (const model of ["gpt-5", "other"]) {
      const counter = await tokenCounter(model);
      for (const text of [samples.english, samples.base64, samples.chinese, `${"'s".repeat(99)} `]) {
        const long = text.repeat(Math.ceil(200_000 / text.length));
        const tokens = counter.count(counter.cut(long, 20_000));
        expect(tokens).toBeLessThanOrEqual(20_000);
        expect(tokens).toBeGreaterThan(19_800);
      }
      expect(counter.cut("none", 0)).toBe("");
    }
  });

  test("cuts to as much as fits, never inside a character", async () => {
    for (const model of ["gpt-5", "other"]) {
      const counter = await tokenCounter(model);
      await fc.assert(
        fc.asyncProperty(fc.string({ unit: "grapheme", maxLength: 300 }), fc.nat(60), async (text, tokens) => {
          const cut = counter.cut(text, tokens);
          expect(text.startsWith(cut)).toBe(true);
          expect(counter.count(cut)).toBeLessThanOrEqual(tokens);
          if (text.isWellFormed()) expect(cut.isWellFormed()).toBe(true);
          if (counter.count(text) <= tokens) expect(cut).toBe(text);
        }),
        { numRuns: 300 },
      );
      const long = samples.english.repeat(100);
      expect(counter.count(counter.cut(long, 200))).toBeGreaterThan(190);
    }
  });

  test("counts all of a message that is sent", async () => {
    const counter = await tokenCounter("gpt-5");
    const plain: Message = { role: "assistant", content: "hello world" };
    const base = counter.countMessage(plain);
    const call = { callId: "c", id: "i", name: "look", arguments: '{"at":"the moon"}', extra: { a: "b" } };
    expect(counter.countMessage({ ...plain, toolCalls: [call] })).toBeGreaterThan(base + 20);
    expect(counter.countMessage({ ...plain, extra: { reasoning_content: "because of that" } })).toBeGreaterThan(base);
    expect(counter.countMessage({ ...plain, content: null, refusal: "no, never" })).toBeGreaterThan(4);
    const image = { type: "image_url", image_url: { url: `data:image/png;base64,${"A".repeat(9_999)}` } };
    expect(counter.countMessage({ role: "user", content: [{ type: "text", text: "see" }, image] })).toBe(
      partTokens + 5,
    );
  });
});

test("a file of text counts by its length, up to what is sent of it; other files do not", async () => {
  const { countMessage } = await tokenCounter("unknown");
  const tokensOf = (mediaType: string, bytes: number): number => {
    const file_data = `data:${mediaType};base64,${Buffer.alloc(bytes, "x").toString("base64")}`;
    return countMessage({ role: "user", content: [{ type: "file", file: { file_data } }] });
  };
  const other = tokensOf("application/pdf", 30_000);
  expect(tokensOf("text/csv", 30_000)).toBe(other + 10_000);
  expect(tokensOf("text/csv", 3_000_000)).toBe(other + Math.ceil((256 * 1024) / 3));
});
