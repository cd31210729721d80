// Catches: a caller's tool whose result gets lost, is taken twice, or never brings the run to its end.
import type { ResponseStream } from "openai/lib/responses/ResponseStream";
import type {
  FunctionTool,
  ParsedResponse,
  ResponseFunctionToolCall,
  ResponseInputItem,
} from "openai/resources/responses/responses";
import { describe, expect, test } from "vitest";
import { z } from "zod";
import { textOf } from "../../../src/core/message.ts";
import type { ScriptedReply } from "../../../src/testing/scripted-model.ts";
import { defineTool } from "../../../src/tools/define-tool.ts";
import { createV1Test, gate, makeAgent } from "./support.ts";

const weather: FunctionTool = {
  type: "function",
  name: "weather",
  description: "The weather.",
  parameters: { type: "object", properties: { city: { type: "string" } }, required: ["city"] },
  strict: false,
};
const ask = (...cities: string[]) => ({
  text: "Let me see.",
  toolCalls: cities.map((city) => ({ name: "weather", arguments: { city } })),
});
/** Says the results of the last turn. */
const sum = ({ messages }: { messages: { role: string; content: unknown }[] }) =>
  `It is ${messages
    .slice(messages.findLastIndex(({ role }) => role === "assistant") + 1)
    .map(({ content }) => textOf(content as string))
    .join(" and ")}.`;
/** Asks, and once there are results says them, in whatever turn of whichever run. */
const askOrSum =
  (...cities: string[]): ScriptedReply =>
  (request) =>
    request.messages.at(-1)?.role === "tool" ? sum(request) : ask(...cities);
const either = (...cities: string[]) => makeAgent([askOrSum(...cities), askOrSum(...cities)]);
const helper = (...script: Parameters<typeof makeAgent>[0]) => makeAgent(script);
const request = { model: "helper", input: "Weather?", tools: [weather] };

function callsOf(output: readonly { type: string }[]): ResponseFunctionToolCall[] {
  return output.filter((item): item is ResponseFunctionToolCall => item.type === "function_call");
}
const answer = ({ call_id, arguments: args }: ResponseFunctionToolCall): ResponseInputItem.FunctionCallOutput => ({
  type: "function_call_output",
  call_id,
  output: `sunny in ${JSON.parse(args).city}`,
});

