// Catches: results of the caller's tools that go to another call, count in part, or leave no way on.
import type { FunctionTool, Response, ResponseInputItem } from "openai/resources/responses/responses";
import { describe, expect, test } from "vitest";
import { DroverError } from "../../../src/core/errors.ts";
import { textOf } from "../../../src/core/message.ts";
import type { ScriptedReply } from "../../../src/testing/scripted-model.ts";
import { createV1Test, makeAgent } from "./support.ts";

const weather: FunctionTool = {
  type: "function",
  name: "weather",
  description: "The weather.",
  parameters: { type: "object", properties: {} },
  strict: false,
};
/** Asks for the weather, and once it is there says all that came after it was asked for. */
const askOrSay: ScriptedReply = ({ messages }) => {
  const asked = messages.findLastIndex((message) => message.role === "assistant" && message.toolCalls);
  const came = messages.slice(asked + 1).filter(({ role }) => role !== "assistant");
  if (asked !== -1 && came[0]?.role === "tool") {
    return came.map(({ content }) => textOf(content ?? "").slice(0, 20)).join(", ");
  }
  return { toolCalls: ["Oslo", "Rome"].map((city) => ({ name: "weather", arguments: { city } })) };
};
const agent = () => makeAgent([askOrSay, askOrSay]);
const request = { model: "helper", input: "Weather?", tools: [weather] };

const callIdsOf = ({ output }: Response): string[] =>
  output.flatMap((item) => (item.type === "function_call" ? [item.call_id] : []));
const result = (callId: string | undefined, output: string): ResponseInputItem => ({
  type: "function_call_output",
  call_id: callId ?? "",
  output,
});

async function begin(options: Partial<Parameters<typeof createV1Test>[0]> = {}) {
  const { client, http } = await createV1Test({ agents: [agent()], ...options });
  const first = await client.responses.create(request);
  const [oslo, rome] = callIdsOf(first);
  const go = (...input: ResponseInputItem[]): Promise<Response> =>
    client.responses.create({ ...request, previous_response_id: first.id, input });
  return { client, http, first, oslo, rome, go };
}

describe("results of the caller's tools", () => {
  test("of which one call has two are refused, and count for nothing", async () => {
    const { oslo, rome, go } = await begin();
    const twice = go(result(oslo, "sun"), result(rome, "rain"), result(oslo, "snow"));
    await expect(twice).rejects.toMatchObject({ status: 400, param: "input", message: /more than one output/ });
    expect((await go(result(oslo, "wind"), result(rome, "hail"))).output_text).toBe("wind, hail");
  });

  test("of another run's call are refused, and answer no call of this one", async () => {
    const { client, oslo, rome, go } = await begin();
    const [foreign] = callIdsOf(await client.responses.create(request));
    const mixed = go(result(oslo, "sun"), result(rome, "rain"), result(foreign, "snow"));
    await expect(mixed).rejects.toMatchObject({ status: 400, param: "input", message: /No tool call found/ });
    expect((await go(result(oslo, "wind"), result(rome, "hail"))).output_text).toBe("wind, hail");
  });

  test("of calls by another's names are refused", async () => {
    const { oslo, rome, go } = await begin();
    const mixed = go(result(oslo, "sun"), result(rome, "rain"), result("call_abc", "snow"));
    await expect(mixed).rejects.toMatchObject({ status: 400, param: "input" });
  });

  test("are all given anew when one of them was too large, with nothing said twice", async () => {
    const { oslo, rome, go } = await begin({ settings: { bodyLimitBytes: 10_000_000 } });
    const also: ResponseInputItem = { role: "user", content: "also" };
    const large = go(also, result(oslo, "sun"), result(rome, "x".repeat(2_000_000)));
    await expect(large).rejects.toMatchObject({ status: 413 });
    expect((await go(also, result(oslo, "wind"), result(rome, "hail"))).output_text).toBe("wind, hail, also");
  });

  test("go on in a copy when the run was cancelled meanwhile", async () => {
    const { http, first, oslo, rome, go } = await begin();
    await http.drover.get(first.id).cancel();
    expect((await go(result(oslo, "sun"), result(rome, "rain"))).output_text).toBe("sun, rain");
  });

  test("go on in a copy when what went on before was deleted, however long ago", async () => {
    let at = Date.now();
    const { client, oslo, rome, go } = await begin({ deps: { now: () => at } });
    await client.responses.delete((await go(result(oslo, "sun"), result(rome, "rain"))).id);
    at += 120_000;
    expect((await go(result(oslo, "wind"), result(rome, "hail"))).output_text).toBe("wind, hail");
  });
});

test("a response that is deleted takes no run with it that waits for the next one's results", async () => {
  const ask = (city: string): ScriptedReply => ({ toolCalls: [{ name: "weather", arguments: { city } }] });
  const { client, http } = await createV1Test({ agents: [makeAgent([ask("Oslo"), ask("Rome"), "done"])] });
  const first = await client.responses.create(request);
  const go = ({ id }: Response, callId: string | undefined) =>
    client.responses.create({ ...request, previous_response_id: id, input: [result(callId, "sun")] });
  const second = await go(first, callIdsOf(first)[0]);
  await client.responses.delete(first.id);
  expect((await http.drover.get(first.id).status()).status).toBe("waiting");
  expect((await go(second, callIdsOf(second)[0])).output_text).toBe("done");
  expect((await http.drover.get(first.id).status()).status).toBe("completed");
});

test("a response whose run cannot be read now is not deleted without it", async () => {
  const { client, http } = await createV1Test({ agents: [agent()] });
  const { id } = await client.responses.create(request);
  const { load } = http.deps.store;
  http.deps.store.load = () => Promise.reject(new DroverError("queue_unavailable", "Redis is away."));
  await expect(client.responses.delete(id)).rejects.toMatchObject({ status: 503 });
  http.deps.store.load = load;
  expect((await client.responses.retrieve(id)).id).toBe(id);
  await client.responses.delete(id);
  expect((await http.drover.get(id).status()).status).toBe("cancelled");
});

test("what was deleted is no part of what goes on from before it, however long ago it was", async () => {
  let at = Date.now();
  const said: ScriptedReply = ({ messages }) => messages.map(({ content }) => textOf(content ?? "")).join("|");
  const { client } = await createV1Test({ agents: [makeAgent([said])], deps: { now: () => at } });
  const first = await client.responses.create({ model: "helper", input: "one" });
  const go = (input: string) => client.responses.create({ model: "helper", input, previous_response_id: first.id });
  await client.responses.delete((await go("two")).id);
  at += 120_000;
  expect((await go("three")).output_text).toBe("one|one|three");
});
