// Catches: a result that fills the window, one that cannot be read on, and a tool that answers nonsense when asked for more.
import { describe, expect, test } from "vitest";
import { z } from "zod";
import type { ToolMessage } from "../../src/core/message.ts";
import { defineAgent } from "../../src/define-agent.ts";
import type { ModelRequest } from "../../src/ports.ts";
import { createMemoryDrover, scriptedModel } from "../../src/testing/index.ts";
import { tokenCounter } from "../../src/tokens/token-counter.ts";
import { defineTool } from "../../src/tools/define-tool.ts";

const book = Array.from({ length: 20_000 }, (_, line) => `line ${line}`).join("\n");
const readBook = defineTool({
  name: "read_book",
  description: "Reads a book.",
  parameters: z.object({}),
  effect: "read",
  maxResultTokens: 500,
  execute: () => book,
});
const asks = (name: string, args: object = {}) => ({ toolCalls: [{ name, arguments: args as Record<string, never> }] });

async function play(script: Parameters<typeof scriptedModel>[0], tools = [readBook], session?: string) {
  const asked: ModelRequest[] = [];
  const model = scriptedModel(
    script.map((entry) => (request: ModelRequest) => {
      asked.push(request);
      return typeof entry === "function" ? entry(request) : entry;
    }),
  );
  const agent = defineAgent({ name: "reader", instructions: "Read.", model, tools });
  const drover = createMemoryDrover({ agents: [agent] });
  await drover.work();
  const run = await drover.start("reader", "go", session === undefined ? {} : { session });
  const result = await run.result();
  const results = (await run.transcript()).filter((message): message is ToolMessage => message.role === "tool");
  return { asked, drover, run, result, results };
}

describe("a result that is too long", () => {
  test("is cut for the model, which reads on with the tool that is offered from then on", async () => {
    const read = asks("read_result", { result: "call-1-1", from: 90_000 });
    const { asked, results, run, result } = await play([asks("read_book"), read, "done"]);
    expect(result.status).toBe("completed");
    expect(asked.map(({ tools }) => tools.map(({ name }) => name))).toEqual([
      ["read_book"],
      ["read_book", "read_result"],
      ["read_book", "read_result"],
    ]);
    expect(results[0]?.content).toMatch(/^line 0\n.*\[cut: characters \d+ to \d+ of \d+ .*\nline 19999$/s);
    const [, from, to] =
      /^\[characters (\d+) to (\d+) of \d+; to read on use "from": \d+\]/.exec(String(results[1]?.content)) ?? [];
    expect(Number(from)).toBe(90_000);
    expect(String(results[1]?.content).split("]\n").slice(1).join("]\n")).toBe(book.slice(90_000, Number(to)));
    expect((await run.readResult("call-1-1", { from: 0, length: book.length })).text).toBe(book);
    expect(await run.readResult("call-1-1", { from: book.length - 5 })).toMatchObject({
      text: "19999",
      chars: book.length,
    });
    expect((await run.readResult("call-2-1")).text).toBe(results[1]?.content);
    await expect(run.readResult("call-9-1")).rejects.toMatchObject({ code: "not_found" });
  });

  test.each([
    ["an unknown result", { result: "call-9-9" }, "There are: call-1-1."],
    ["no result", {}, "result: Invalid input"],
    ["a position that is none", { result: "call-1-1", from: "x" }, "from: Invalid input"],
    ["a position beyond the end", { result: "call-1-1", from: 10_000_000 }, "nothing from character"],
    ["a position within a character", { result: "call-1-1", from: 9, length: 1 }, "[characters 9 to 13 of"],
    ["arguments that are a list", [1], "not a JSON object"],
    [
      "words to find",
      { result: "call-1-1", find: "line 1234\n" },
      '[1 of "line 1234\\n", each after its character; these are all]\n',
    ],
    ["words that are not there", { result: "call-1-1", find: "nowhere" }, 'there is no "nowhere" from there on'],
    [
      "words that are everywhere",
      { result: "call-1-1", find: "line" },
      '"line", each after its character; to search on use "from": ',
    ],
    ["words that are too long", { result: "call-1-1", find: "x".repeat(201) }, "find: Too big"],
    ["a number as text", { result: "call-1-1", from: "100", length: "5" }, "[characters 100 to 105"],
  ])("answers %s in words that help", async (_name, args, words) => {
    const { results } = await play([asks("read_book"), asks("read_result", args), "done"]);
    expect(results[1]?.content).toContain(words);
  });

  test("is kept with its message where little is cut out, and read like any other", async () => {
    const short = book.slice(0, 6_000);
    const tool = defineTool({ ...readBook, parameters: z.object({}), execute: () => short });
    const read = asks("read_result", { result: "call-1-1", from: 3_000, length: 20 });
    const { run, results } = await play([asks("read_book"), read, "done"], [tool]);
    const { head = 0, tail = 0, middle } = results[0]?.full ?? {};
    expect(middle).toBe(short.slice(head, -tail));
    expect(results[1]?.content).toContain(`\n${short.slice(3_000, 3_020)}`);
    expect((await run.readResult("call-1-1")).text).toBe(short);
  });

  test("is searched to its end, over its pieces, within the limit of its tool", async () => {
    const long = `${"-".repeat(499_997)}needle${"-".repeat(1_000_000)}needle`;
    const tool = defineTool({ ...readBook, parameters: z.object({}), execute: () => long });
    const find = { result: "call-1-1", find: "needle" };
    const { results } = await play([asks("read_book"), asks("read_result", find), "done"], [tool]);
    expect(String(results[1]?.content).match(/^\d+: /gm)).toEqual(["499997: ", "1500003: "]);
    const { results: few } = await play([
      asks("read_book"),
      asks("read_result", { result: "call-1-1", find: "line" }),
      "done",
    ]);
    const tokens = (await tokenCounter("none")).count(String(few[1]?.content));
    expect(tokens).toBeLessThanOrEqual(500);
  });

  test("is named with its run in a session, where calls of several runs have the same names", async () => {
    const { drover, run } = await play([asks("read_book"), "done"], [readBook], "talk");
    const again = await drover.start("reader", "again", { session: "talk" });
    await again.result();
    const texts = (await again.transcript({ session: true })).flatMap((m) =>
      m.role === "tool" ? [String(m.content)] : [],
    );
    expect(texts.map((text) => /"result":"([^"]+)"/.exec(text)?.[1])).toEqual([
      `${run.id}/call-1-1`,
      `${again.id}/call-1-1`,
    ]);
  });

  test("is read by the agent's own tool of that name, if it has one", async () => {
    const own = defineTool({ ...readBook, parameters: z.object({}), name: "read_result", execute: () => "mine" });
    const { asked, results } = await play([asks("read_book"), asks("read_result"), "done"], [readBook, own]);
    expect(asked[1]?.tools).toHaveLength(2);
    expect(results[1]?.content).toBe("mine");
  });

  test("of a hundred megabytes is survived, with what is kept of it readable", async () => {
    const flood = defineTool({ ...readBook, parameters: z.object({}), execute: () => "0123456789".repeat(10_000_000) });
    const { run, results, result } = await play([asks("read_book"), "done"], [flood]);
    expect(result.status).toBe("completed");
    expect(String(results[0]?.content).length).toBeLessThan(5_000);
    expect(results[0]?.content).toContain("of 100000000 characters are kept");
    expect((await run.readResult("call-1-1", { from: 12_000_000, length: 10 })).text).toBe("0123456789");
  });
});