describe("a tool of the caller's", () => {
  test("is called, answered, and the same run goes on to its end", async () => {
    const { client, http } = await createV1Test({ agents: [helper(ask("Oslo", "Rome"), sum)] });
    const first = await client.responses.create(request);
    expect(first).toMatchObject({ status: "completed", output_text: "Let me see." });
    const calls = callsOf(first.output);
    expect(calls.map(({ name, arguments: args }) => [name, args])).toEqual([
      ["weather", '{"city":"Oslo"}'],
      ["weather", '{"city":"Rome"}'],
    ]);
    const second = await client.responses.create({
      model: "helper",
      previous_response_id: first.id,
      input: calls.map(answer),
    });
    expect(second).toMatchObject({ status: "completed", output_text: "It is sunny in Oslo and sunny in Rome." });
    expect(await client.responses.retrieve(first.id)).toMatchObject({ output: first.output });
    expect((await http.drover.list()).runs).toHaveLength(1);
    const third = await client.responses.create({ ...request, previous_response_id: second.id });
    expect(callsOf(third.output)).toHaveLength(2);
  });

  test("is streamed to the helper, over several rounds", async () => {
    const { client } = await createV1Test({ agents: [helper(ask("Oslo"), ask("Rome"), sum)] });
    let previous: string | undefined;
    let input: string | ResponseInputItem[] = "Weather?";
    const texts: string[] = [];
    for (let round = 0; round < 3; round += 1) {
      const stream: ResponseStream<null> = client.responses.stream({
        ...request,
        input,
        ...(previous === undefined ? {} : { previous_response_id: previous }),
      });
      const final: ParsedResponse<null> = await stream.finalResponse();
      texts.push(final.output_text);
      previous = final.id;
      input = callsOf(final.output).map(answer);
    }
    expect(texts).toEqual(["Let me see.", "Let me see.", "It is sunny in Rome."]);
  });

  test("waits until the agent's own calls of the same turn are done", async () => {
    const held = Promise.withResolvers<void>();
    const own = defineTool({
      name: "look",
      description: "Looks.",
      parameters: z.object({ at: z.string().describe("what") }),
      effect: "read",
      execute: async ({ at }) => held.promise.then(() => `saw ${at}`),
    });
    const turn = { toolCalls: [...ask("Oslo").toolCalls, { name: "look", arguments: { at: "sky" } }] };
    const { client } = await createV1Test({ agents: [makeAgent([turn, sum], { tools: [own] })] });
    const { id } = await client.responses.create({ ...request, background: true });
    const watching = client.responses.stream({ response_id: id }).finalResponse();
    expect(await client.responses.retrieve(id)).toMatchObject({ status: expect.stringMatching(/queued|in_progress/) });
    held.resolve();
    const [call, ...others] = callsOf((await watching).output);
    expect(others).toEqual([]);
    const last = await client.responses.create({
      ...request,
      previous_response_id: id,
      input: call ? [answer(call)] : [],
    });
    expect(last.output_text).toBe("It is sunny in Oslo and saw sky.");
  });

  test("must be answered in full, by results of calls that there were", async () => {
    const { client } = await createV1Test({ agents: [helper(ask("Oslo", "Rome"), sum)] });
    const first = await client.responses.create(request);
    const [oslo, rome] = callsOf(first.output).map(answer);
    const go = (input: unknown[]) =>
      client.responses.create({ model: "helper", previous_response_id: first.id, input: input as ResponseInputItem[] });
    await expect(go([oslo])).rejects.toMatchObject({ status: 400, param: "input", message: /No tool output found/ });
    await expect(go([{ role: "user", content: "never mind" }])).rejects.toMatchObject({ status: 400 });
    const other = { ...oslo, call_id: "call_9_9_x" };
    const alone = client.responses.create({ model: "helper", input: [other] as ResponseInputItem[] });
    await expect(alone).rejects.toMatchObject({ status: 400, message: /No tool call found/ });
    expect((await go([rome, oslo])).output_text).toBe("It is sunny in Oslo and sunny in Rome.");
  });

  test("answered twice with the same results is one answer; with others it is another history", async () => {
    const { client, http } = await createV1Test({ agents: [either("Oslo")] });
    const first = await client.responses.create(request);
    const results = callsOf(first.output).map(answer);
    const go = (input: ResponseInputItem[]) =>
      client.responses.create({ ...request, previous_response_id: first.id, input });
    const [one, same] = [await go(results), await go(results)];
    expect(same.id).toBe(one.id);
    const other = await go(results.map((result) => ({ ...result, output: "raining" })));
    expect(other.output_text).toBe("It is raining.");
    expect((await client.responses.retrieve(one.id)).output_text).toBe("It is sunny in Oslo.");
    expect((await http.drover.list()).runs).toHaveLength(2);
  });

  test("answered under a key can be sent again at any time, with what was said beside it", async () => {
    const { client, http } = await createV1Test({ agents: [helper(ask("Oslo"), sum, "Thanks.")] });
    const first = await client.responses.create(request);
    const input: ResponseInputItem[] = [...callsOf(first.output).map(answer), { role: "user", content: "quick" }];
    const send = () =>
      client.responses.create(
        { ...request, previous_response_id: first.id, input },
        { headers: { "Idempotency-Key": "k-1" } },
      );
    const one = await send();
    expect(await send()).toEqual(one);
    expect((await http.drover.list()).runs).toHaveLength(1);
    const said = (await http.drover.get(first.id).transcript()).filter(({ role }) => role === "user");
    expect(said.map(({ content }) => content)).toEqual(["Weather?", "quick"]);
  });

  test("is answered together with words of the user, which follow", async () => {
    const seen: string[] = [];
    const { client } = await createV1Test({
      agents: [
        helper(ask("Oslo"), ({ messages }) => {
          seen.push(...messages.map(({ role, content }) => `${role}: ${textOf(content)}`));
          return "Done.";
        }),
      ],
    });
    const first = await client.responses.create(request);
    const [call] = callsOf(first.output);
    await client.responses.create({
      ...request,
      previous_response_id: first.id,
      input: [...(call ? [answer(call)] : []), { role: "user", content: "and be quick" }],
    });
    expect(seen.slice(0, 3)).toEqual(["user: Weather?", "assistant: Let me see.", "tool: sunny in Oslo"]);
    expect(seen.at(-1)).toBe("user: and be quick");
  });

  test("whose history the caller sends itself goes on with the run that waits", async () => {
    const { client, http } = await createV1Test({ agents: [helper(ask("Oslo"), sum)] });
    const first = await client.responses.create({ ...request, store: false });
    const [call] = callsOf(first.output);
    const input = [{ role: "user", content: "Weather?" }, ...first.output, call && answer(call)] as ResponseInputItem[];
    const second = await client.responses.create({ ...request, store: false, input });
    expect(second.output_text).toBe("It is sunny in Oslo.");
    expect((await http.drover.list()).runs).toHaveLength(1);
    const later = await client.responses.create({ model: "helper", previous_response_id: second.id, input: "Thanks" });
    expect(later.status).toBe("completed");
    expect((await http.drover.list({ session: first.id })).runs).toHaveLength(2);
  });

  test("of a conversation that goes on under other instructions leaves no run waiting", async () => {
    const { client, http } = await createV1Test({ agents: [either("Oslo")] });
    const first = await client.responses.create({ ...request, instructions: "Be brief." });
    const input = callsOf(first.output).map(answer);
    const second = await client.responses.create({
      ...request,
      instructions: "Be kind.",
      previous_response_id: first.id,
      input,
    });
    expect(second.output_text).toBe("It is sunny in Oslo.");
    expect(await http.drover.get(first.id).status()).toMatchObject({ status: "cancelled" });
    expect(await client.responses.retrieve(first.id)).toMatchObject({ status: "completed" });
  });

  test("is not offered with tool_choice none", async () => {
    const { client } = await createV1Test({ agents: [helper(ask("Oslo"), sum)] });
    const response = await client.responses.create({ ...request, tool_choice: "none" });
    expect(callsOf(response.output)).toEqual([]);
  });

  test("leaves nothing waiting when its response is deleted", async () => {
    const held = gate();
    const { client, http } = await createV1Test({ agents: [helper(ask("Oslo"), held.before(sum))] });
    const { id } = await client.responses.create(request);
    await client.responses.delete(id);
    expect(await http.drover.get(id).status()).toMatchObject({ status: "cancelled" });
  });
});

