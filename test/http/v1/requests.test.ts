// Catches: a request that starts something else than was meant, starts it twice, or is answered in a shape clients cannot read.
import type OpenAI from "openai";
import { zodTextFormat } from "openai/helpers/zod";
import { describe, expect, test } from "vitest";
import { z } from "zod";
import type { Message } from "../../../src/core/message.ts";
import { defineAgent } from "../../../src/define-agent.ts";
import { type ScriptedReply, scriptedModel } from "../../../src/testing/scripted-model.ts";
import { json } from "../../support/http.ts";
import { createV1Test, makeAgent, type V1 } from "./support.ts";

const hello = "Hello there.";
const runsOf = async ({ http }: V1): Promise<number> => (await http.drover.list()).runs.length;

describe("agents as models", () => {
  test("are listed and found by name", async () => {
    const { client } = await createV1Test({ agents: [makeAgent([hello]), makeAgent([hello], { name: "other" })] });
    const ids: string[] = [];
    for await (const model of client.models.list()) ids.push(model.id);
    expect(ids).toEqual(["helper", "other"]);
    expect(await client.models.retrieve("other")).toMatchObject({ id: "other", object: "model", owned_by: "drover" });
    await expect(client.models.retrieve("nobody")).rejects.toMatchObject({ status: 404, code: "model_not_found" });
  });

  test("that no worker has told of are not found", async () => {
    const v1 = await createV1Test({ agents: [makeAgent([hello])] });
    const asked = v1.client.responses.create({ model: "gpt-5", input: "hi" });
    await expect(asked).rejects.toMatchObject({ status: 404, code: "model_not_found", param: "model" });
    expect(await runsOf(v1)).toBe(0);
  });
});

describe("the same request sent again", () => {
  const body = { model: "helper", input: "hi" };

  test("with the same key is the same response, in whichever way it is watched", async () => {
    const v1 = await createV1Test({ agents: [makeAgent([hello])] });
    const { client } = v1;
    const headers = { "Idempotency-Key": "k1" };
    const first = await client.responses.create({ ...body, background: true }, { headers });
    const again = await client.responses.create({ ...body, background: true, stream: true }, { headers });
    const ids = new Set<string>();
    for await (const event of again) if ("response" in event) ids.add(event.response.id);
    expect([...ids]).toEqual([first.id]);
    expect(await client.responses.create({ ...body, background: true }, { headers })).toMatchObject({
      id: first.id,
      status: "completed",
    });
    expect(await runsOf(v1)).toBe(1);
  });

  test("by many at once is one run", async () => {
    const v1 = await createV1Test({ agents: [makeAgent([hello])] });
    const metadata = { idempotency_key: "k2" };
    const all = await Promise.all(Array.from({ length: 10 }, () => v1.client.responses.create({ ...body, metadata })));
    expect(new Set(all.map(({ id }) => id)).size).toBe(1);
    expect(all[0]).toMatchObject({ status: "completed", metadata });
    expect(await runsOf(v1)).toBe(1);
  });

  test("with another body is refused as that even where the first response was deleted and its run was not", async () => {
    const keys = { app: { scopes: ["start" as const, "read" as const, "decide" as const] } };
    const v1 = await createV1Test({ agents: [makeAgent([hello])], keys });
    const client = v1.clientOf({ apiKey: v1.http.authorization("app").authorization?.slice("Bearer ".length) ?? "" });
    const headers = { "Idempotency-Key": "k4" };
    await client.responses.delete((await client.responses.create(body, { headers })).id);
    const other = client.responses.create({ ...body, input: "ho" }, { headers });
    await expect(other).rejects.toMatchObject({ status: 400, code: "idempotency_error" });
  });

  test("with another body is refused, and not sent a third time", async () => {
    const v1 = await createV1Test({ agents: [makeAgent([hello])] });
    let sent = 0;
    const client = v1.clientOf({
      maxRetries: 2,
      fetch: (url, init) => {
        sent += 1;
        const headers = new Headers(init?.headers);
        headers.delete("authorization");
        return v1.http.fetch(new Request(url, { ...init, headers }));
      },
    });
    const headers = { "Idempotency-Key": "k3" };
    await client.responses.create(body, { headers });
    const other = client.responses.create({ ...body, input: "ho" }, { headers });
    await expect(other).rejects.toMatchObject({ status: 400, code: "idempotency_error", type: "idempotency_error" });
    expect(sent).toBe(2);
    await expect(
      client.responses.create(body, { headers: { "Idempotency-Key": "k".repeat(300) } }),
    ).rejects.toMatchObject({
      param: "Idempotency-Key",
    });
  });

  test("of two tenants is two runs, and neither sees the other's", async () => {
    const keys = {
      a: { scopes: ["start", "read", "decide"] as const, tenant: "acme" },
      b: { scopes: ["start", "read", "decide"] as const, tenant: "bolt" },
    };
    const given = Object.fromEntries(
      Object.entries(keys).map(([name, key]) => [name, { ...key, scopes: [...key.scopes] }]),
    );
    const v1 = await createV1Test({ agents: [makeAgent([hello])], keys: given });
    const clientOf = (name: string): OpenAI =>
      v1.clientOf({ apiKey: v1.http.authorization(name).authorization?.slice("Bearer ".length) ?? "" });
    const headers = { "Idempotency-Key": "k4" };
    const [a, b] = [clientOf("a"), clientOf("b")];
    const [ofA, ofB] = [await a.responses.create(body, { headers }), await b.responses.create(body, { headers })];
    expect(ofA.id).not.toBe(ofB.id);
    const looks: (() => PromiseLike<unknown>)[] = [
      () => b.responses.retrieve(ofA.id),
      () => b.responses.retrieve(ofA.id, { stream: true }),
      () => b.responses.cancel(ofA.id),
      () => b.responses.delete(ofA.id),
      () => b.responses.inputItems.list(ofA.id),
    ];
    for (const look of looks) await expect(look()).rejects.toMatchObject({ status: 404 });
    const next = b.responses.create({ ...body, previous_response_id: ofA.id });
    await expect(next).rejects.toMatchObject({ code: "previous_response_not_found" });
    const more = await a.responses.create({ ...body, previous_response_id: ofA.id });
    expect(more.status).toBe("completed");
    await expect(v1.clientOf({ apiKey: "wrong" }).models.list()).rejects.toMatchObject({
      status: 401,
      code: "invalid_api_key",
    });
  });
});

