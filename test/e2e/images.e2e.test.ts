// Catches: an image that is lost, changed or moved on its way through Redis and workers, and a run that fails because
// its model's server takes no images. The servers' refusals are theirs, word for word.
import { expect, test } from "vitest";
import type { ContentPart } from "../../src/core/message.ts";
import type { RunHandle } from "../../src/engine/run-handle.ts";
import { filePart, imagePart, textPart } from "../../src/tools/parts.ts";
import type { FakeAnswer, FakeBody, FakeMessage, FakeRequest } from "../support/fake-openai.ts";
import { makePng } from "../support/png.ts";
import { problemsOf } from "../support/transcript.ts";
import { makeWorld, resultsOf, type World } from "../support/world.ts";

const photo = makePng(640, 480, 100_000);
const drawnBytes = 50_000;
const drawing = makePng(8, 8, drawnBytes);
const input = (name: string): ContentPart[] => [textPart(`${name} What is this?`), imagePart(photo)];
const start = (world: World, name: string, agent = "e2e"): Promise<RunHandle> =>
  world.drover.start(agent, [{ role: "user", content: input(name) }], { runId: name });

const drawTwice = [1, 2].map((number) => ({ name: "draw", arguments: { note: `n${number}`, bytes: drawnBytes } }));

/** Two drawings in the first turn, a look in the second, then the answer. */
function play({ body }: FakeRequest): FakeAnswer {
  // Turns are counted by the calls made: an assistant may also have spoken to keep the order of roles.
  const turn = body.messages.filter(({ tool_calls }) => tool_calls).length + 1;
  if (turn === 1) return { toolCalls: drawTwice };
  return turn === 2 ? { toolCalls: [{ name: "look", arguments: { note: "b" } }] } : "Seen.";
}

/** The bytes of all images of a message, in order. */
function imagesOf({ content }: FakeMessage): Buffer[] {
  const parts = Array.isArray(content) ? (content as { image_url?: { url: string } }[]) : [];
  return parts.flatMap(({ image_url }) =>
    image_url ? [Buffer.from(image_url.url.split(",")[1] ?? "", "base64")] : [],
  );
}

const holdsData = (body: FakeBody): boolean => JSON.stringify(body).includes("base64");
const drawn = "image/png, 8x8, 50 KB";

test("a server that takes images gets them byte for byte, at the same place on every turn", async () => {
  const world = await makeWorld({ respond: play });
  await world.work();
  const run = await start(world, "seen");
  await resultsOf([run], 30_000);
  const [first, second, third] = world.server.requests.map(({ body }) => body.messages);
  expect(first?.map(({ role }) => role)).toEqual(["system", "user"]);
  expect(second?.map(({ role }) => role)).toEqual(["system", "user", "assistant", "tool", "tool", "user"]);
  expect(imagesOf(second?.[1] ?? { role: "" })).toEqual([photo]);
  expect(imagesOf(second?.[5] ?? { role: "" })).toEqual([drawing, drawing]);
  expect(second?.[4]?.content).toContain(`[image 1 of call draw #2: ${drawn}: shown below]`);
  // What was sent once is the beginning of what is sent next.
  expect(second?.slice(0, 2)).toEqual(first);
  expect(third?.slice(0, 6)).toEqual(second);
  expect(third?.slice(6).map(({ role }) => role)).toEqual(["assistant", "tool"]);
  expect(problemsOf(await run.transcript())).toEqual([]);
});

const error = (message: string, more: object = {}): Record<string, unknown> => ({ error: { message, ...more } });
const families: Record<string, { status: number; body: unknown }> = {
  openai: { status: 400, body: error("Invalid content type. image_url is only supported by certain models.") },
  vllm: { status: 400, body: { object: "error", message: "a/b is not a multimodal model", code: 400 } },
  llamacpp: {
    status: 500,
    body: error("image input is not supported - hint: if this is unexpected, you may need to provide the mmproj"),
  },
  ollama: { status: 500, body: error("this model is missing data required for image input") },
  groq: { status: 400, body: error("messages[1].content must be a string") },
  deepseek: {
    status: 400,
    body: error(
      "Failed to deserialize the JSON body into the target type: messages[1]: unknown variant `image_url`, expected `text`",
    ),
  },
  mistral: { status: 400, body: { object: "error", message: "Image input is not enabled for this model" } },
  openrouter: { status: 404, body: error("No endpoints found that support image input", { code: 404 }) },
  gemini: { status: 400, body: [error("Image input modality is not enabled for models/gemma-3-1b-it", { code: 400 })] },
};