describe("what goes wrong with answers", () => {
  test("an answer that is refused leaves the calls to be answered again, by the same run", async () => {
    const { client, http } = await createV1Test({ agents: [helper(ask("Oslo"), sum)] });
    const first = await client.responses.create(request);
    const [call] = callsOf(first.output);
    const go = (output: string) =>
      client.responses.create({
        ...request,
        previous_response_id: first.id,
        input: [{ type: "function_call_output", call_id: call?.call_id ?? "", output }],
      });
    await expect(go("x".repeat(1_500_000))).rejects.toMatchObject({ status: 413 });
    expect((await go("sunny")).output_text).toBe("It is sunny.");
    expect((await http.drover.list()).runs).toHaveLength(1);
  });

  test("a claim of somebody who died before keeping its response is taken over", async () => {
    let now = Date.now();
    const { client, http } = await createV1Test({
      agents: [helper(ask("Oslo"), sum)],
      clock: { now: () => now },
      deps: { now: () => now },
    });
    const first = await client.responses.create(request);
    const claim = { id: `next_${first.id}_1`, runId: "resp_dead", createdAt: now, afterSeq: 0, request: {} };
    await http.deps.responses.create(claim);
    now += 120_000;
    const input = callsOf(first.output).map(answer);
    const last = await client.responses.create({ ...request, previous_response_id: first.id, input });
    expect(last.output_text).toBe("It is sunny in Oslo.");
    expect((await http.drover.list()).runs).toHaveLength(1);
  });

  test("a tool with the name of one of the agent's is refused", async () => {
    const own = defineTool({
      name: "weather",
      description: "The agent's.",
      parameters: z.object({ city: z.string().describe("where") }),
      effect: "read",
      execute: () => "mild",
    });
    const { client } = await createV1Test({ agents: [makeAgent([sum], { tools: [own] })] });
    await expect(client.responses.create(request)).rejects.toMatchObject({ status: 400, param: "tools[0].name" });
  });

  test("in a conversation the run that waits goes on, and others wait behind it", async () => {
    const { client, http } = await createV1Test({ agents: [either("Oslo")] });
    const talk = { ...request, conversation: "c" };
    const first = await client.responses.create(talk);
    const behind = await client.responses.create({ ...talk, input: "And then?", background: true });
    const last = await client.responses.create({ ...talk, input: callsOf(first.output).map(answer) });
    expect(last.output_text).toBe("It is sunny in Oslo.");
    const next = await client.responses.stream({ response_id: behind.id }).finalResponse();
    expect(callsOf(next.output)).toHaveLength(1);
    expect((await http.drover.list()).runs).toHaveLength(2);
  });
});
