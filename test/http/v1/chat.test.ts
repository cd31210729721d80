// Catches: a client that knows only Chat Completions and gets a wrong answer, a doubled run, or text that does not count.
import type {
  ChatCompletionChunk,
  ChatCompletionMessageParam,
  ChatCompletionTool,
} from "openai/resources/chat/completions";
import { describe, expect, test } from "vitest";
import { z } from "zod";
import { type Message, textOf } from "../../../src/core/message.ts";
import type { ScriptedReply } from "../../../src/testing/scripted-model.ts";
import { defineTool } from "../../../src/tools/define-tool.ts";
import { createV1Test, makeAgent } from "./support.ts";

const hello = { text: "Hello there.", deltas: ["Hello ", "there."] };
const weather: ChatCompletionTool = {
  type: "function",
  function: {
    name: "weather",
    description: "The weather.",
    parameters: { type: "object", properties: { city: { type: "string" } }, required: ["city"] },
  },
};
const toTool = (name: string) => ({ type: "function", function: { name } });
const askOrSay: ScriptedReply = ({ messages }) => {
  const last = messages.at(-1);
  if (last?.role === "tool") return `It is ${textOf(last.content)}.`;
  return { text: "Let me see.", toolCalls: [{ name: "weather", arguments: { city: "Oslo" } }] };
};
const hi: ChatCompletionMessageParam[] = [{ role: "user", content: "hi" }];