test("where a server refuses images, in whatever words, the run completes with descriptions", async () => {
  const nameOf = ({ messages }: FakeBody): string => /"(\w+) What is this/.exec(JSON.stringify(messages))?.[1] ?? "";
  const world = await makeWorld({
    agents: Object.keys(families),
    respond: (request) => (holdsData(request.body) ? (families[nameOf(request.body)] ?? "") : play(request)),
  });
  const worker = await world.work({ logLevel: "debug" });
  const runs = await Promise.all(Object.keys(families).map((name) => start(world, name, name)));
  const results = await resultsOf(runs, 60_000);
  expect(results.map(({ status, output }) => `${status}: ${output}`)).toEqual(runs.map(() => "completed: Seen."));
  for (const name of Object.keys(families)) {
    const bodies = world.server.requests.map(({ body }) => body).filter((body) => nameOf(body) === name);
    // Refused once, remembered after.
    expect(bodies.map(holdsData)).toEqual([true, false, false, false]);
    const last = bodies.at(-1)?.messages ?? [];
    expect(last[1]?.content).toBe(`${name} What is this?\n\n[image: image/png, 640x480, 100 KB: you cannot see it]`);
    expect(last[3]?.content).toBe(
      `{"said":"draw: n1","drawing":"[image 1]"}\n\n[image 1 of call draw: ${drawn}: you cannot see it]`,
    );
    expect(last.map(({ role }) => role)).toEqual(["system", "user", "assistant", "tool", "tool", "assistant", "tool"]);
  }
  expect(worker.logLines().join("\n")).not.toMatch(/base64|[A-Za-z0-9+/]{200}/);
});

/** What a strict template allows: user and assistant in turns, calls and results apart (corpus case 042). */
function alternates({ messages }: FakeBody): boolean {
  const spoken = messages.filter(({ role, tool_calls }) => role !== "system" && role !== "tool" && !tool_calls);
  return spoken.every(({ role }, index) => role === (index % 2 === 0 ? "user" : "assistant"));
}

test.each([
  [
    500,
    "Jinja Exception: After the optional system message, conversation roles must alternate user and assistant roles.",
  ],
  [400, "Unexpected role 'user' after role 'tool'"],
])("a server of strict turns that says %i: the images come after a word of the assistant", async (status, message) => {
  const world = await makeWorld({
    respond: (request) => (alternates(request.body) ? play(request) : { status, body: error(message) }),
  });
  await world.work();
  const [result] = await resultsOf([await start(world, "strict")], 30_000);
  expect(result?.status).toBe("completed");
  const bodies = world.server.requests.map(({ body }) => body);
  expect(bodies.map(alternates)).toEqual([true, false, true, true]);
  const last = bodies.at(-1)?.messages ?? [];
  expect(last.slice(5, 7).map(({ role }) => role)).toEqual(["assistant", "user"]);
  expect(imagesOf(last[6] ?? { role: "" })).toEqual([drawing, drawing]);
});

test("a server that takes nothing after results gets descriptions of what tools brought", async () => {
  const refuses = ({ messages }: FakeBody): boolean => {
    const first = messages.findIndex(({ role }) => role === "tool");
    return first !== -1 && messages.slice(first).some(({ role }) => role === "user");
  };
  const refusal = { status: 400, body: error("Unexpected role 'user' after role 'tool'") };
  const world = await makeWorld({ respond: (request) => (refuses(request.body) ? refusal : play(request)) });
  await world.work();
  const [result] = await resultsOf([await start(world, "stern")], 30_000);
  expect(result?.status).toBe("completed");
  const last = world.server.requests.at(-1)?.body.messages ?? [];
  // The input's image is still shown.
  expect(imagesOf(last[1] ?? { role: "" })).toEqual([photo]);
  expect(last[3]?.content).toContain(`[image 1 of call draw: ${drawn}: you cannot see it]`);
});

test("a worker killed after a tool's image, before the model has answered: the next worker sends it", async () => {
  // The second request is never answered: that worker dies with the drawings committed and nothing after them.
  const never = new Promise<never>(() => {});
  const world = await makeWorld({ respond: (request) => (request.index === 1 ? never : play(request)) });
  const worker = await world.work();
  const run = await start(world, "killed");
  await world.server.received(1);
  worker.kill9();
  await worker.exit;
  await world.work();
  const [result] = await resultsOf([run], 60_000);
  expect(result?.status).toBe("completed");
  const [, before, after] = world.server.requests.map(({ body }) => body.messages);
  expect(after).toEqual(before);
  expect(imagesOf(after?.[1] ?? { role: "" })).toEqual([photo]);
  expect(imagesOf(after?.[5] ?? { role: "" })).toEqual([drawing, drawing]);
  expect(world.ledger.entries().filter(({ tool }) => tool === "draw")).toHaveLength(2);
});

test("input that cannot be meant is refused, and says what was expected", async () => {
  const world = await makeWorld({ respond: play });
  const content = [textPart("Look:"), { type: "image_url", image_url: { path: "a.png" } }];
  await expect(world.drover.start("e2e", [{ role: "user", content }])).rejects.toMatchObject({
    code: "invalid",
    message: expect.stringMatching(/image_url\.url.*https URL/),
  });
  const large = filePart(makePng(1, 1, 2_000_000));
  await expect(world.drover.start("e2e", [{ role: "user", content: [large] }])).rejects.toMatchObject({
    code: "too_large",
  });
});