describe("a request that cannot be honoured", () => {
  test.each([
    ["no model", { model: undefined }, "model"],
    ["no input", { input: undefined }, "input"],
    ["an empty list", { input: [] }, "input"],
    ["an item of no known kind", { input: [{ type: "web_search_call", id: "x" }] }, "input[0].type"],
    ["a role of no known kind", { input: [{ role: "robot", content: "x" }] }, "input[0].role"],
    [
      "a part of no known kind",
      { input: [{ role: "user", content: [{ type: "input_video" }] }] },
      "input[0].content[0].type",
    ],
    [
      "an image that is none",
      { input: [{ role: "user", content: [{ type: "input_image", image_url: "x" }] }] },
      "input[0].content[0].image_url",
    ],
    [
      "a file by its id",
      { input: [{ role: "user", content: [{ type: "input_file", file_id: "f" }] }] },
      "input[0].content[0].file_id",
    ],
    [
      "a call without a result",
      { input: [{ type: "function_call", call_id: "a", name: "b", arguments: "{}" }] },
      "input",
    ],
    ["a hosted tool", { tools: [{ type: "web_search" }] }, "tools[0].type"],
    ["a tool without a name", { tools: [{ type: "function" }] }, "tools[0].name"],
    ["a tool whose name no model may say", { tools: [{ type: "function", name: "a.b" }] }, "tools[0].name"],
    ["a tool of Drover's name", { tools: [{ type: "function", name: "read_result" }] }, "tools[0].name"],
    ["parameters that are none", { tools: [{ type: "function", name: "a", parameters: "x" }] }, "tools[0].parameters"],
    [
      "two tools of one name",
      {
        tools: [
          { type: "function", name: "a" },
          { type: "function", name: "a" },
        ],
      },
      "tools[1].name",
    ],
    ["a forced call", { tools: [{ type: "function", name: "a" }], tool_choice: "required" }, "tool_choice"],
    [
      "one call at a time",
      { tools: [{ type: "function", name: "a" }], parallel_tool_calls: false },
      "parallel_tool_calls",
    ],
    ["a template", { prompt: { id: "p" } }, "prompt"],
    ["two histories", { previous_response_id: "resp_a", conversation: "c" }, "conversation"],
    ["metadata that is no text", { metadata: { a: 1 } }, "metadata.a"],
    ["a form the agent has not", { text: { format: { type: "json_object" } } }, "text.format"],
    ["a form there is not", { text: { format: { type: "grammar" } } }, "text.format.type"],
  ])("is refused for %s, naming the field", async (_what, more, param) => {
    const v1 = await createV1Test({ agents: [makeAgent([hello])] });
    const asked = v1.client.post("/responses", { body: { model: "helper", input: "hi", ...more } });
    await expect(asked).rejects.toMatchObject({ status: 400, param, type: "invalid_request_error" });
    expect(await runsOf(v1)).toBe(0);
  });

  test("is told so in OpenAI's shape, whoever refuses it", async () => {
    const { http } = await createV1Test({ agents: [makeAgent([hello])], settings: { bodyLimitBytes: 1_000 } });
    for (const [path, init, status] of [
      ["/v1/responses", json({ model: "helper", input: "x".repeat(2_000) }), 413],
      ["/v1/responses", { ...json({}), body: "{" }, 400],
      ["/v1/responses/resp_none", {}, 404],
      ["/v1/nothing", {}, 404],
      ["/v1/responses/resp_none", json({}), 404],
    ] as const) {
      const response = await http.fetch(path, init);
      expect([path, response.status]).toEqual([path, status]);
      expect(response.headers.get("x-request-id")).toMatch(/./);
      expect(response.headers.get("content-type")).toContain("application/json");
      expect(await response.json()).toEqual({
        error: {
          message: expect.any(String),
          type: "invalid_request_error",
          param: expect.toSatisfy(isTextOrNull),
          code: expect.toSatisfy(isTextOrNull),
        },
      });
    }
  });

  test("is refused to a key without the scope for it", async () => {
    const keys = { reader: { scopes: ["read" as const] }, starter: { scopes: ["start" as const] } };
    const v1 = await createV1Test({ agents: [makeAgent([hello])], keys });
    const clientOf = (name: string): OpenAI =>
      v1.clientOf({ apiKey: v1.http.authorization(name).authorization?.slice("Bearer ".length) ?? "" });
    const created = await clientOf("starter").responses.create({ model: "helper", input: "hi", background: true });
    const refused: (() => PromiseLike<unknown>)[] = [
      () => clientOf("reader").responses.create({ model: "helper", input: "hi" }),
      () => clientOf("starter").responses.retrieve(created.id),
      () => clientOf("reader").responses.cancel(created.id),
      () => clientOf("reader").responses.delete(created.id),
    ];
    for (const ask of refused) {
      await expect(ask()).rejects.toMatchObject({ status: 403, message: expect.stringContaining("scope") });
    }
    expect((await clientOf("reader").responses.retrieve(created.id)).id).toBe(created.id);
  });

  test("is taken for all that it says beside, where the agent decides", async () => {
    const { client } = await createV1Test({ agents: [makeAgent([hello])] });
    const body = {
      model: "helper",
      input: "hi",
      temperature: 0.2,
      max_output_tokens: 10,
      truncation: "auto",
      whatever: 1,
    };
    expect(await client.post("/responses", { body })).toMatchObject({ status: "completed", temperature: null });
  });
});

