// Catches: a response that does not survive its connection, its server or its worker, or that is started twice.
import OpenAI, { type ClientOptions } from "openai";
import { zodTextFormat } from "openai/helpers/zod";
import type { FunctionTool, ResponseInputItem, ResponseStreamEvent } from "openai/resources/responses/responses";
import { describe, expect, test } from "vitest";
import { z } from "zod";
import { type FakeAnswer, type FakeReply, type FakeRequest, turnOf } from "../support/fake-openai.ts";
import { startLossyRelay } from "../support/lossy-relay.ts";
import { makePng } from "../support/png.ts";
import { startServerProcess } from "../support/worker-process.ts";
import { makeWorld, type World } from "../support/world.ts";

const words = Array.from({ length: 40 }, (_, index) => `word${index} `);
const whole = words.join("");
/** About two seconds of talk. The last words are shown only when it is sure that they are no part of a secret. */
const slow: FakeReply = { deltas: words, chunkDelayMs: 50 };
const broken: FakeReply = { deltas: words, end: "hold" };

function clientOf(url: string, options: ClientOptions = {}): OpenAI {
  return new OpenAI({ apiKey: "none", baseURL: `${url}/v1`, maxRetries: 0, ...options });
}

type Setting = { world: World; client: OpenAI; server: Awaited<ReturnType<typeof startServerProcess>> };

async function setUp(respond: (request: FakeRequest) => FakeAnswer, agents: string[] = ["e2e"]): Promise<Setting> {
  const world = await makeWorld({ respond, agents });
  const [server] = await Promise.all([startServerProcess(world.options), world.work()]);
  return { world, server, client: clientOf(server.url) };
}

const textOf = (events: readonly ResponseStreamEvent[]): string =>
  events.map((event) => (event.type === "response.output_text.delta" ? event.delta : "")).join("");

function idOf(events: readonly ResponseStreamEvent[]): string {
  const [first] = events;
  return first?.type === "response.created" ? first.response.id : "";
}

async function all(stream: AsyncIterable<ResponseStreamEvent>): Promise<ResponseStreamEvent[]> {
  const events: ResponseStreamEvent[] = [];
  for await (const event of stream) events.push(event);
  return events;
}

const runsOf = async (world: World): Promise<number> => (await world.drover.list()).runs.length;