describe("a chat completion", () => {
  test("is a run's answer", async () => {
    const { client, http } = await createV1Test({ agents: [makeAgent([hello])] });
    const completion = await client.chat.completions.create({ model: "helper", messages: hi, user: "ann" });
    expect(completion).toMatchObject({
      object: "chat.completion",
      model: "helper",
      choices: [
        { index: 0, finish_reason: "stop", message: { role: "assistant", content: "Hello there.", refusal: null } },
      ],
    });
    expect(completion.usage?.total_tokens).toBeGreaterThan(0);
    const { runs } = await http.drover.list({ metadata: { user: "ann" } });
    expect(runs.map(({ runId }) => runId)).toEqual([completion.id]);
  });

  test("is streamed in chunks, with the usage last if it was asked for", async () => {
    const { client } = await createV1Test({ agents: [makeAgent([hello])] });
    const stream = await client.chat.completions.create({
      model: "helper",
      messages: hi,
      stream: true,
      stream_options: { include_usage: true },
    });
    const chunks = [];
    for await (const chunk of stream) chunks.push(chunk);
    expect(chunks[0]?.choices[0]?.delta).toEqual({ role: "assistant", content: "" });
    expect(chunks.map(({ choices }) => choices[0]?.delta.content ?? "").join("")).toBe("Hello there.");
    expect(chunks.at(-2)?.choices[0]?.finish_reason).toBe("stop");
    expect(chunks.at(-1)).toMatchObject({ choices: [], usage: { total_tokens: expect.any(Number) } });
    expect(new Set(chunks.map(({ id }) => id)).size).toBe(1);
  });

  const words = Array.from({ length: 40 }, (_, index) => `word${index} `);
  const talk = { text: words.join(""), deltas: words, delayMs: 400 };

  async function piecesOf(chunks: AsyncIterable<ChatCompletionChunk>): Promise<string[]> {
    const pieces: string[] = [];
    for await (const { choices } of chunks) if (choices[0]?.delta.content) pieces.push(choices[0].delta.content);
    return pieces;
  }

  test("comes word by word from an agent that has but one turn", async () => {
    const { client } = await createV1Test({ agents: [makeAgent([talk])] });
    const pieces = await piecesOf(
      await client.chat.completions.create({ model: "helper", messages: hi, stream: true }),
    );
    expect(pieces.length).toBeGreaterThan(1);
    expect(pieces.join("")).toBe(words.join(""));
  });

  test("that begins anew after words went out ends with an error, and is the same run when sent again", async () => {
    const failure = { class: "transient" as const, code: "server_error", message: "it broke off" };
    const model: ScriptedReply = ({ attempt, onText }) => {
      if (attempt > 1) return "Something else.";
      for (const word of words) onText(word);
      return { fail: failure, delayMs: 200 };
    };
    const { client, http } = await createV1Test({ agents: [makeAgent([model])] });
    const headers = { "Idempotency-Key": "k-1" };
    const body = { model: "helper", messages: hi };
    const stream = await client.chat.completions.create({ ...body, stream: true }, { headers });
    await expect(piecesOf(stream)).rejects.toMatchObject({ code: "answer_restarted" });
    const again = await client.chat.completions.create(body, { headers });
    expect(again.choices[0]?.message.content).toBe("Something else.");
    expect((await http.drover.list()).runs).toHaveLength(1);
  });

  test("gives the helper the final answer alone, though the agent spoke before it called its tools", async () => {
    const look = defineTool({
      name: "look",
      description: "Looks.",
      parameters: z.object({ at: z.string().describe("what") }),
      effect: "read",
      execute: ({ at }) => `saw ${at}`,
    });
    const turn = { text: "Let me look.", toolCalls: [{ name: "look", arguments: { at: "sky" } }] };
    const { client } = await createV1Test({ agents: [makeAgent([turn, hello], { tools: [look] })] });
    const stream = client.chat.completions.stream({ model: "helper", messages: hi });
    expect(await stream.finalContent()).toBe("Hello there.");
  });

  test.each([[false], [true]])(
    "leaves calls of the caller's tools to it and goes on with the same run (stream: %s)",
    async (stream) => {
      const { client, http } = await createV1Test({ agents: [makeAgent([askOrSay, askOrSay])] });
      const messages: ChatCompletionMessageParam[] = [{ role: "user", content: "Weather?" }];
      const ask = () =>
        stream
          ? client.chat.completions.stream({ model: "helper", messages, tools: [weather] }).finalChatCompletion()
          : client.chat.completions.create({ model: "helper", messages, tools: [weather] });
      const [choice] = (await ask()).choices;
      expect(choice).toMatchObject({ finish_reason: "tool_calls", message: { content: "Let me see." } });
      const [call] = choice?.message.tool_calls ?? [];
      expect(call).toMatchObject({ type: "function", function: { name: "weather", arguments: '{"city":"Oslo"}' } });
      if (!choice || !call) return;
      messages.push(choice.message, { role: "tool", tool_call_id: call.id, content: "sunny" });
      expect((await ask()).choices[0]).toMatchObject({ finish_reason: "stop", message: { content: "It is sunny." } });
      expect((await http.drover.list()).runs).toHaveLength(1);
    },
  );

  test("is brought to its end by the helper that runs tools", async () => {
    const { client, http } = await createV1Test({ agents: [makeAgent([askOrSay, askOrSay])] });
    const runner = client.chat.completions.runTools({
      model: "helper",
      messages: [{ role: "user", content: "Weather?" }],
      tools: [
        {
          type: "function",
          function: {
            name: "weather",
            description: "The weather.",
            parameters: { type: "object", properties: { city: { type: "string" } } },
            parse: JSON.parse,
            function: ({ city }: { city: string }) => `sunny in ${city}`,
          },
        },
      ],
    });
    expect(await runner.finalContent()).toBe("It is sunny in Oslo.");
    expect((await http.drover.list()).runs).toHaveLength(1);
  });

  test("with a history of its own, calls and results in it, begins a run with that", async () => {
    const seen: Message[][] = [];
    const model: ScriptedReply = ({ messages }) => {
      seen.push(messages);
      return "Done.";
    };
    const { client } = await createV1Test({ agents: [makeAgent([model])] });
    const call = (id: string) => ({
      id,
      type: "function" as const,
      function: { name: "look", arguments: `{"at":"${id}"}` },
    });
    await client.chat.completions.create({
      model: "helper",
      messages: [
        { role: "system", content: "Be brief." },
        {
          role: "user",
          content: [
            { type: "text", text: "Look." },
            { type: "image_url", image_url: { url: "https://pics.example/a.png" } },
          ],
        },
        { role: "assistant", content: null, tool_calls: [call("a"), call("b")] },
        { role: "tool", tool_call_id: "b", content: "saw b" },
        { role: "tool", tool_call_id: "a", content: [{ type: "text", text: "saw a" }] },
        { role: "assistant", content: "I looked." },
        { role: "user", content: "And now?" },
      ],
    });
    expect(seen[0]?.map(({ role, content }) => [role, textOf(content)])).toEqual([
      ["system", "Be brief."],
      ["user", "Look."],
      ["assistant", ""],
      ["tool", "saw a"],
      ["tool", "saw b"],
      ["assistant", "I looked."],
      ["user", "And now?"],
    ]);
  });

  test("of a run that failed is an error that is not sent again", async () => {
    const failure = { class: "permanent" as const, code: "bad_key", message: "no such key" };
    const { clientOf, http } = await createV1Test({ agents: [makeAgent([{ fail: failure }])] });
    const client = clientOf({ maxRetries: 2 });
    const plain = client.chat.completions.create({ model: "helper", messages: hi });
    await expect(plain).rejects.toMatchObject({ status: 500, code: "model_error", message: /no such key/ });
    const streamed = client.chat.completions.stream({ model: "helper", messages: hi }).finalContent();
    await expect(streamed).rejects.toMatchObject({ message: /no such key/ });
    expect((await http.drover.list()).runs).toHaveLength(2);
  });

  test.each([
    ["n", { n: 2 }, "n"],
    ["logprobs", { logprobs: true }, "logprobs"],
    ["a form the agent has not", { response_format: { type: "json_object" } }, "response_format"],
    [
      "a part of no known kind",
      { messages: [{ role: "user", content: [{ type: "video" }] }] },
      "messages[0].content[0].type",
    ],
    [
      "a file by its id",
      { messages: [{ role: "user", content: [{ type: "file", file: { file_id: "f" } }] }] },
      "messages[0].content[0].file.file_id",
    ],
    [
      "a call of old",
      { messages: [{ role: "assistant", content: null, function_call: { name: "f", arguments: "{}" } }] },
      "messages[0].function_call",
    ],
    ["sound", { messages: [{ role: "assistant", content: null, audio: { id: "a" } }] }, "messages[0].audio"],
    ["two tools of one name", { tools: ["a", "a"].map(toTool) }, "tools[1].function.name"],
    ["a tool whose name no model may say", { tools: [toTool("a.b")] }, "tools[0].function.name"],
    ["a role of old", { messages: [{ role: "function", content: "x" }] }, "messages[0].role"],
    ["a result of no call", { messages: [{ role: "tool", tool_call_id: "x", content: "y" }] }, "input"],
    ["no messages", { messages: [] }, "messages"],
    ["a hosted tool", { tools: [{ type: "web_search" }] }, "tools[0].type"],
  ])("is refused for %s", async (_what, more, param) => {
    const { client } = await createV1Test({ agents: [makeAgent([hello])] });
    const body = { model: "helper", messages: hi, ...more };
    await expect(client.post("/chat/completions", { body })).rejects.toMatchObject({ status: 400, param });
  });
});