const isTextOrNull = (value: unknown): boolean => value === null || typeof value === "string";

describe("what a request holds", () => {
  test("comes to the model: roles, images and files in their places", async () => {
    const seen: Message[][] = [];
    const model: ScriptedReply = ({ messages }) => {
      seen.push(messages);
      return "Done.";
    };
    const { client } = await createV1Test({ agents: [makeAgent([model])] });
    const image = "data:image/png;base64,AAAA";
    const file = "data:text/plain;base64,AAAA";
    await client.responses.create({
      model: "helper",
      instructions: "Be brief.",
      input: [
        { role: "system", content: "one" },
        { type: "message", role: "user", content: [{ type: "input_text", text: "two" }] },
        {
          type: "message",
          role: "assistant",
          content: [{ type: "output_text", text: "three", annotations: [] }],
          id: "m",
          status: "completed",
        },
        { type: "reasoning", id: "r", summary: [] },
        {
          role: "user",
          content: [
            { type: "input_text", text: "four" },
            { type: "input_image", image_url: image, detail: "low" },
            { type: "input_file", file_data: file, filename: "a.txt" },
          ],
        },
      ],
    });
    expect(seen[0]).toEqual([
      { role: "developer", content: "Be brief." },
      { role: "system", content: "one" },
      { role: "user", content: "two" },
      { role: "assistant", content: "three" },
      {
        role: "user",
        content: [
          { type: "text", text: "four" },
          { type: "image_url", image_url: { url: image, detail: "low" } },
          { type: "file", file: { file_data: file, filename: "a.txt" } },
        ],
      },
    ]);
  });

  test("an agent's output is parsed by the client, fenced or not, and no other schema is taken", async () => {
    const output = z.object({ city: z.string().describe("where"), degrees: z.number() });
    const text = '```json\n{"city":"Oslo","degrees":7}\n```';
    const agent = defineAgent({
      name: "helper",
      instructions: "Help.",
      model: scriptedModel([{ text, deltas: ["```json\n", '{"city":"Oslo",', '"degrees":7}\n```'] }]),
      tools: [],
      output,
    });
    const { client } = await createV1Test({ agents: [agent] });
    const format = zodTextFormat(output, "weather");
    const parsed = await client.responses.parse({ model: "helper", input: "hi", text: { format } });
    expect(parsed.output_parsed).toEqual({ city: "Oslo", degrees: 7 });
    const streamed = client.responses.stream({ model: "helper", input: "hi", text: { format } });
    expect((await streamed.finalResponse()).output_parsed).toEqual({ city: "Oslo", degrees: 7 });
    const other = zodTextFormat(z.object({ country: z.string() }), "weather");
    const refused = client.responses.parse({ model: "helper", input: "hi", text: { format: other } });
    await expect(refused).rejects.toMatchObject({ status: 400, param: "text.format.schema" });
  });
});