describe("a response over processes", () => {
  test("is created and waited for, polled in the background, listed and deleted", async () => {
    const { client } = await setUp(() => "Hello there.");
    const plain = await client.responses.create({ model: "e2e", input: "hi" });
    expect(plain).toMatchObject({ status: "completed", output_text: "Hello there." });
    let polled = await client.responses.create({ model: "e2e", input: "hi", background: true });
    expect(polled.status).toBe("queued");
    while (polled.status === "queued" || polled.status === "in_progress") {
      polled = await client.responses.retrieve(polled.id);
    }
    expect(polled).toMatchObject({ status: "completed", output_text: "Hello there." });
    expect((await client.responses.inputItems.list(polled.id)).data).toHaveLength(1);
    await client.responses.delete(polled.id);
    await expect(client.responses.retrieve(polled.id)).rejects.toMatchObject({ status: 404 });
    expect((await client.models.list()).data).toMatchObject([{ id: "e2e" }]);
  });

  test("[D7] [D8] goes on when its stream is cut and its server killed, and is resumed at another where it broke off", async () => {
    const { world, client, server } = await setUp(() => slow);
    const other = await startServerProcess(world.options);
    const stream = await client.responses.create({ model: "e2e", input: "hi", background: true, stream: true });
    const before: ResponseStreamEvent[] = [];
    const cut = async (): Promise<void> => {
      for await (const event of stream) {
        before.push(event);
        if (textOf(before).includes("word5")) server.kill9();
      }
    };
    // The client says in its own words that the connection is gone.
    await expect(cut()).rejects.toThrow();
    const [id, last] = [idOf(before), before.at(-1)?.sequence_number ?? 0];
    expect(textOf(before).length).toBeLessThan(whole.length);

    const second = clientOf(other.url);
    const after = await all(await second.responses.retrieve(id, { stream: true, starting_after: last }));
    expect(after.map(({ sequence_number: number }) => number)).toEqual(after.map((_, index) => last + 1 + index));
    expect(textOf([...before, ...after])).toBe(whole);
    const replay = await all(await second.responses.retrieve(id, { stream: true }));
    expect(replay).toEqual([...before, ...after]);
    const final = await second.responses.stream({ response_id: id }).finalResponse();
    expect(final).toMatchObject({ status: "completed", output_text: whole });
  });

  test("[D8] has one numbered log, whoever watches it at whichever server", async () => {
    const { world, client } = await setUp(() => slow);
    const other = clientOf((await startServerProcess(world.options)).url);
    const { id } = await client.responses.create({ model: "e2e", input: "hi", background: true });
    const watch = async (at: OpenAI) => all(await at.responses.retrieve(id, { stream: true }));
    const [first, ...others] = await Promise.all([client, other, client, other, other].map(watch));
    for (const events of others) expect(events).toEqual(first);
    expect(textOf(first ?? [])).toBe(whole);
  });

  test("whose worker is killed in mid-text begins that text anew, and the helper ends with the right one", async () => {
    const world = await makeWorld({
      respond: ({ index }) => (index === 0 ? broken : "All of it."),
    });
    const [server, holder] = await Promise.all([startServerProcess(world.options), world.work()]);
    const stream = clientOf(server.url).responses.stream({ model: "e2e", input: "hi" });
    const items: unknown[] = [];
    let replaced: Promise<unknown> | undefined;
    stream.on("event", (event) => {
      if (event.type === "response.output_item.done") items.push(event.item);
    });
    stream.on("response.output_text.delta", ({ snapshot }) => {
      if (replaced || !snapshot.includes("word30")) return;
      holder.kill9();
      replaced = world.work();
    });
    const final = await stream.finalResponse();
    await replaced;
    expect(final).toMatchObject({ status: "completed", output_text: "All of it." });
    expect(items).toMatchObject([
      { status: "incomplete", content: [{ text: expect.stringMatching(/^word0 .*word30/) }] },
      { status: "completed", content: [{ text: "All of it." }] },
    ]);
  });

  test("is cancelled while it talks, and every watcher is told", async () => {
    const { client } = await setUp(() => broken);
    const stream = await client.responses.create({ model: "e2e", input: "hi", background: true, stream: true });
    const events: ResponseStreamEvent[] = [];
    for await (const event of stream) {
      events.push(event);
      if (event.type === "response.output_text.delta") await client.responses.cancel(idOf(events));
    }
    expect(events.at(-1)).toMatchObject({ type: "response.incomplete", response: { status: "cancelled", output: [] } });
    expect(await client.responses.cancel(idOf(events))).toMatchObject({ status: "cancelled" });
  });

  test("that nobody waits for any more goes on", async () => {
    const { world, client } = await setUp(() => slow);
    const gone = new AbortController();
    const plain = client.responses.create({ model: "e2e", input: "hi" }, { signal: gone.signal });
    await world.server.received(0);
    gone.abort();
    await expect(plain).rejects.toThrow();
    const [run] = (await world.drover.list()).runs;
    expect(await world.drover.get(run?.runId ?? "").result({ timeoutMs: 30_000 })).toMatchObject({
      output: whole.trim(),
    });
  });
});

/** A client that names each of its calls, so that one sent again is known. */
class KeyedClient extends OpenAI {
  protected override idempotencyHeader = "Idempotency-Key";
}

describe("a request whose connection is reset before its answer comes", () => {
  const body = { model: "e2e", input: "hi there" };

  async function sendLossy(make: (baseURL: string) => PromiseLike<OpenAI.Responses.Response>) {
    const { world, server } = await setUp(() => "Hello there.");
    const relay = await startLossyRelay(server.url);
    try {
      relay.loseReplyTo("hi there");
      const response = await make(`${relay.url.replace("redis:", "http:")}/v1`);
      return { response, lost: relay.lost(), runs: await runsOf(world) };
    } finally {
      await relay.close();
    }
  }

  const retrying = (baseURL: string): ClientOptions => ({ apiKey: "none", baseURL, maxRetries: 2 });

  test.each([
    ["a client that names its calls", (url: string) => new KeyedClient(retrying(url)).responses.create(body)],
    [
      "a header",
      (url: string) => new OpenAI(retrying(url)).responses.create(body, { headers: { "Idempotency-Key": "k-1" } }),
    ],
    [
      "a key in the metadata",
      (url: string) => new OpenAI(retrying(url)).responses.create({ ...body, metadata: { idempotency_key: "k-1" } }),
    ],
  ])("[D8] starts one run, known by %s", async (_how, make) => {
    const { response, lost, runs } = await sendLossy(make);
    expect(response).toMatchObject({ status: "completed", output_text: "Hello there." });
    expect({ lost, runs }).toEqual({ lost: 1, runs: 1 });
  });

  test("starts two runs if nothing names it: the client sends no key of its own", async () => {
    const { lost, runs } = await sendLossy((url) =>
      // The option of that name is not sent: only the header is.
      new OpenAI(retrying(url)).responses.create(body, { idempotencyKey: "k-1" }),
    );
    expect({ lost, runs }).toEqual({ lost: 1, runs: 2 });
  });
});

const weather: FunctionTool = {
  type: "function",
  name: "weather",
  description: "The weather.",
  parameters: { type: "object", properties: { city: { type: "string" } }, required: ["city"] },
  strict: false,
};

/** Asks for the weather, and says what it got; without a question it repeats the last words. */
function chat({ body }: FakeRequest): FakeReply {
  const last = body.messages.at(-1);
  if (last?.role === "tool") return { text: `It is ${String(last.content)}.` };
  const said = String(last?.content);
  if (!said.includes("Weather")) return { text: `turn ${turnOf(body)}: ${said}` };
  return { toolCalls: [{ name: "weather", arguments: { city: said.split(" ").at(-1) ?? "" } }] };
}

describe("a conversation over processes", () => {
  test("goes on over three responses, and branches", async () => {
    const { world, client } = await setUp(chat);
    const ask = (input: string, previous?: string) =>
      client.responses.create({ model: "e2e", input, ...(previous ? { previous_response_id: previous } : {}) });
    const one = await ask("one");
    const two = await ask("two", one.id);
    const three = await ask("three", two.id);
    const other = await ask("other", one.id);
    expect([one, two, three, other].map(({ output_text: text }) => text)).toEqual([
      "turn 1: one",
      "turn 2: two",
      "turn 3: three",
      "turn 2: other",
    ]);
    expect((await world.drover.list({ session: one.id })).runs).toHaveLength(3);
  });

  test("calls the caller's tools, over both APIs, in one run each", async () => {
    const { world, client } = await setUp(chat);
    const first = await client.responses.create({ model: "e2e", input: "Weather in Oslo", tools: [weather] });
    const [call] = first.output;
    if (call?.type !== "function_call") throw new Error("no call");
    const input: ResponseInputItem[] = [{ type: "function_call_output", call_id: call.call_id, output: "sunny" }];
    const last = client.responses.stream({ model: "e2e", input, previous_response_id: first.id, tools: [weather] });
    expect((await last.finalResponse()).output_text).toBe("It is sunny.");
    expect(await runsOf(world)).toBe(1);

    const runner = client.chat.completions.runTools({
      model: "e2e",
      stream: true,
      messages: [{ role: "user", content: "Weather in Rome" }],
      tools: [
        {
          type: "function",
          function: {
            name: "weather",
            description: "The weather.",
            parameters: { type: "object", properties: { city: { type: "string" } } },
            parse: JSON.parse,
            function: ({ city }: { city: string }) => `mild in ${city}`,
          },
        },
      ],
    });
    expect(await runner.finalContent()).toBe("It is mild in Rome.");
    expect(await runsOf(world)).toBe(2);
  });

  test("is a chat completion too, whole and in chunks", async () => {
    const { client } = await setUp(chat);
    const request = { model: "e2e", messages: [{ role: "user" as const, content: "one" }] };
    expect((await client.chat.completions.create(request)).choices[0]?.message.content).toBe("turn 1: one");
    expect(await client.chat.completions.stream(request).finalContent()).toBe("turn 1: one");
  });

  test("shows a model the images that it holds, and brings back the value that an agent answers with", async () => {
    const respond = ({ body }: FakeRequest): FakeReply => ({
      text: '{"city":"Oslo","degrees":7}',
      extra: { image: JSON.stringify(body.messages).includes("data:image/png") },
    });
    const { world, client } = await setUp(respond, ["e2e", "typed"]);
    const output = z.object({ city: z.string(), degrees: z.number() });
    const png = makePng(8, 8);
    const response = await client.responses.parse({
      model: "typed",
      input: [
        {
          role: "user",
          content: [
            { type: "input_text", text: "Where is this?" },
            {
              type: "input_image",
              image_url: `data:image/png;base64,${Buffer.from(png).toString("base64")}`,
              detail: "auto",
            },
          ],
        },
      ],
      text: { format: zodTextFormat(output, "place") },
    });
    expect(response.output_parsed).toEqual({ city: "Oslo", degrees: 7 });
    expect(JSON.stringify(world.server.requests[0]?.body.messages)).toContain("data:image/png;base64,");
  });
});
